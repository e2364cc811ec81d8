"""A site whose files were refused for one cause, which a test mends or not."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labferry.identity import FileKey, RunKey
from labferry.records import FileRecord, Note
from labferry.settings import StoreSettings
from labferry.states import Event, State
from ops.embedded import Valkey
from tests.fault_proxy import FaultProxy
from tests.faults import Answer, Hold, rule
from tests.site import Site, open_site

RUN = RunKey("scope", "movie")
REASON = ("--reason", "LIMS-7: the policy was mended")
DENIED = rule(Answer(status=403, code="AccessDenied"), on="PutObject", key="*/raw/*/bad-*")


class Refused:
    """The site, the proxy before its bucket, and short words for what a test asks."""

    def __init__(self, site: Site, proxy: FaultProxy, bad: list[str]) -> None:
        self.site = site
        self.proxy = proxy
        self.bad = [RUN.file(name) for name in bad]

    def mend(self) -> None:
        self.proxy.script()

    def mend_in_part(self) -> Hold:
        """Mend it, but hold most of what is sent."""
        hold = Hold(after=8)
        self.proxy.script(rule(hold, on="PutObject", key="*/raw/*/bad-*"))
        return hold

    def labferry(self, *command: str) -> subprocess.CompletedProcess[str]:
        return self.site.run(*command)

    def facts(self, *command: str) -> tuple[int, dict[str, Any]]:
        """Return a command's exit code and what it prints as JSON."""
        done = self.site.run(*command, "--json")
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def outcomes(self, batch: dict[str, Any]) -> Counter[str]:
        return Counter(item["outcome"] for item in batch["items"])

    def record(self, file: FileKey) -> FileRecord:
        found = self.site.ledger.find_record(file)
        assert found is not None
        return found

    def states(self) -> Counter[State]:
        return Counter(self.record(file).state for file in self.bad)

    def series(self) -> Counter[int]:
        return Counter(self.record(file).series for file in self.bad)

    def history(self, file: FileKey) -> list[Note]:
        return self.site.ledger.history(file)

    def replays(self, file: FileKey) -> list[Note]:
        return [note for note in self.history(file) if note.event in (Event.REPLAY, Event.REVISE)]

    def puts(self, file: FileKey) -> int:
        """Return how many objects the server was told to make of a file."""
        return self.proxy.count("PutObject", f"*/{file.path}", "Pass")


@contextmanager
def refused_site(
    folder: Path, valkey: Valkey, store: StoreSettings, count: int, **changes: Any
) -> Iterator[Refused]:
    """Open a site on which so many files of a run are dead letters, and one is verified."""
    run = folder / "share" / RUN.run
    run.mkdir(parents=True)
    bad = [f"bad-{number:03}.txt" for number in range(count)]
    for number, name in enumerate([*bad, "good.txt"]):
        (run / name).write_text(f"{number} {name}")
    assert store.endpoint_url is not None
    with FaultProxy(store.endpoint_url) as proxy:
        proxy.script(DENIED)
        behind = store.model_copy(update={"endpoint_url": proxy.url})
        with open_site(folder, valkey, behind, {"scope": folder / "share"}, changes) as site:
            site.start("agent")
            site.start("worker")
            refused = Refused(site, proxy, bad)
            site.until(lambda: _is_refused(site, count), f"{count} files refused")
            yield refused


def _is_refused(site: Site, count: int) -> bool:
    facts = site.ledger.find_facts(RUN)
    if facts is None:
        return False
    found = facts.counts[State.QUARANTINED], facts.counts[State.VERIFIED]
    return found == (count, 1) and facts.sealed_ms > 0
