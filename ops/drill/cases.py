"""Which ugly cases does a drill run, and what must hold after each?

A case yields what it looked at, true or not. What made it ugly is looked at as well: a case in
which nothing went wrong does not pass.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from labferry.audit import Act
from labferry.errors import StoreError
from labferry.identity import RunKey
from labferry.manifest import read_entry
from labferry.messages import CONTROL_QUEUE
from labferry.records import Note, Step
from labferry.s3.checksum import crc64nvme
from labferry.states import Event, State
from ops.drill.door import Asked, Refusal, Rule
from ops.drill.stage import BUDGET, INSTRUMENT, PART, Stage
from ops.programs import AGENT

_LARGE = 2 * PART + 1024 * 1024
_HOUR_S = 3600
_ACT = Act(actor="drill", reason="the policy was mended", what="requeue")


class Check(NamedTuple):
    """One thing that must hold, and whether it did."""

    what: str
    holds: bool
    seen: str = ""


def killed(stage: Stage) -> Iterator[Check]:
    """A worker is killed (SIGKILL) in the middle of an upload in parts."""
    run, body = RunKey(INSTRUMENT, "killed"), os.urandom(_LARGE)
    key = stage.key(run, "large")
    rule = Rule(_part(2, key), stage.kill_large_worker)
    stage.door.rules.append(rule)
    stage.write(run, "large", body)
    yield from _completed(stage, run)
    yield Check("the worker was killed", rule.times == 0)
    yield Check("the object is the file", stage.content(run, "large") == body)
    begun = stage.door.count(lambda asked: asked.begins_upload and asked.key == key)
    yield Check("the upload was gone on with, not begun again", begun == 1, f"begun: {begun}")
    sent = stage.door.count(_part(1, key))
    yield Check("what was acknowledged was not sent again", sent == 1, f"part 1: {sent}")
    yield Check("no upload stays open", not stage.store.find_uploads(key))


def denied(stage: Stage) -> Iterator[Check]:
    """A policy denies one file; then it is mended."""
    run = RunKey(INSTRUMENT, "denied")
    key = stage.key(run, "denied")
    rule = Rule(_put(key), lambda: Refusal(403, "AccessDenied"), times=1000)
    stage.door.rules.append(rule)
    for name in ("denied", "neighbour 1", "neighbour 2"):
        stage.write(run, name, name.encode())
    stage.until(lambda: stage.is_in(run, "denied", State.QUARANTINED), "a dead letter")
    stage.until(lambda: stage.is_in(run, "neighbour 2", State.VERIFIED), "its neighbours")
    codes = [note.code for note in stage.ledger.history(run.file("denied"))]
    yield Check("it is a dead letter, with its error", "AccessDenied" in codes, ", ".join(codes))
    yield Check("its neighbours were sent", stage.is_in(run, "neighbour 1", State.VERIFIED))
    yield Check("there is no object of it", stage.store.find_object(key) is None)
    yield Check("the partial run has no marker", not _markers(stage, run))
    document = stage.layout.reason(run.file("denied"))
    stage.until(lambda: stage.store.find_object(document), "its document in the bucket")
    rule.times = 0
    note = Note(event=Event.REPLAY, kind="operator", code="requeue", message=_ACT.reason)
    stage.ledger.act(run, Event.REPLAY, [Step(path="denied", note=note)], _ACT)
    yield from _completed(stage, run)
    sent = stage.door.count(_put(stage.key(run, "neighbour 1")))
    yield Check("what was verified was not sent again", sent == 1, f"sent: {sent}")


def truncated(stage: Stage) -> Iterator[Check]:
    """A file is cut short at the source while it is sent."""
    run, body = RunKey(INSTRUMENT, "truncated"), os.urandom(_LARGE)
    path = stage.path(run, "large")
    rule = Rule(_part(2, stage.key(run, "large")), lambda: os.truncate(path, len(body) // 4))
    stage.door.rules.append(rule)
    stage.write(run, "large", body)
    yield from _completed(stage, run)
    yield Check("the file was cut short", rule.times == 0)
    yield Check("the object is what the source holds", _is_as_source(stage, run, "large"))
    events = [note.event for note in stage.ledger.history(run.file("large"))]
    yield Check("the first upload was abandoned", Event.ABANDON in events, ", ".join(events))


def marked(stage: Stage) -> Iterator[Check]:
    """A run's completion is asked for again and again, and its marker written a second time."""
    run = RunKey(INSTRUMENT, "marked")
    stage.write(run, "file", b"file")
    yield from _completed(stage, run)
    key = stage.layout.marker(run, 1)
    before = stage.store.find_object(key)
    for _ in range(5):
        stage.wakeups.complete(run)
    try:
        stage.store.put_absent(key, b"{}", crc64nvme(b"{}"), "drill")
        answer = "it was taken"
    except StoreError as error:
        answer = f"{error.status} {error.code}"
    broker = stage.broker().client
    stage.until(lambda: not broker.llen(CONTROL_QUEUE), "the wake-ups worked off")
    yield Check("the bucket refuses a second marker", answer[:3] in {"409", "412"}, answer)
    yield Check("the marker is the same object", stage.store.find_object(key) == before)
    yield Check("one marker is on record", stage.ledger.markers(run) == {1})
    told = len(stage.ledger.told(run))
    yield Check("one event was told", told == 1, f"events: {told}")


def exhausted(stage: Stage) -> Iterator[Check]:
    """One file fails until its budget is used up; its neighbours and other runs go on."""
    run, other = RunKey(INSTRUMENT, "exhausted"), RunKey(INSTRUMENT, "beside it")
    rule = Rule(_put(stage.key(run, "poison")), lambda: Refusal(500, "InternalError"), times=1000)
    stage.door.rules.append(rule)
    names = [f"neighbour {number}" for number in range(20)]
    for name in ("poison", *names):
        stage.write(run, name, name.encode())
    stage.write(other, "file", b"file")
    yield from _completed(stage, other)
    stage.until(lambda: stage.is_in(run, "poison", State.QUARANTINED), "the end of its budget")
    record = stage.record(run, "poison")
    spent = record.attempt if record else 0
    yield Check("it spent its budget, no more", spent == BUDGET, f"attempts: {spent} of {BUDGET}")
    states = Counter(
        record.state for name in names if (record := stage.record(run, name)) is not None
    )
    sent = states == Counter({State.VERIFIED: len(names)})
    yield Check("all its neighbours were sent", sent, str(dict(states)))
    yield Check("the partial run has no marker", not _markers(stage, run))
    rule.times = 0


def flushed(stage: Stage) -> Iterator[Check]:
    """The broker loses every message that waits."""
    run, lost = RunKey(INSTRUMENT, "flushed"), list[int]()

    def flush() -> None:
        client = stage.broker().client
        waiting = sum(client.llen(name) for name in client.keys("upload.*"))
        if waiting and not lost:  # before the agent is done, nothing may wait
            lost.append(waiting)
            client.flushdb()

    names = [f"file {number}" for number in range(60)]
    rule = Rule(lambda asked: _is_put(asked) and f"/{run}/" in asked.key, flush, times=len(names))
    stage.door.rules.append(rule)
    for name in names:
        stage.write(run, name, name.encode())
    yield from _completed(stage, run)
    yield Check("messages were lost", sum(lost) > 0, f"lost: {sum(lost)}")
    good = sum(_is_as_source(stage, run, name) for name in names)
    yield Check("every file is there", good == len(names), f"{good} of {len(names)}")


def helped(stage: Stage) -> Iterator[Check]:
    """Somebody starts a second agent, just to help."""
    run = RunKey(INSTRUMENT, "helped")
    stage.children.start(AGENT)
    names = [f"file {number}" for number in range(30)]
    for name in names:
        stage.write(run, name, name.encode())
        stage.clock.sleep_s(0.02)
    yield from _completed(stage, run)
    running = not stage.children.ended()
    yield Check("both agents ran", running)
    puts = [stage.door.count(_put(stage.key(run, name))) for name in names]
    yield Check("each file was sent once", set(puts) == {1}, f"sent: {sum(puts)} for {len(puts)}")
    facts = stage.facts(run)
    known = sum(facts.counts.values()) if facts else 0
    yield Check("each file is on record once", known == len(names), f"on record: {known}")
    yield Check("there is one marker", len(_markers(stage, run)) == 1)


def skewed(stage: Stage) -> Iterator[Check]:
    """Clocks lie: dates are hours off, or put back after a write, and the endpoint complains."""
    run, body = RunKey(INSTRUMENT, "skewed"), os.urandom(_LARGE)
    path = stage.path(run, "large")

    def rewrite() -> None:
        seen = path.stat()
        with path.open("r+b") as file:
            file.write(b"0123456789")  # into what was sent already
        os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))

    written = Rule(_part(2, stage.key(run, "large")), rewrite)
    refused = Rule(
        lambda asked: f"/{run}/ahead" in asked.key,
        lambda: Refusal(403, "RequestTimeTooSkewed"),
        times=4,
    )
    stage.door.rules += [written, refused]
    stage.write(run, "large", body)
    now_s = stage.write(run, "ahead", b"ahead").stat().st_mtime
    for name, at_s in (("ahead", now_s + _HOUR_S), ("behind", now_s - _HOUR_S), ("epoch", 0.0)):
        os.utime(stage.write(run, name, name.encode()), (at_s, at_s))
    yield from _completed(stage, run)
    yield Check("the date was put back after a write", written.times == 0)
    yield Check("what was written under it is there", _is_as_source(stage, run, "large"))
    yield Check("the endpoint refused requests for their dates", refused.times == 0)
    record = stage.record(run, "ahead")
    attempts = record.attempt if record else -1
    yield Check("that cost no attempt", attempts == 0, f"attempts: {attempts}")
    dates = {
        name: stage.path(run, name).stat().st_mtime_ns
        for name in ("ahead", "behind", "epoch", "large")
    }
    yield Check("the manifest has the dates of the source", _dates(stage, run) == dates)


#: In the order in which they run.
CASES: dict[str, Callable[[Stage], Iterator[Check]]] = {
    "kill": killed,
    "deny": denied,
    "truncate": truncated,
    "marker": marked,
    "budget": exhausted,
    "broker": flushed,
    "agent": helped,
    "clock": skewed,
}


def _completed(stage: Stage, run: RunKey) -> Iterator[Check]:
    stage.until(lambda: stage.is_complete(run), f"{run} complete")
    yield Check(f"{run.run!r} is whole, as the bucket alone tells", stage.is_whole(run))


def _is_as_source(stage: Stage, run: RunKey, name: str) -> bool:
    return stage.content(run, name) == stage.path(run, name).read_bytes()


def _markers(stage: Stage, run: RunKey) -> list[str]:
    prefix = stage.layout.runs_prefix(run)
    return [one.key for one in stage.store.list_objects(prefix) if not one.key.endswith("jsonl")]


def _dates(stage: Stage, run: RunKey) -> dict[str, int]:
    lines = b"".join(stage.store.read(stage.layout.manifest(run, 1))).splitlines()[1:]
    return {entry.path: entry.mtime_ns for entry in map(read_entry, lines)}


def _is_put(asked: Asked) -> bool:
    return asked.method == "PUT" and not asked.part


def _put(key: str) -> Callable[[Asked], bool]:
    return lambda asked: _is_put(asked) and asked.key == key


def _part(number: int, key: str) -> Callable[[Asked], bool]:
    return lambda asked: asked.part == number and asked.key == key
