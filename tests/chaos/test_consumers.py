"""Is a completed run told of, and worked on once, whatever dies between marker and outbox?"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from labferry.event_sinks import Parcel
from labferry.identity import Layout
from labferry.inbox import open_inbox
from labferry.ledger import RedisLedger
from labferry.ports import Ledger, ObjectStore
from labferry.settings import InstrumentSettings
from labferry.settings_events import EventSettings
from labferry.settings_trouble import RetrySettings
from ops.consume import Consumer, wanted
from ops.marker_watch import MarkerWatch
from tests.chaos.test_rebuild import rebuilt
from tests.dock import RUN
from tests.integration.test_consume import BUDGET, Queue, appending, ran
from tests.manual_clock import ManualClock
from tests.memory_store import Breaking, Died
from tests.quay import Quay
from workers.complete import Completer
from workers.telling import Teller


class Sink:
    """Keeps what it is given."""

    name = "sink"
    is_repeatable = False

    def __init__(self) -> None:
        self.given: list[dict[str, Any]] = []

    def deliver(self, parcel: Parcel) -> None:
        self.given.append(json.loads(parcel.body))

    def has(self, _: Parcel) -> bool:
        return False


def tell(quay: Quay, sink: Sink) -> None:
    settings = quay.dock.settings.model_copy(
        update={
            "events": EventSettings(),
            "retry": RetrySettings(base_s=0.001, floor_s=0, cap_s=0.001),
            "instruments": {RUN.instrument: InstrumentSettings(root=quay.dock.root)},
        }
    )
    Teller(quay.dock.ledger, sink, ManualClock(), settings).round()


def complete(quay: Quay, ledger: Ledger | None = None, store: ObjectStore | None = None) -> bool:
    return Completer(
        ledger=ledger or quay.dock.ledger,
        store=store or quay.dock.store,
        layout=quay.dock.layout,
        trusts_put=True,
    ).complete(RUN)


def verified_run(quay: Quay) -> None:
    quay.write("a.txt", b"alpha")
    quay.finish()
    quay.dock.ledger.seal(RUN, [], 1)


def work(quay: Quay, place: Path, log: Path, source: Any) -> None:
    Consumer(
        inbox=open_inbox(str(place)),
        source=source,
        command=appending(log),
        wanted=wanted((), incomplete=False),
        budget=BUDGET,
    ).run(once=True)


def watched(quay: Quay) -> MarkerWatch:
    layout: Layout = quay.dock.layout
    return MarkerWatch(quay.direct, layout, ManualClock(), every_s=30)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    found = tmp_path / "ran"
    found.touch()
    yield found


def test_a_ledger_lost_between_marker_and_outbox_loses_no_event_and_no_work_is_done_twice(
    quay: Quay, tmp_path: Path, log: Path
) -> None:
    verified_run(quay)
    with pytest.raises(Died):
        complete(quay, Breaking(quay.dock.ledger, 1, "before", method="complete"))
    # One who looks for markers has worked on it already.
    work(quay, tmp_path / "inbox", log, watched(quay))
    quay.dock._server.flushdb()
    quay.proxy.script()
    rebuilt(quay)
    sink = Sink()
    tell(quay, sink)
    assert [(one["event"], one["generation"]) for one in sink.given] == [("run.completed", 1)]
    work(quay, tmp_path / "inbox", log, Queue(*sink.given, *sink.given))
    assert ran(log) == [f"{RUN}/1"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, 12))
def test_a_completer_that_dies_anywhere_leads_to_one_event(
    quay: Quay, nth: int, when: Literal["before", "after"]
) -> None:
    verified_run(quay)
    breaking = Breaking(quay.dock.ledger, nth, when)
    try:
        complete(quay, breaking)
    except Died:
        quay.dock._server.delete(f"labferry:leader:complete:{RUN}")  # its lock runs out
    assert complete(quay)
    sink = Sink()
    tell(quay, sink)
    tell(quay, sink)
    assert len(sink.given) == 1
    assert len(quay.dock.ledger.told(RUN)) == 1


def test_two_that_complete_at_once_lead_to_one_event(quay: Quay) -> None:
    verified_run(quay)
    other: list[bool] = []

    class Meanwhile(Breaking):
        """Lets another complete the run just before this one records the marker."""

        def complete(self, *args: Any, **kwargs: Any) -> Any:
            quay.dock._server.delete(f"labferry:leader:complete:{RUN}")
            other.append(complete(quay))
            return quay.dock.ledger.complete(*args, **kwargs)

    assert complete(quay, Meanwhile(quay.dock.ledger))
    assert other == [True]
    assert len(quay.dock.ledger.told(RUN)) == 1


def test_what_died_right_after_the_marker_s_record_is_told_all_the_same(
    quay: Quay, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified_run(quay)
    opens = RedisLedger._open_outbox
    calls: list[int] = []

    def dies_at_the_second(ledger: RedisLedger, run: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise Died
        opens(ledger, run)

    monkeypatch.setattr(RedisLedger, "_open_outbox", dies_at_the_second)
    with pytest.raises(Died):
        complete(quay)
    monkeypatch.undo()
    sink = Sink()
    tell(quay, sink)
    assert len(sink.given) == 1
