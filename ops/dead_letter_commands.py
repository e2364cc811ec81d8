"""Which commands does `labferry dead-letters` have? The work is done in ops.dead_letters."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ops.arguments import Config, DryRun, Json, Reason, Yes, load
from ops.selecting import selecting

Key = Annotated[str, typer.Argument(metavar="KEY", help="INSTRUMENT/RUN/PATH")]

dead_letters_app = typer.Typer(
    no_args_is_help=True,
    help="Work on what stopped: files that failed for good and wait for a person.",
)


@dead_letters_app.command("list")
@selecting
def list_dead_letters(
    selector: Any,
    files: Annotated[bool, typer.Option("--files", help="One line a file.")] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """List what stopped, by cause: how many files, since when, why, and what to do.

    Without a selector it lists all; also messages that nobody could decode, and events that could
    not be delivered.
    """
    from labferry.ledger import open_ledger
    from ops.dead_letters import list_letters

    ledger = open_ledger(load(config, "dead-letters").ledger)
    list_letters(ledger, selector, files=files, as_json=json)


@dead_letters_app.command("show")
def show_dead_letter(key: Key, config: Config = None, json: Json = False) -> None:
    """Show one with every attempt, and what operators did to it."""
    from labferry.ledger import open_ledger
    from ops.dead_letters import show_letter

    show_letter(open_ledger(load(config, "dead-letters").ledger), key, as_json=json)


@dead_letters_app.command("export")
@selecting
def export_dead_letters(
    selector: Any,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="There whole or not at all; else stdout."),
    ] = None,
    config: Config = None,
) -> None:
    """Write them as JSON, one a line, with every attempt."""
    from labferry.ledger import open_ledger
    from ops.dead_letters import export_letters

    export_letters(open_ledger(load(config, "dead-letters").ledger), selector, output)


@dead_letters_app.command("discard")
@selecting
def discard_dead_letters(
    selector: Any,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Give files up: shows which, asks, and records who and why.

    Their runs stay incomplete and their history stays; `labferry replay` sends them in again.
    """
    from labferry.ledger import open_ledger
    from ops.consent import act_of
    from ops.deliveries import DISCARD, How, change_deliveries
    from ops.discard import discard_letters

    act = act_of("discard", reason, str(selector))
    ledger = open_ledger(load(config, "dead-letters").ledger)
    if selector.sink:
        how = How(dry_run=dry_run, yes=yes, as_json=json)
        raise typer.Exit(change_deliveries(ledger, selector, act, DISCARD, how))
    raise typer.Exit(discard_letters(ledger, selector, act, dry_run=dry_run, yes=yes, as_json=json))
