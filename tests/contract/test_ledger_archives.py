"""Does every ledger put the records of complete runs away, and take them back, as the port says?"""

from collections.abc import Iterator

import pytest
import redis

from labferry.archive import Archive
from labferry.archive_lines import ArchivedFile
from labferry.ledger import archives
from labferry.ledger.keys import RunKeys
from labferry.ledger.layout import pack_record, unpack_record
from labferry.records import Note, Outcome, RunFacts
from labferry.states import Event, State
from tests.ledger_world import EVIDENCE, OTHER, PRINT, RUN, World, server_world

ARCHIVE = Archive(key="runs/r/records/0.jsonl.gz", sha256="0" * 64, files=3)
NOTE = Note(event=Event.HOLD, kind="environment", code="Down", message="ü", worker="host:1")


def finished(world: World) -> dict[str, ArchivedFile]:
    """Bring a run to completion: a file that was held, one that was not, one that was skipped."""
    token = world.upload("held", "plain")
    world.move(Event.HOLD, "held", token=token, note=NOTE, delay_ms=0)
    world.ledger.take_due(RUN, 9)
    for bundle in world.take():
        world.claim(bundle=bundle.number)
    world.discover("litter")
    world.move(Event.SKIP, "litter")
    for path in ("held", "plain"):
        done = world.as_holder(Event.VERIFY, path, evidence=EVIDENCE)
        assert done == [Outcome.DONE]
    assert world.ledger.seal(RUN, [], 2)
    assert world.complete(file_count=2)
    return files(world)


def files(world: World) -> dict[str, ArchivedFile]:
    return {one.path: one for one in world.ledger.archived_files(RUN)}


def known(world: World) -> RunFacts:
    """The run's facts; its records are not there to be counted again."""
    facts = world.ledger.find_facts(RUN)
    assert facts is not None
    return facts


def put_away(world: World) -> bool:
    return world.ledger.put_away(RUN, ARCHIVE, known(world).moves)


def test_what_is_put_away_comes_back_as_it_was(world: World) -> None:
    before, facts = finished(world), world.facts()
    assert put_away(world)
    assert files(world) == {}
    assert world.history("held") == []
    assert world.ledger.take_back(RUN, ARCHIVE, before.values())
    assert files(world) == before
    assert world.history("held") == list(before["held"].history)
    after = world.facts()
    assert (after.counts, after.sizes) == (facts.counts, facts.sizes)
    assert after.archive is None
    assert after.finished_ms >= facts.finished_ms > 0
    assert RUN in world.ledger.active_runs()


def test_a_run_that_was_put_away_keeps_its_counts_and_names_its_archive(world: World) -> None:
    finished(world)
    facts = world.facts()
    assert put_away(world)
    after = known(world)
    assert (after.counts, after.sizes, after.marker) == (facts.counts, facts.sizes, facts.marker)
    assert after.archive == ARCHIVE
    assert world.ledger.runs() == [RUN]
    assert world.ledger.markers(RUN) == {1}


def test_nothing_is_put_away_once_a_file_moved(world: World) -> None:
    before = finished(world)
    moves = world.facts().moves
    world.move(Event.REAPPEAR, "litter", fingerprint=PRINT)
    world.move(Event.SKIP, "litter")
    assert not world.ledger.put_away(RUN, ARCHIVE, moves)
    assert files(world).keys() == before.keys()


def test_nothing_is_put_away_of_a_run_that_is_not_complete(world: World) -> None:
    world.verify("a")
    assert not put_away(world)
    assert world.record("a").state is State.VERIFIED


def test_nothing_of_a_run_that_was_put_away_is_discovered(world: World) -> None:
    finished(world)
    facts = world.facts()
    assert put_away(world)
    assert world.discover("plain", "new") == 0
    assert world.move(Event.CONFLICT, "plain", fingerprint=PRINT) == [Outcome.MISSING]
    after = known(world)
    assert (after.counts, after.generation, after.changed_ms) == (
        facts.counts, 1, facts.changed_ms,
    )  # fmt: skip


def test_half_an_archive_is_not_taken_back(world: World) -> None:
    before = finished(world)
    assert put_away(world)
    assert not world.ledger.take_back(RUN, ARCHIVE, [before["plain"]])
    assert files(world) == {}
    assert known(world).archive == ARCHIVE
    assert world.ledger.take_back(RUN, ARCHIVE, before.values())
    assert files(world) == before


def test_another_archive_is_not_taken_back(world: World) -> None:
    before = finished(world)
    assert put_away(world)
    other = Archive(key="other", sha256="1" * 64, files=3)
    assert not world.ledger.take_back(RUN, other, before.values())
    assert not world.ledger.put_away(RUN, other, known(world).moves)
    assert known(world).archive == ARCHIVE


def test_both_may_run_twice(world: World) -> None:
    before = finished(world)
    assert put_away(world)
    assert world.ledger.put_away(RUN, ARCHIVE, 0)
    assert world.ledger.take_back(RUN, ARCHIVE, before.values())
    assert not world.ledger.take_back(RUN, ARCHIVE, before.values())
    assert files(world) == before


def test_a_late_file_of_a_run_that_was_taken_back_opens_the_next_generation(world: World) -> None:
    before = finished(world)
    assert put_away(world)
    assert world.ledger.take_back(RUN, ARCHIVE, before.values())
    assert world.discover("late") == 1
    world.move(Event.SETTLE, "late", fingerprint=PRINT)
    assert world.facts().generation == 2


def test_records_that_come_twice_are_taken_back_once(world: World) -> None:
    before = finished(world)
    assert put_away(world)

    def twice() -> Iterator[ArchivedFile]:
        yield from before.values()
        yield from before.values()

    assert world.ledger.take_back(RUN, ARCHIVE, twice())
    assert files(world) == before


def test_a_retired_run_is_finished_until_it_is_put_away(world: World) -> None:
    finished(world)
    assert world.ledger.finished_runs(rest_ms=0, limit=9) == []
    world.pass_ms(61_000)
    world.ledger.retire(RUN)
    assert world.ledger.finished_runs(rest_ms=0, limit=9) == [RUN]
    assert world.ledger.finished_runs(rest_ms=60_000, limit=9) == []
    world.pass_ms(61_000)
    assert world.ledger.finished_runs(rest_ms=60_000, limit=9) == [RUN]
    assert put_away(world)
    assert world.ledger.finished_runs(rest_ms=0, limit=9) == []


def test_what_a_scan_saw_is_noted(world: World) -> None:
    world.discover("a", run=OTHER)
    world.ledger.note_sight(OTHER, "12ab")
    facts = world.ledger.find_facts(OTHER)
    assert facts is not None
    assert facts.sight == "12ab"


@pytest.mark.parametrize("state", [one for one in State if one is not State.DISCOVERED])
def test_every_record_is_taken_back_byte_by_byte(ledger_url: str, state: State) -> None:
    server_world(ledger_url).bring(state, "f")
    value = redis.Redis.from_url(ledger_url).hget(RunKeys(RUN).files, "f")
    assert isinstance(value, bytes)
    assert pack_record(unpack_record(value)) == value


def test_of_a_run_of_many_pages_nothing_is_left(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A hash that was emptied from its beginning has nothing to show there, and is not empty.
    monkeypatch.setattr(archives, "_PAGE_FILES", 10)
    world = server_world(ledger_url)
    paths = [f"d{number % 100}/f{number:06}" for number in range(5_000)]
    world.discover(*paths)
    world.move(Event.SKIP, *paths, note=NOTE)
    assert world.complete()
    assert world.ledger.put_away(RUN, ARCHIVE, known(world).moves)
    start = RunKeys(RUN).files.removesuffix("files")
    left = {
        key.decode().removeprefix(start)
        for key in redis.Redis.from_url(ledger_url).scan_iter(f"{start}*", count=1000)
    }
    assert left <= {"meta", "markers", "outbox"}
