"""Does every inbox let work on a generation begin once? On SQLite, and on a real Valkey."""

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labferry.errors import (
    ChangedEvent,
    InboxUnavailable,
    MalformedMessage,
    NotFound,
    Refused,
    SettingsError,
)
from labferry.inbox import Inbox, Stage, open_inbox
from labferry.inbox.entries import Entry, unpack
from tests.waiting import eventually

Opener = Callable[..., Inbox]
SHORT_S = 0.3
#: Of a lease that must not lapse: a machine that is busy for a moment renews it late.
LONG_S = 5
WHO = {"actor": "ada@lab", "reason": "LIMS-7"}


@pytest.fixture(params=["sqlite", "valkey"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "inbox.sqlite3")
    return f"{request.getfixturevalue('ledger_url')}#pipeline"


def event(generation: int = 1, run: str = "seq/r 1", **changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "event": "run.completed",
        "id": f"{run}/{generation}/abc",
        "run": run,
        "generation": generation,
        "bucket": "lab",
        "marker": "k",
        "manifest": "m ü",
        "manifest_sha256": "abc",
        **changes,
    }


def stages(inbox: Inbox) -> dict[str, Stage]:
    return {one.key: one.stage for one in inbox.entries()}


def test_an_identical_redelivery_is_nothing_new_also_after_a_restart(place: str) -> None:
    first = open_inbox(place)
    first.receive(event(delivery={"attempt": 1}))
    taken = first.take()
    assert taken
    assert taken.event["manifest"] == "m ü"
    assert first.finish(taken)
    again = open_inbox(place)
    assert again.receive(event(delivery={"attempt": 7, "unknown": 1})).stage is Stage.DONE
    assert again.take() is None
    assert stages(again) == {"seq/r 1/1": Stage.DONE}


def test_another_content_of_the_same_generation_is_rejected_and_kept(place: str) -> None:
    inbox = open_inbox(place)
    inbox.receive(event())
    for changed in (event(files=9), event(id="seq/r 1/1/other", manifest_sha256="other")):
        for _ in range(2):
            with pytest.raises(ChangedEvent, match="announced before with another content"):
                inbox.receive(changed)
    kept = [one for one in inbox.entries() if one.stage is Stage.REJECTED]
    assert len(kept) == 2
    assert kept[0].event["files"] == 9
    assert stages(inbox)["seq/r 1/1"] is Stage.WAITING


def test_what_is_no_event_is_kept_for_a_person(place: str) -> None:
    inbox = open_inbox(place)
    for wrong in ({"version": 9}, ["x"], None):
        with pytest.raises(MalformedMessage):
            inbox.receive(wrong)
    assert [one.stage for one in inbox.entries()] == [Stage.REJECTED] * 3
    assert inbox.take() is None


def test_work_under_a_lease_is_not_begun_again(place: str) -> None:
    one, other = open_inbox(place), open_inbox(place)
    one.receive(event())
    assert one.take()
    other.receive(event())
    assert other.take() is None


def test_work_whose_worker_died_is_unknown_until_a_person_decides(place: str) -> None:
    dead, other = open_inbox(place, lease_s=SHORT_S), open_inbox(place)
    dead.receive(event())
    held = dead.take()
    assert held
    eventually(lambda: other.take() is None and stages(other)[held.key] is Stage.UNKNOWN)
    other.receive(event())
    assert other.take() is None
    assert not dead.finish(held), "its word comes too late"
    assert other.decide(held.key, done=False, **WHO).stage is Stage.WAITING
    taken = other.take()
    assert taken
    assert other.finish(taken)
    assert stages(other) == {held.key: Stage.DONE}


def test_where_it_may_run_again_it_does_once_the_lease_lapsed(place: str) -> None:
    dead, other = open_inbox(place, lease_s=SHORT_S), open_inbox(place, reruns=True)
    dead.receive(event())
    held = dead.take()
    assert held
    taken: list[Entry] = []

    def has_taken() -> bool:
        taken.extend(one for one in [other.take()] if one)
        return bool(taken)

    eventually(has_taken)
    assert taken[-1].tries == 2
    assert not dead.finish(held)
    assert dead.renew(held) is None
    assert other.finish(taken[-1])


def test_a_lease_that_is_renewed_does_not_lapse(place: str) -> None:
    lease_s = LONG_S
    one, other = open_inbox(place, lease_s=lease_s), open_inbox(place, reruns=True)
    one.receive(event())
    held = one.take()
    until_s = time.monotonic() + lease_s * 1.2
    while time.monotonic() < until_s:
        assert held
        held = one.renew(held)
        assert other.take() is None
    assert held
    assert one.finish(held)


def test_failed_work_is_tried_again_when_due_and_given_up_at_the_end(place: str) -> None:
    inbox = open_inbox(place)
    inbox.receive(event())
    taken = inbox.take()
    assert taken
    assert inbox.fail(taken, "exit 1", wait_s=60)
    assert inbox.take() is None
    assert 50_000 < (inbox.wait_ms() or 0) <= 60_000
    inbox.receive(event(2))
    taken = inbox.take()
    assert taken
    assert taken.key == "seq/r 1/2", "another generation does not wait for it"
    assert inbox.fail(taken, "exit 1", wait_s=None)
    assert stages(inbox)["seq/r 1/2"] is Stage.FAILED
    assert inbox.decide("seq/r 1/2", done=True, **WHO).stage is Stage.DONE


def test_a_person_decides_on_what_is_stuck_only(place: str) -> None:
    inbox = open_inbox(place)
    inbox.receive(event())
    with pytest.raises(Refused, match="it is waiting"):
        inbox.decide("seq/r 1/1", done=True, **WHO)
    with pytest.raises(NotFound):
        inbox.decide("seq/r 9/1", done=True, **WHO)


def test_who_decided_what_and_why_stays_with_the_entry(place: str) -> None:
    inbox = open_inbox(place)
    inbox.receive(event())
    for _ in range(2):
        taken = inbox.take()
        assert taken
        assert inbox.fail(taken, "exit 1", wait_s=None)
        inbox.decide(taken.key, done=False, actor="ada@lab", reason="the disk was full")
    taken = inbox.take()
    assert taken
    assert inbox.fail(taken, "exit 1", wait_s=None)
    inbox.decide(taken.key, done=True, actor="bob@lab", reason="by hand")
    (entry,) = open_inbox(place).entries()
    assert [(one.what, one.was, one.actor, one.reason) for one in entry.decisions] == [
        ("again", "failed", "ada@lab", "the disk was full"),
        ("again", "failed", "ada@lab", "the disk was full"),
        ("done", "failed", "bob@lab", "by hand"),
    ]
    assert all(one.at_ms for one in entry.decisions)


def test_an_entry_of_a_release_that_kept_no_decisions_is_decided_on(place: str) -> None:
    inbox = open_inbox(place)
    older = {
        "version": 1, "key": "seq/r 1/1", "digest": "d", "content": "{}", "stage": "failed",
        "tries": 3, "owner": "h:1:n", "first_ms": 5, "due_ms": 0, "until_ms": 0, "why": "exit 1",
    }  # fmt: skip
    assert inbox._shelf.put(unpack(json.dumps(older), 0))
    assert inbox.entries()[0].decisions == ()
    assert inbox.decide("seq/r 1/1", done=False, **WHO).stage is Stage.WAITING
    assert [one.actor for one in inbox.entries()[0].decisions] == ["ada@lab"]


def test_entries_come_in_the_order_in_which_they_came(place: str) -> None:
    inbox = open_inbox(place)
    for number in (3, 1, 2):
        inbox.receive(event(number))
        time.sleep(0.002)  # the server's clock has milliseconds
    assert [one.event["generation"] for one in inbox.entries()] == [3, 1, 2]


def test_two_consumers_of_a_thousand_deliveries_do_each_work_once(place: str) -> None:
    done: list[str] = []
    deliveries = [event(number % 25 + 1) for number in range(100)]

    def consume() -> None:
        inbox = open_inbox(place)
        for one in deliveries:
            inbox.receive(one)
            if taken := inbox.take():
                done.append(taken.key)
                assert inbox.finish(taken)
        while taken := inbox.take():
            done.append(taken.key)
            assert inbox.finish(taken)

    threads = [threading.Thread(target=consume) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == sorted(f"seq/r 1/{number + 1}" for number in range(25))


# -- the library's one call


def test_a_task_that_calls_once_does_its_work_once(place: str) -> None:
    inbox, done = open_inbox(place), []
    for _ in range(3):
        with inbox.once(event()) as first:
            if first:
                done.append(first.key)
    assert done == ["seq/r 1/1"]


def test_a_task_that_fails_is_done_at_the_next_delivery(place: str) -> None:
    inbox, done = open_inbox(place), []
    with pytest.raises(ValueError, match="no space"), inbox.once(event()):
        raise ValueError("no space")
    with inbox.once(event()) as again:
        done.append(again)
    assert done[0]
    assert done[0].tries == 2


def test_a_task_whose_work_another_does_is_told_so(place: str) -> None:
    inbox = open_inbox(place)
    with inbox.once(event()):
        with pytest.raises(Refused, match="is at work on it"):
            with open_inbox(place).once(event()):
                pass


def test_a_task_that_takes_longer_than_its_lease_keeps_it(place: str) -> None:
    inbox, other = open_inbox(place, lease_s=LONG_S), open_inbox(place, reruns=True)
    with inbox.once(event()):
        until_s = time.monotonic() + LONG_S * 1.2
        while time.monotonic() < until_s:
            assert other.take() is None


def test_a_task_is_told_that_nobody_knows_how_far_an_earlier_one_came(place: str) -> None:
    dead, inbox = open_inbox(place, lease_s=0.05), open_inbox(place)
    dead.receive(event())
    assert dead.take()

    def refused() -> bool:
        try:
            with inbox.once(event()):
                raise AssertionError("it was begun again")
        except Refused as error:
            return "never said how it ended" in str(error)

    eventually(refused)


def test_an_inbox_that_was_opened_before_a_fork_works_after_it(tmp_path: Path) -> None:
    inbox = open_inbox(str(tmp_path / "inbox.sqlite3"))
    inbox.receive(event())

    def child() -> None:
        taken = inbox.take()
        os._exit(0 if taken and inbox.finish(taken) else 1)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(20)
    assert process.exitcode == 0
    assert stages(inbox) == {"seq/r 1/1": Stage.DONE}


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--inbox"):
        open_inbox(str(tmp_path / "no" / "such" / "folder"))


def test_a_server_that_is_away_is_said_so() -> None:
    with pytest.raises(InboxUnavailable, match="nothing is lost"):
        open_inbox("redis://127.0.0.1:1/0").receive(event())


def test_a_file_that_is_no_inbox_is_named(tmp_path: Path) -> None:
    wrong = tmp_path / "inbox"
    wrong.write_text("this is no database, and long enough to be read as one" * 50)
    with pytest.raises(SettingsError, match="--inbox"):
        open_inbox(str(wrong))
