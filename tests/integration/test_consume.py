"""Does a command run once for each generation, whatever dies and whatever comes twice?"""

import json
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from labferry.errors import BrokerUnavailable, InboxUnavailable, SettingsError
from labferry.events import COMPLETE_KINDS, EventKind, read_event, run_event
from labferry.identity import Layout, RunKey
from labferry.inbox import Inbox, Stage, open_inbox
from labferry.inbox.shelves import SqliteShelf
from labferry.manifest import Marker, marker_bytes
from labferry.ports import ObjectStore
from labferry.retry import Budget
from labferry.s3.checksum import crc64nvme
from ops.command_template import CommandTemplate
from ops.consume import Consumer, Wanted, skip_existing
from ops.exits import Exit
from ops.marker_watch import MarkerWatch
from tests.manual_clock import ManualClock
from tests.memory_store import MemoryStore

RUNS = [RunKey("seq", "r 1"), RunKey("scope", "r2")]
LAYOUT = Layout("lab")
BUDGET = Budget(
    attempts=2,
    elapsed_s=60,
    base_s=0.02,
    cap_s=0.02,
    floor_s=0,
    worker_losses=1,
    source_rounds=1,
    hold_s=1,
)


def marker(run: RunKey, generation: int = 1) -> Marker:
    return Marker(
        run=run,
        generation=generation,
        manifest=LAYOUT.manifest(run, generation),
        sha256="ab" * 32,
        files=1,
        size=2,
        total_files=1,
        evidence={"A": 1},
    )


def event(run: RunKey, generation: int = 1) -> dict[str, Any]:
    key = LAYOUT.marker(run, generation)
    return read_event(run_event(marker(run, generation), key, "lab-bucket"))


EVENTS = [event(run, generation) for run in RUNS for generation in (1, 2)]
#: Twice, and out of order.
DELIVERIES = [{**one, "delivery": {"attempt": n}} for n in (1, 2) for one in reversed(EVENTS)]


class Queue:
    """Hands on one after the other; what was not taken to its end comes again."""

    def __init__(self, *events: object) -> None:
        self.events: list[object] = list(events)

    def look(self, take: Callable[[object], None]) -> bool:
        if not self.events:
            return False
        take(self.events[0])
        del self.events[0]
        return True

    def close(self) -> None:
        pass


class DyingShelf(SqliteShelf):
    """Dies at one of its puts, before it is done or after."""

    def __init__(self, path: Path, nth: int, when: str) -> None:
        super().__init__(path)
        self.left, self.when = nth, when

    def put(self, entry: Any) -> Any:
        self.left -= 1
        if self.left == 0 and self.when == "before":
            raise KeyboardInterrupt
        done = super().put(entry)
        if self.left == 0:
            raise KeyboardInterrupt
        return done


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "inbox.sqlite3"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    found = tmp_path / "ran"
    found.touch()
    return found


def consumer(
    inbox: Inbox, source: Any, command: str, kinds: Any = COMPLETE_KINDS, **wanted: Sequence[str]
) -> Consumer:
    return Consumer(
        inbox=inbox,
        source=source,
        command=command,
        wanted=Wanted(kinds=kinds, **wanted),
        budget=BUDGET,
    )


def appending(log: Path) -> str:
    script = f'echo "$0/$1" >> {shlex.quote(str(log))}'
    return f"sh -c {shlex.quote(script)} {{run}} {{generation}}"


def ran(log: Path) -> list[str]:
    return sorted(log.read_text().splitlines())


ALL = sorted(f"{one['run']}/{one['generation']}" for one in EVENTS)


def stages(place: Path) -> dict[str, Stage]:
    return {one.key: one.stage for one in open_inbox(str(place)).entries()}


def test_deliveries_that_come_twice_and_out_of_order_run_once_each(place: Path, log: Path) -> None:
    code = consumer(open_inbox(str(place)), Queue(*DELIVERIES), appending(log)).run(once=True)
    assert code == Exit.DONE
    again = consumer(open_inbox(str(place)), Queue(*DELIVERIES), appending(log))
    assert again.run(once=True) == Exit.DONE
    assert ran(log) == ALL


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, 21))
def test_a_consumer_that_dies_at_any_step_ran_each_once_or_says_unknown(
    place: Path, log: Path, nth: int, when: str
) -> None:
    queue = Queue(*DELIVERIES)
    dying = Inbox(DyingShelf(place, nth, when), lease_s=0.05)
    with pytest.raises(KeyboardInterrupt):
        consumer(dying, queue, appending(log)).run(once=True)
        raise KeyboardInterrupt  # it came to its end: there are fewer steps
    code = consumer(open_inbox(str(place)), queue, appending(log)).run(once=True)
    found = stages(place)
    unknown = [key for key, stage in found.items() if stage is Stage.UNKNOWN]
    assert sorted(found) == ALL, "nothing is lost"
    assert set(found.values()) <= {Stage.DONE, Stage.UNKNOWN}
    assert len(ran(log)) == len(set(ran(log))), "nothing ran twice"
    assert set(ALL) - set(unknown) <= set(ran(log))
    assert code == (Exit.PARTIAL if unknown else Exit.DONE)


@pytest.mark.parametrize("nth", range(1, 18, 2))
def test_where_it_may_run_again_everything_is_done_in_the_end(
    place: Path, log: Path, nth: int
) -> None:
    queue = Queue(*DELIVERIES)
    dying = Inbox(DyingShelf(place, nth, "after"), lease_s=0.05)
    with pytest.raises(KeyboardInterrupt):
        consumer(dying, queue, appending(log)).run(once=True)
        raise KeyboardInterrupt
    kept = open_inbox(str(place), reruns=True)
    assert consumer(kept, queue, appending(log)).run(once=True) == Exit.DONE
    assert set(ran(log)) == set(ALL)


def test_a_command_that_fails_is_tried_again_then_left_to_a_person(place: Path, log: Path) -> None:
    command = f"sh -c 'echo x >> {log}; exit 3'"
    code = consumer(open_inbox(str(place)), Queue(EVENTS[0]), command).run(once=True)
    assert code == Exit.PARTIAL
    assert len(ran(log)) == BUDGET.attempts
    (entry,) = open_inbox(str(place)).entries()
    assert (entry.stage, entry.why) == (Stage.FAILED, "it ended with 3")


def test_a_command_that_is_not_there_fails_and_says_so(place: Path) -> None:
    consumer(open_inbox(str(place)), Queue(EVENTS[0]), "/no/such/program").run(once=True)
    (entry,) = open_inbox(str(place)).entries()
    assert "No such file" in entry.why


def test_the_command_gets_the_event_on_its_input(place: Path, log: Path) -> None:
    script = f"import sys; open({str(log)!r}, 'w').write(sys.stdin.read())"
    command = shlex.join([sys.executable, "-c", script])
    consumer(open_inbox(str(place)), Queue(EVENTS[0]), command).run(once=True)
    assert json.loads(log.read_text()) == EVENTS[0]


def test_a_long_command_keeps_its_lease(place: Path, log: Path) -> None:
    one = consumer(open_inbox(str(place), lease_s=0.2), Queue(EVENTS[0]), "sleep 1")
    assert one.run(once=True) == Exit.DONE
    assert list(stages(place).values()) == [Stage.DONE]


def test_only_what_is_wanted_is_taken(place: Path, log: Path) -> None:
    closed = {**EVENTS[0], "event": "run.incomplete", "run": "seq/r9"}
    one = consumer(
        open_inbox(str(place)), Queue(closed, *EVENTS), appending(log), instruments=["scope"]
    )
    one.run(once=True)
    assert ran(log) == ["scope/r2/1", "scope/r2/2"]
    kinds = COMPLETE_KINDS | {EventKind.INCOMPLETE}
    consumer(open_inbox(str(place)), Queue(closed), appending(log), kinds).run(once=True)
    assert "seq/r9/1" in ran(log)


def test_what_is_rejected_is_kept_and_ends_in_part(place: Path, log: Path) -> None:
    changed = {**EVENTS[0], "files": 99}
    queue = Queue(EVENTS[0], changed, {"version": 7})
    assert consumer(open_inbox(str(place)), queue, appending(log)).run(once=True) == Exit.PARTIAL
    assert list(stages(place).values()).count(Stage.REJECTED) == 2
    assert len(ran(log)) == 1


def test_a_signal_lets_the_command_end_and_nothing_more_begin(place: Path, log: Path) -> None:
    script = f"kill -TERM $PPID; sleep 0.3; echo ended >> {log}"
    queue = Queue(*EVENTS)
    code = consumer(open_inbox(str(place)), queue, f"sh -c {shlex.quote(script)}").run(once=False)
    assert code == Exit.DONE
    assert ran(log) == ["ended"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_source_that_is_down_is_an_error_with_once(place: Path) -> None:
    class Down(Queue):
        def look(self, take: Callable[[object], None]) -> bool:
            raise BrokerUnavailable(why="refused")

    with pytest.raises(BrokerUnavailable):
        consumer(open_inbox(str(place)), Down(), "true").run(once=True)


@pytest.mark.parametrize("text", ["", "'", "start {bukket}"])
def test_a_command_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="--exec"):
        CommandTemplate(text)


def test_fields_are_filled_in_word_by_word() -> None:
    words = CommandTemplate("go s3://{bucket}/{manifest} '{run} {generation}' {name} {}").filled(
        EVENTS[1]
    )
    assert words[:3] == ["go", "s3://lab-bucket/lab/runs/seq/r 1/2/manifest.jsonl", "seq/r 1 2"]
    assert words[3].startswith("run-seq-r-1-2-")
    assert words[4] == "{}"


# -- markers in the bucket


def bucket_of(*markers: Marker) -> MemoryStore:
    store = MemoryStore()
    for one in markers:
        body = marker_bytes(one)
        key = LAYOUT.marker(one.run, one.generation)
        store.put_absent(key, body, crc64nvme(body), "t")
    return store


def watch(store: ObjectStore, clock: ManualClock) -> MarkerWatch:
    return MarkerWatch(store, LAYOUT, clock, every_s=30)


def test_a_marker_is_the_same_event_as_the_one_that_is_told(place: Path, log: Path) -> None:
    store = bucket_of(*(marker(run, generation) for run in RUNS for generation in (1, 2)))
    inbox = open_inbox(str(place))
    consumer(inbox, watch(store, ManualClock()), appending(log)).run(once=True)
    assert ran(log) == ALL
    assert consumer(inbox, Queue(*DELIVERIES), appending(log)).run(once=True) == Exit.DONE
    assert ran(log) == ALL


def test_a_new_marker_is_found_at_the_next_look_and_one_that_is_gone_changes_nothing(
    place: Path, log: Path
) -> None:
    store, clock = bucket_of(marker(RUNS[0])), ManualClock()
    watched, inbox = watch(store, clock), open_inbox(str(place))
    one = consumer(inbox, watched, appending(log))
    one.run(once=True)
    del store.objects[LAYOUT.marker(RUNS[0], 1)]
    body = marker_bytes(marker(RUNS[1]))
    store.put_absent(LAYOUT.marker(RUNS[1], 1), body, crc64nvme(body), "t")
    one.run(once=True)
    assert ran(log) == ["seq/r 1/1"], "it is not time to look yet"
    clock.now_s += 31
    one.run(once=True)
    body = marker_bytes(marker(RUNS[0]))
    store.put_absent(LAYOUT.marker(RUNS[0], 1), body, crc64nvme(body), "t")
    clock.now_s += 31
    consumer(inbox, watch(store, clock), appending(log)).run(once=True)
    assert ran(log) == ["scope/r2/1", "seq/r 1/1"]


def test_what_is_there_can_be_counted_as_done(place: Path, log: Path) -> None:
    store, inbox = bucket_of(marker(RUNS[0]), marker(RUNS[1])), open_inbox(str(place))
    assert skip_existing(inbox, watch(store, ManualClock()), Wanted(kinds=COMPLETE_KINDS)) == 2
    consumer(inbox, watch(store, ManualClock()), appending(log)).run(once=True)
    assert ran(log) == []


def test_a_marker_that_cannot_be_read_keeps_no_other(place: Path, log: Path) -> None:
    store = bucket_of(marker(RUNS[0]))
    store.put_absent(LAYOUT.marker(RUNS[1], 1), b"{}", crc64nvme(b"{}"), "t")
    consumer(open_inbox(str(place)), watch(store, ManualClock()), appending(log)).run(once=True)
    assert ran(log) == ["seq/r 1/1"]


# -- an inbox that is away for a moment


class Away(SqliteShelf):
    """Does not answer for some puts, from the nth on."""

    def __init__(self, path: Path, nth: int, count: int) -> None:
        super().__init__(path)
        self.puts, self.nth, self.count = 0, nth, count

    def put(self, entry: Any) -> Any:
        self.puts += 1
        if self.nth <= self.puts < self.nth + self.count:
            raise InboxUnavailable(place="x", why="it is away")
        return super().put(entry)


@pytest.mark.parametrize("nth", [3, 4])
def test_an_inbox_that_is_away_while_a_command_ends_costs_nothing(
    place: Path, log: Path, nth: int
) -> None:
    """Puts: received, begun, renewed, renewed or ended."""
    away = Inbox(Away(place, nth, 1), lease_s=2)
    one = consumer(away, Queue(EVENTS[0]), f"sh -c 'echo x >> {log}; sleep 1'")
    assert one.run(once=True) == Exit.DONE
    assert (ran(log), list(stages(place).values())) == (["x"], [Stage.DONE])


def test_an_inbox_that_is_away_keeps_the_event_where_it_was(place: Path, log: Path) -> None:
    queue = Queue(EVENTS[0])
    with pytest.raises(InboxUnavailable, match="nothing is lost"):
        consumer(Inbox(Away(place, 1, 1)), queue, appending(log)).run(once=True)
    assert len(queue.events) == 1
