"""A bucket's policy that denies some writes, or all: real workers on the real server.

What only some files meet are dead letters at once; what all meet is a breaker, and costs nothing.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from labferry.breakers import Phase
from labferry.failures import Cause
from labferry.identity import FileKey, RunKey
from labferry.settings import StoreSettings
from labferry.states import Event, State
from ops.embedded import Valkey, Weed
from tests.bucket_policy import denied
from tests.site import Site, alerts_kept, open_site

MIB = 1024 * 1024
MIXED, OTHER = RunKey("scope", "movie"), RunKey("seq", "run")
FEW = 20


def files_of(run: RunKey, folder: str) -> list[FileKey]:
    """A large file and some small ones."""
    return [run.file(f"{folder}/{name}") for name in ("large", *map(str, range(FEW - 1)))]


NO, YES, ELSEWHERE = files_of(MIXED, "no"), files_of(MIXED, "yes"), files_of(OTHER, "yes")
HELD = [*NO, *YES]


@pytest.fixture
def site(
    tmp_path: Path, valkey: Valkey, store_settings: StoreSettings, ledger_url: str, broker_url: str
) -> Iterator[Site]:
    """Two instruments, a run on one of them, and a command that keeps alerts."""
    roots = {run.instrument: tmp_path / run.instrument for run in (MIXED, OTHER)}
    store = store_settings.model_copy(update={"single_put_max_bytes": MIB})
    changes = {"alerts": alerts_kept(tmp_path)}
    with open_site(tmp_path, valkey, store, roots, changes) as opened:
        write(opened, ELSEWHERE)
        roots[MIXED.instrument].mkdir()
        opened.start("worker")
        opened.start("agent")
        yield opened


def write(site: Site, files: list[FileKey]) -> None:
    for file in files:
        path = site.roots[file.run.instrument] / file.run.run / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(2 * MIB if path.name == "large" else 100))


def states(site: Site, files: list[FileKey]) -> Counter[State | None]:
    found = [site.ledger.find_record(file) for file in files]
    return Counter(record.state if record else None for record in found)


def events(site: Site, files: list[FileKey]) -> set[Event]:
    return {note.event for file in files for note in site.ledger.history(file)}


def test_files_below_a_denied_prefix_are_dead_letters_at_once_with_an_alert_and_all_else_goes_on(
    site: Site, weed: Weed
) -> None:
    with denied(weed, site.layout.raw(MIXED.file("no/"))):
        write(site, HELD)
        site.until(lambda: states(site, NO)[State.QUARANTINED] == FEW, "all of them dead letters")
        site.until(lambda: states(site, YES)[State.VERIFIED] == FEW, "their neighbours verified")
        site.until(lambda: site.ledger.markers(OTHER) == {1}, "the other run complete")
        # A Put and the begin of a multipart upload are two causes.
        site.until(lambda: len(site.told()) == 2, "the alerts sent")
        reasons = [site.layout.reason(file) for file in NO]
        site.until(lambda: set(reasons) <= set(site.objects(reasons[0].rpartition("/")[0])), "told")

    for file in NO:
        [note] = site.ledger.history(file)
        assert (note.event, note.code) == (Event.QUARANTINE, "AccessDenied")
    assert events(site, [*YES, *ELSEWHERE]) == set()
    assert not site.ledger.conditions().breakers
    assert site.ledger.markers(MIXED) == set()
    for alert in site.told():
        assert str(MIXED) in alert["text"]
        assert "AccessDenied" in alert["text"]


def test_a_bucket_that_denies_every_write_holds_all_files_and_they_complete_once_it_is_mended(
    site: Site, weed: Weed
) -> None:
    def is_probed_in_vain() -> bool:
        return any(
            (one.cause, one.phase) == (Cause.CREDENTIALS, Phase.OPEN) and one.probes >= 3
            for one in site.ledger.conditions().breakers
        )

    site.until(lambda: site.ledger.markers(OTHER) == {1}, "a run complete")
    with denied(weed, ""):
        write(site, HELD)
        site.until(is_probed_in_vain, "three probes in vain")
        site.until(lambda: bool(site.told()), "the alert sent")
        assert set(states(site, HELD)) <= {State.HELD, State.ELIGIBLE, State.UPLOADING}

    site.until(lambda: site.ledger.markers(MIXED) == {1}, "the other run complete")
    assert states(site, HELD) == {State.VERIFIED: len(HELD)}
    assert events(site, HELD) == {Event.HOLD}
    for file in HELD:
        record = site.ledger.find_record(file)
        assert record is not None
        assert (record.attempt, record.series) == (0, 0)
    [alert] = site.told()
    assert alert["text"].startswith("credentials:")
    assert "AccessDenied" in alert["text"]
