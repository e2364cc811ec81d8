"""Can a person see, requeue and give up what could not be delivered? On the ledger in memory."""

import json
from pathlib import Path
from typing import Any

import pytest

from labferry.audit import read_line
from labferry.errors import Refused
from labferry.outbox import Delivery
from labferry.selector import read_selector
from ops.dead_letters import export_letters, list_letters
from ops.deliveries import DISCARD, REQUEUE, How, change_deliveries
from ops.exits import Exit
from ops.troubles import read_troubles
from tests.ledger_world import ACT, OTHER, PRINT, RUN
from tests.memory_ledger import MemoryLedger

YES = How(dry_run=False, yes=True, as_json=False)


@pytest.fixture
def ledger() -> MemoryLedger:
    """Two runs whose first event a webhook refuses, and one more event behind one of them."""
    found = MemoryLedger()
    found.sink_since("webhook")
    for run in (RUN, OTHER):
        found.discover(run, [("a", PRINT)])
        found.tell(run, ["one", "two"] if run == RUN else ["one"])
        parked = Delivery(parked=True, tries=3, code="422", why="it answered 422", first_ms=5)
        found.swap_delivery(run, "webhook", Delivery(), parked)
    return found


def listed(ledger: MemoryLedger, capsys: pytest.CaptureFixture[str], **named: Any) -> Any:
    list_letters(ledger, read_selector(**named), files=False, as_json=True)
    return json.loads(capsys.readouterr().out)["deliveries"]


def test_what_could_not_be_delivered_is_listed_with_dead_letters(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    list_letters(ledger, read_selector(), files=False, as_json=False)
    out = capsys.readouterr().out
    assert "2 events could not be delivered" in out
    assert "webhook  422" in out
    assert "1 more wait behind it" in out
    assert [(one["run"], one["behind"]) for one in listed(ledger, capsys)] == [
        (str(RUN), 1),
        (str(OTHER), 0),
    ]


def test_what_could_not_be_delivered_is_exported(ledger: MemoryLedger, tmp_path: Path) -> None:
    export_letters(ledger, read_selector(), tmp_path / "out")
    lines = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [one["undelivered"]["run"] for one in lines] == [str(RUN), str(OTHER)]


def test_the_selector_chooses_deliveries(
    ledger: MemoryLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(listed(ledger, capsys, sink="webhook")) == 2
    assert len(listed(ledger, capsys, sink="all")) == 2
    assert len(listed(ledger, capsys, sink="webhook", run=str(RUN))) == 1
    for named in ({"sink": "sqs"}, {"sink": "webhook", "code": "500"}, {"fingerprint": "ab"}):
        assert listed(ledger, capsys, **named) == []


def test_requeued_deliveries_are_tried_as_if_for_the_first_time(ledger: MemoryLedger) -> None:
    selector = read_selector(sink="webhook")
    assert change_deliveries(ledger, selector, ACT, REQUEUE, YES) == Exit.DONE
    assert ledger.parked_deliveries() == []
    (one,) = ledger.waiting_events("webhook", [RUN])
    assert (one.event, one.delivery.tries, one.delivery.position) == ("one", 0, 0)


def test_discarded_deliveries_are_left_out_and_what_is_behind_goes_on(
    ledger: MemoryLedger,
) -> None:
    change_deliveries(ledger, read_selector(sink="webhook", run=str(RUN)), ACT, DISCARD, YES)
    (one,) = ledger.waiting_events("webhook", [RUN])
    assert one.event == "two"
    (line,) = ledger.audit(RUN)
    entry = read_line(line)
    assert entry.act.actor == ACT.actor
    assert "the delivery to webhook" in entry.act.what
    assert len(ledger.parked_deliveries()) == 1


def test_nothing_is_changed_before_somebody_says_yes(ledger: MemoryLedger) -> None:
    selector = read_selector(sink="webhook")
    dry = How(dry_run=True, yes=False, as_json=False)
    assert change_deliveries(ledger, selector, ACT, DISCARD, dry) == Exit.DONE
    with pytest.raises(Refused):
        change_deliveries(
            ledger, selector, ACT, DISCARD, How(dry_run=False, yes=False, as_json=False)
        )
    assert len(ledger.parked_deliveries()) == 2
    assert list(ledger.audit(RUN)) == []


def test_status_tells_of_sinks_that_are_behind(ledger: MemoryLedger) -> None:
    (told,) = read_troubles(ledger, 1).events
    assert (told.sink, told.waiting, told.why) == ("webhook", 3, "it answered 422")
