"""How are sizes, counts, times and run states written for a person, in 80 columns?

Colour never is the only signal: every state is also a word.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from rich.console import Console
from rich.filesize import decimal

from labferry.completion import RunState

STYLE_OF_RUN = {
    RunState.OPEN: "cyan",
    RunState.STALE: "bold yellow",
    RunState.SEALED: "blue",
    RunState.INCOMPLETE: "bold red",
    RunState.COMPLETE: "green",
    RunState.CLOSED: "yellow",
}


def terminal(*, soft_wrap: bool = False, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console that shows text as it is: `[ledger]` and `:x:` are no markup, but names."""
    return Console(
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=soft_wrap,
        stderr=stderr,
        quiet=quiet,
    )


def size(count: float) -> str:
    """Return bytes as people write them, such as '1.2 GB'."""
    return decimal(round(count))


def counted(count: int, noun: str = "file") -> str:
    """Return such as '1 file' and '3,000 files'."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def duration(seconds: float) -> str:
    """Return a time span, such as '2:05' or '1:02:05'."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def instant(at_ms: int) -> str:
    """Return an instant of the ledger's clock, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def tell_change(
    sentence: str, facts: Mapping[str, object], *, dry_run: bool, as_json: bool
) -> None:
    """Print what a command changed, or with `dry_run` what it would have."""
    if as_json:
        print(json.dumps({**facts, "dry_run": dry_run}, ensure_ascii=False))
    else:
        print(f"Nothing was changed. Without --dry-run: {sentence}" if dry_run else sentence)
