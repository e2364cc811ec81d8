"""A run is completed once: on the real ledger, with a bucket that can be broken at every call."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import pytest

from labferry.audit import Act
from labferry.completion import RunState, run_state
from labferry.errors import ObjectConflict, StoreError
from labferry.identity import Layout, RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.manifest import Gap, read_entry, read_header, read_left_out, read_marker
from labferry.ports import Ledger, ObjectStore
from labferry.records import Evidence, Fingerprint, Lane, Level, Note, Step
from labferry.s3.checksum import crc64nvme
from labferry.settings import LedgerSettings
from labferry.states import Event, State
from tests.memory_store import Breaking, Died, MemoryStore
from workers.complete import Completer

RUN = RunKey("seq", "r 1#ü")
LAYOUT = Layout("lab")
FILES = {"a.txt": b"a", "d/b c#.txt": b"bb", "d/zero": b"", "ü.dat": b"ccc"}


@pytest.fixture
def ledger(ledger_url: str) -> RedisLedger:
    return open_ledger(LedgerSettings(url=ledger_url))


def ferried(ledger: RedisLedger, store: MemoryStore, files: dict[str, bytes]) -> None:
    """Bring files to verified, with their objects in the bucket."""
    seen = [(path, Fingerprint(len(body), 1, 2, 3)) for path, body in files.items()]
    ledger.discover(RUN, seen)
    steps = [Step(path=path, fingerprint=one, lane=Lane.SMALL) for path, one in seen]
    ledger.move(RUN, Event.SETTLE, steps)
    taken(ledger, store, files)


def taken(ledger: RedisLedger, store: MemoryStore, files: dict[str, bytes]) -> None:
    """Ferry what waits for a message."""
    for bundle in ledger.take(RUN, Lane.SMALL, bundles=9, max_files=9, max_bytes=999):
        for claim in ledger.claim(RUN, bundle.number, bundle.paths, 1):
            body = files[claim.path]
            stored = store.put_absent(
                LAYOUT.raw(RUN.file(claim.path)), body, crc64nvme(body), "token"
            )
            proof = Evidence(level=Level.A, crc64=crc64nvme(body), etag=stored.etag)
            ledger.move(
                RUN, Event.VERIFY, [Step(path=claim.path, token=claim.token, evidence=proof)]
            )


def completer(ledger: Ledger, store: ObjectStore) -> Completer:
    return Completer(ledger=ledger, store=store, layout=LAYOUT)


def manifest_of(store: MemoryStore, generation: int) -> Iterator[bytes]:
    return iter(store.objects[LAYOUT.manifest(RUN, generation)].body.splitlines())


def test_the_marker_names_a_manifest_that_names_every_file(ledger: RedisLedger) -> None:
    store = MemoryStore()
    ferried(ledger, store, FILES)
    assert ledger.seal(RUN, [], len(FILES))

    assert completer(ledger, store).complete(RUN)

    lines = manifest_of(store, 1)
    assert read_header(next(lines)) == (RUN, 1)
    entries = [read_entry(line) for line in lines]
    assert [entry.path for entry in entries] == sorted(FILES, key=str.encode)
    assert all(entry.crc64nvme == f"{crc64nvme(FILES[entry.path]):016x}" for entry in entries)
    marker = read_marker(store.objects[LAYOUT.marker(RUN, 1)].body)
    body = store.objects[LAYOUT.manifest(RUN, 1)].body
    assert marker.sha256 == hashlib.sha256(body).hexdigest()
    assert (marker.files, marker.size, marker.evidence) == (4, 6, {"A": 4})
    facts = ledger.find_facts(RUN)
    assert facts is not None
    assert run_state(facts) is RunState.COMPLETE
    assert facts.marker == LAYOUT.marker(RUN, 1)
    assert ledger.markers(RUN) == {1}


def test_a_run_that_is_not_sealed_gets_no_marker(ledger: RedisLedger) -> None:
    store = MemoryStore()
    ferried(ledger, store, FILES)
    assert not completer(ledger, store).complete(RUN)
    assert LAYOUT.marker(RUN, 1) not in store.objects


@pytest.mark.parametrize("damage", ["missing", "replaced"])
def test_a_verified_file_that_the_bucket_lost_stops_the_marker_and_is_quarantined(
    ledger: RedisLedger, damage: str
) -> None:
    store = MemoryStore()
    ferried(ledger, store, FILES)
    ledger.seal(RUN, [], len(FILES))
    key = LAYOUT.raw(RUN.file("a.txt"))
    del store.objects[key]
    if damage == "replaced":
        store.put_absent(key, b"other", crc64nvme(b"other"), "stranger")

    assert not completer(ledger, store).complete(RUN)

    assert LAYOUT.marker(RUN, 1) not in store.objects
    record = ledger.find_record(RUN.file("a.txt"))
    assert record is not None
    assert record.state is State.QUARANTINED
    assert ledger.history(RUN.file("a.txt"))[-1].code == f"object_{damage}"
    facts = ledger.find_facts(RUN)
    assert facts is not None
    assert run_state(facts) is RunState.INCOMPLETE


def test_a_stranger_below_the_run_is_reported_and_holds_up_nothing(ledger: RedisLedger) -> None:
    store = MemoryStore()
    ferried(ledger, store, FILES)
    ledger.seal(RUN, [], len(FILES))
    store.put_absent(LAYOUT.raw_prefix(RUN) + "stranger", b"x", crc64nvme(b"x"), "")
    assert completer(ledger, store).complete(RUN)


def test_another_manifest_under_our_key_is_a_conflict_and_is_not_overwritten(
    ledger: RedisLedger,
) -> None:
    store = MemoryStore()
    ferried(ledger, store, FILES)
    ledger.seal(RUN, [], len(FILES))
    store.put_absent(LAYOUT.manifest(RUN, 1), b"other", crc64nvme(b"other"), "")
    with pytest.raises(ObjectConflict):
        completer(ledger, store).complete(RUN)
    assert store.objects[LAYOUT.manifest(RUN, 1)].body == b"other"
    assert ledger.markers(RUN) == set()


def test_late_files_open_a_generation_whose_manifest_names_them_alone(
    ledger: RedisLedger,
) -> None:
    store = MemoryStore()
    ferried(ledger, store, FILES)
    ledger.seal(RUN, [], len(FILES))
    assert completer(ledger, store).complete(RUN)
    first = dict(store.objects)

    ferried(ledger, store, {"a-late.txt": b"late", "zz": b"z"})
    assert ledger.seal(RUN, [], len(FILES) + 2)
    assert completer(ledger, store).complete(RUN)

    assert ledger.markers(RUN) == {1, 2}
    lines = manifest_of(store, 2)
    assert read_header(next(lines)) == (RUN, 2)
    assert [read_entry(line).path for line in lines] == ["a-late.txt", "zz"]
    marker = read_marker(store.objects[LAYOUT.marker(RUN, 2)].body)
    assert (marker.files, marker.total_files) == (2, 6)
    for key in (LAYOUT.manifest(RUN, 1), LAYOUT.marker(RUN, 1)):
        assert store.objects[key] == first[key]


def calls_of(ledger: RedisLedger) -> list[str]:
    """Return the store's calls of one undisturbed completion."""
    store = MemoryStore()
    ferried(ledger, store, FILES)
    ledger.seal(RUN, [], len(FILES))
    seen = Breaking(store, nth=10_000)
    assert completer(ledger, seen).complete(RUN)
    return list(seen.calls)


@pytest.mark.parametrize("port", ["store", "ledger"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_call_ends_with_one_marker_and_one_event(
    ledger: RedisLedger, port: str, when: Literal["before", "after"]
) -> None:
    for nth in range(1, 40):
        ledger._server.client.flushdb()
        store = MemoryStore()
        ferried(ledger, store, FILES)
        ledger.seal(RUN, [], len(FILES))
        broken = Breaking(store if port == "store" else ledger, nth=nth, when=when)
        try:
            completer(
                broken if port == "ledger" else ledger, broken if port == "store" else store
            ).complete(RUN)
        except Died:
            pass
        else:
            if len(broken.calls) < nth:
                break
        # The dead completer's lock ends by itself; the next one is not held up for the test.
        ledger._server.client.delete(f"labferry:leader:complete:{RUN}")
        assert completer(ledger, store).complete(RUN), f"{when} call {nth}"
        assert ledger.markers(RUN) == {1}
        outbox = [
            json.loads(line)
            for key in ledger._server.client.keys("*outbox")
            for line in ledger._server.client.lrange(key, 0, -1)
        ]
        assert [event["event"] for event in outbox] == ["run.completed"]
    else:
        pytest.fail("the completion has more calls than were broken")


@pytest.mark.parametrize("method", ["put_absent"])
def test_a_lost_answer_to_manifest_or_marker_is_read_back(ledger: RedisLedger, method: str) -> None:
    for nth in (1, 2):
        ledger._server.client.flushdb()
        store = MemoryStore()
        ferried(ledger, store, FILES)
        ledger.seal(RUN, [], len(FILES))
        lost = StoreError(operation="PutObject", key="", code="ReadTimeoutError")
        broken = Breaking(store, method=method, nth=nth, when="after", error=lost)
        assert completer(ledger, broken).complete(RUN)
        assert broken.calls.count("put_absent") == 2
        assert ledger.markers(RUN) == {1}


# -- a run that a person closed


ACT = Act(actor="ada@lab", reason="the disk died", what="close")


def closed(ledger: RedisLedger, *lacking: str) -> None:
    """Close a sealed run without files that go up after all others and never came further."""
    ledger.discover(RUN, [(path, Fingerprint(7, 1, 2, 3)) for path in lacking])
    assert ledger.seal(RUN, lacking, 1)
    note = Note(event=Event.CLOSE, kind="operator", code="close", message="the disk died")
    steps = [Step(path=path, note=replace(note, decision="it was discovered")) for path in lacking]
    ledger.act(RUN, Event.CLOSE, steps, ACT)
    assert ledger.close(RUN, ACT)


def test_a_closed_run_gets_a_marker_of_another_name_that_says_what_is_missing(
    ledger: RedisLedger,
) -> None:
    store = MemoryStore()
    ferried(ledger, store, FILES)
    closed(ledger, "z lost", "a/lost")

    assert completer(ledger, store).complete(RUN)
    assert completer(ledger, store).complete(RUN)

    assert LAYOUT.marker(RUN, 1) not in store.objects
    body = store.objects[LAYOUT.incomplete_marker(RUN, 1)].body
    assert json.loads(body)["incomplete"] is True
    marker = read_marker(body)
    assert marker.gap == Gap(files=2, size=14, actor="ada@lab", reason="the disk died")
    assert (marker.files, marker.total_files) == (4, 4)
    lines = store.objects[LAYOUT.manifest(RUN, 1)].body.splitlines()
    left = [one for line in lines if (one := read_left_out(line))]
    assert [one.path for one in left] == ["a/lost", "z lost"]
    assert {one.was for one in left} == {"it was discovered"}
    facts = ledger.find_facts(RUN)
    assert facts is not None
    assert run_state(facts) is RunState.CLOSED
    assert ledger.markers(RUN) == {1}


def test_a_run_that_was_not_done_when_it_was_closed_is_not_complete_whatever_it_holds(
    ledger: RedisLedger,
) -> None:
    store = MemoryStore()
    ferried(ledger, store, FILES)
    assert ledger.close(RUN, ACT)
    assert completer(ledger, store).complete(RUN)
    assert LAYOUT.marker(RUN, 1) not in store.objects
    marker = read_marker(store.objects[LAYOUT.incomplete_marker(RUN, 1)].body)
    assert marker.gap == Gap(files=0, size=0, actor="ada@lab", reason="the disk died")
    facts = ledger.find_facts(RUN)
    assert facts is not None
    assert run_state(facts) is RunState.CLOSED
    ferried(ledger, store, {"late": b"late"})
    assert ledger.seal(RUN, [], len(FILES) + 1)
    assert completer(ledger, store).complete(RUN)
    assert LAYOUT.marker(RUN, 2) in store.objects, "its done rule held after all"


def test_a_late_file_of_a_closed_run_is_the_next_generation(ledger: RedisLedger) -> None:
    store = MemoryStore()
    ferried(ledger, store, FILES)
    closed(ledger, "lost")
    assert completer(ledger, store).complete(RUN)
    ferried(ledger, store, {"late": b"late"})
    assert ledger.seal(RUN, [], len(FILES) + 2)

    assert completer(ledger, store).complete(RUN)

    marker = read_marker(store.objects[LAYOUT.incomplete_marker(RUN, 2)].body)
    assert (marker.files, marker.total_files) == (1, 5)
    assert marker.gap is not None


def test_once_what_was_left_out_is_there_the_next_generation_is_complete(
    ledger: RedisLedger,
) -> None:
    store = MemoryStore()
    ferried(ledger, store, FILES)
    closed(ledger, "lost")
    assert completer(ledger, store).complete(RUN)
    ledger.act(RUN, Event.REPLAY, [Step(path="lost")], ACT)
    facts = ledger.find_facts(RUN)
    assert facts is not None
    assert (facts.generation, run_state(facts)) == (2, RunState.SEALED)
    taken(ledger, store, {"lost": b"7 bytes"})

    assert completer(ledger, store).complete(RUN)

    marker = read_marker(store.objects[LAYOUT.marker(RUN, 2)].body)
    assert (marker.files, marker.total_files, marker.gap) == (1, 5, None)


def test_what_is_sent_in_again_while_its_run_is_completed_is_the_next_generation(
    ledger: RedisLedger,
) -> None:
    """Between what the completer read and its marker, a file that was left out comes back."""
    store = MemoryStore()
    ferried(ledger, store, FILES)
    closed(ledger, "lost")

    class Replaying:
        def __getattr__(self, name: str) -> Any:
            if name == "complete":
                ledger.act(RUN, Event.REPLAY, [Step(path="lost")], ACT)
            return getattr(ledger, name)

    assert completer(Replaying(), store).complete(RUN)
    facts = ledger.find_facts(RUN)
    assert facts is not None
    assert (facts.completed, facts.generation) == (1, 2)
    taken(ledger, store, {"lost": b"7 bytes"})
    assert completer(ledger, store).complete(RUN)
    assert read_marker(store.objects[LAYOUT.marker(RUN, 2)].body).total_files == 5


def test_a_marker_waits_for_what_came_back_while_the_records_were_read(
    ledger: RedisLedger,
) -> None:
    store = MemoryStore()
    ferried(ledger, store, FILES)
    closed(ledger, "lost")

    class Replaying:
        def __getattr__(self, name: str) -> Any:
            if name == "records":
                ledger.act(RUN, Event.REPLAY, [Step(path="lost")], ACT)
            return getattr(ledger, name)

    assert not completer(Replaying(), store).complete(RUN)
    assert LAYOUT.marker(RUN, 1) not in store.objects
    taken(ledger, store, {"lost": b"7 bytes"})
    assert completer(ledger, store).complete(RUN)
    assert read_marker(store.objects[LAYOUT.marker(RUN, 1)].body).total_files == 5


def test_a_held_run_gets_no_marker_until_it_is_released(ledger: RedisLedger) -> None:
    store = MemoryStore()
    ferried(ledger, store, FILES)
    assert ledger.seal(RUN, [], len(FILES))
    ledger.hold(RUN, ACT)
    assert not completer(ledger, store).complete(RUN)
    assert LAYOUT.marker(RUN, 1) not in store.objects
    ledger.release(RUN, ACT)
    assert completer(ledger, store).complete(RUN)
