"""Does every ledger let at most one worker hold a file, and nobody else write for it?"""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from labferry.errors import Fenced
from labferry.records import Fingerprint, Lane, Note, Outcome, Part, Proof, Upload
from labferry.states import MOVE_OF, Actor, Event, State
from tests.ledger_world import EVIDENCE, OTHER, RUN, TTL_MS, World

DONE, ILLEGAL, FENCED = Outcome.DONE, Outcome.ILLEGAL, Outcome.FENCED
HOLDERS = [event for event, move in MOVE_OF.items() if move.actor is Actor.HOLDER]
FILE = RUN.file("a")
NOTE = Note(event=Event.FAIL, kind="transient", code="SlowDown", message="wait")
UPLOAD = Upload(
    attempt_token="attempt-1",
    part_size=8 << 20,
    fingerprint=Fingerprint(2**63, -1, 2**64 - 1, 2**62),
)
PROOF = Proof(
    refuses_wrong_checksum=True,
    attests_checksum=True,
    full_object=False,
    conditional_put=True,
    conditional_complete=False,
    content_md5=True,
    proven_ms=5,
)


def test_of_64_racers_one_wins_each_file(world: World) -> None:
    world.settle("a", "b", "c")
    (bundle,) = world.take()
    start = threading.Barrier(64)
    ledgers = [world.second() for _ in range(8)]

    def race(number: int) -> list[tuple[str, int, int]]:
        start.wait()
        claims = ledgers[number % 8].claim(RUN, bundle.number, ["a", "b", "c"], number)
        return [(claim.path, claim.token, number) for claim in claims]

    with ThreadPoolExecutor(64) as pool:
        won = [one for claims in pool.map(race, range(64)) for one in claims]
    assert sorted(path for path, _, _ in won) == ["a", "b", "c"]
    for path, token, number in won:
        assert (world.token(path), world.record(path).holder) == (token, number)
    assert world.facts().counts[State.UPLOADING] == 3


# -- leases


def test_a_lease_lapses_when_it_is_not_renewed(world: World) -> None:
    token = world.upload("a", "b")
    assert world.ledger.lapsed(RUN, 10) == []
    world.pass_ms(TTL_MS - 5_000)
    assert world.ledger.lapsed(RUN, 10) == []
    assert world.ledger.renew(RUN, [("b", token)]) == [True]
    world.pass_ms(5_000)
    ((path, record),) = world.ledger.lapsed(RUN, 10)
    assert path == "a"
    assert record == world.record("a")
    world.pass_ms(TTL_MS)
    assert {path for path, _ in world.ledger.lapsed(RUN, 10)} == {"a", "b"}
    assert len(world.ledger.lapsed(RUN, 1)) == 1


def test_a_lease_ends_a_time_to_live_from_its_last_renewal(world: World) -> None:
    token = world.upload("a")
    world.pass_ms(30_000)
    world.ledger.renew(RUN, [("a", token)])
    ends = world.ledger.find_due(FILE)
    assert ends is not None
    assert TTL_MS - 5_000 < ends - world.ledger.now_ms() <= TTL_MS


def test_only_the_newest_token_of_a_leased_file_is_renewed(world: World) -> None:
    old = world.upload("held", "given back", "twice")
    world.move(Event.YIELD, "given back", "twice", token=old)
    (new,) = world.claim("twice")
    held = [(path, old) for path in ("held", "given back", "twice", "unknown")]
    held += [("twice", new), ("held", 0)]
    assert world.ledger.renew(RUN, held) == [True, False, False, False, True, False]
    assert world.ledger.renew(RUN, []) == []
    assert world.ledger.renew(OTHER, [("held", old)]) == [False]
    world.move(Event.YIELD, "held", "twice", token=old)
    world.pass_ms(TTL_MS)
    assert [path for path, _ in world.ledger.lapsed(RUN, 10)] == ["twice"]


def test_a_worker_lost_after_it_stored_is_seen_too(world: World) -> None:
    token = world.upload("a")
    assert world.move(Event.STORE, "a", token=token) == [DONE]
    assert world.ledger.renew(RUN, [("a", token)]) == [True]
    world.pass_ms(TTL_MS)
    assert [path for path, _ in world.ledger.lapsed(RUN, 10)] == ["a"]
    assert world.move(Event.EXPIRE, "a", token=token, delay_ms=0) == [DONE]
    assert world.ledger.lapsed(RUN, 10) == []
    assert (world.record("a").state, world.record("a").lost) == (State.FAILED, 1)


@pytest.mark.parametrize("event", [event for event in HOLDERS if event is not Event.STORE])
def test_a_file_that_left_its_worker_has_no_lease(world: World, event: Event) -> None:
    token = world.upload("a")
    world.move(event, "a", token=token, evidence=EVIDENCE, delay_ms=9_000_000)
    world.pass_ms(TTL_MS)
    assert world.ledger.lapsed(RUN, 10) == []
    assert world.ledger.renew(RUN, [("a", token)]) == [False]


@pytest.mark.parametrize("event", [Event.EXPIRE, Event.EXHAUST])
@pytest.mark.parametrize("stored", [False, True])
def test_a_lease_is_ended_only_when_it_lapsed(world: World, event: Event, stored: bool) -> None:
    token = world.upload("a")
    if stored:
        world.move(Event.STORE, "a", token=token)
    assert world.move(event, "a", token=token) == [FENCED]
    assert world.move(event, "a") == [FENCED]
    world.pass_ms(TTL_MS)
    assert world.move(event, "a") == [FENCED], "it does not say whose lease it means"
    assert world.move(event, "a", token=token + 1) == [FENCED]
    assert world.ledger.lapsed(RUN, 10)
    world.ledger.renew(RUN, [("a", token)])
    assert world.move(event, "a", token=token) == [FENCED], "the holder was there after all"
    world.pass_ms(TTL_MS)
    assert world.move(event, "a", token=token) == [DONE]
    assert world.record("a").lost == 1
    assert world.move(Event.VERIFY, "a", token=token, evidence=EVIDENCE) == [ILLEGAL]


def test_a_sweep_that_is_late_does_not_end_the_next_lease(world: World) -> None:
    token = world.upload("a")
    world.pass_ms(TTL_MS)
    world.move(Event.EXPIRE, "a", token=token)
    world.ledger.take_due(RUN, 1)
    assert world.claim("a") > [token]
    world.pass_ms(TTL_MS)
    assert world.move(Event.EXPIRE, "a", token=token) == [FENCED]
    assert world.record("a").state is State.UPLOADING


# -- what a holder writes


@pytest.mark.parametrize("event", HOLDERS)
def test_a_holder_s_move_that_is_told_twice_is_done_once(world: World, event: Event) -> None:
    token = world.upload("a", lane=Lane.LARGE)
    world.settle("other")
    fields: dict[str, Any] = {"token": token, "evidence": EVIDENCE, "delay_ms": 0, "note": NOTE}
    assert world.move(event, "a", **fields) == [DONE]
    world.pass_ms(3)
    record, facts = world.record("a"), world.facts()
    assert world.move(event, "a", "a", **fields) == [DONE, DONE]
    assert world.record("a") == record
    assert len(world.history("a")) == 1
    assert world.facts().ready == facts.ready
    assert world.facts().counts == facts.counts
    assert world.facts().changed_ms == facts.changed_ms


@pytest.mark.parametrize("event", HOLDERS)
def test_a_stale_holder_is_fenced(world: World, event: Event) -> None:
    old = world.upload("a")
    world.move(Event.YIELD, "a", token=old)
    (new,) = world.claim("a")
    before = world.record("a")
    for token in (old, 0, new + 1):
        assert world.move(event, "a", token=token, evidence=EVIDENCE, note=NOTE) == [FENCED]
    assert world.record("a") == before
    assert world.history("a") == []
    assert world.facts().counts[State.UPLOADING] == 1


def test_a_stale_holder_is_fenced_after_the_next_one_verified(world: World) -> None:
    token = world.upload("a")
    world.move(Event.YIELD, "a", token=token)
    world.claim("a")
    world.as_holder(Event.VERIFY, "a", evidence=EVIDENCE)
    other = replace(EVIDENCE, crc64=1)
    assert world.move(Event.VERIFY, "a", token=token, evidence=other) == [FENCED]
    assert world.record("a").evidence == EVIDENCE


# -- multipart plans


def test_a_plan_and_its_parts_are_kept(world: World) -> None:
    token = world.upload("a")
    assert world.ledger.find_upload(FILE) is None
    world.ledger.save_upload(FILE, token, UPLOAD)
    assert world.ledger.find_upload(FILE) == UPLOAD
    parts = {1: Part(2**64 - 1, 8 << 20), 2: Part(0, 1, "etag with spaces"), 10_000: Part(1, 0)}
    world.ledger.save_parts(FILE, token, parts)
    begun = replace(UPLOAD, upload_id="id+/= x", complete_sent_ms=9)
    world.ledger.save_upload(FILE, token, begun)
    assert world.ledger.find_upload(FILE) == replace(begun, parts=parts)
    world.ledger.save_parts(FILE, token, {1: Part(5, 6, "e")})
    assert world.ledger.find_upload(FILE) == replace(begun, parts={**parts, 1: Part(5, 6, "e")})
    world.ledger.drop_upload(FILE, token)
    assert world.ledger.find_upload(FILE) is None


def test_all_parts_of_the_largest_upload_are_saved_at_once(world: World) -> None:
    token = world.upload("a")
    world.ledger.save_upload(FILE, token, UPLOAD)
    parts = {number: Part(number, number, f"e{number}") for number in range(1, 10_001)}
    world.ledger.save_parts(FILE, token, parts)
    found = world.ledger.find_upload(FILE)
    assert found is not None
    assert found.parts == parts


def test_a_plan_outlives_its_worker(world: World) -> None:
    token = world.upload("a")
    world.ledger.save_upload(FILE, token, UPLOAD)
    world.move(Event.FAIL, "a", token=token, delay_ms=0)
    world.ledger.take_due(RUN, 1)
    assert world.claim("a") > [token]
    assert world.ledger.find_upload(FILE) == UPLOAD


@pytest.mark.parametrize("event", [Event.VERIFY, Event.ABANDON])
def test_a_plan_is_forgotten_when_it_is_of_no_more_use(world: World, event: Event) -> None:
    token = world.upload("a", "b")
    world.ledger.save_upload(FILE, token, UPLOAD)
    world.ledger.save_upload(RUN.file("b"), token, UPLOAD)
    world.move(event, "a", token=token, evidence=EVIDENCE)
    assert world.ledger.find_upload(FILE) is None
    assert world.ledger.find_upload(RUN.file("b")) == UPLOAD


@pytest.mark.parametrize("off", [-1, 1, None])
def test_only_the_holder_writes_a_plan(world: World, off: int | None) -> None:
    newest = world.upload("a")
    world.ledger.save_upload(FILE, newest, UPLOAD)
    token = 0 if off is None else newest + off
    with pytest.raises(Fenced, match=r"NovaSeq1/240601_A0001/a \(token"):
        world.ledger.save_upload(FILE, token, replace(UPLOAD, upload_id="stale"))
    with pytest.raises(Fenced):
        world.ledger.save_parts(FILE, token, {1: Part(1, 1)})
    with pytest.raises(Fenced):
        world.ledger.drop_upload(FILE, token)
    assert world.ledger.find_upload(FILE) == UPLOAD


def test_a_receipt_that_comes_late_writes_no_parts_without_their_plan(world: World) -> None:
    """A thread that was given up may bring it once the upload was ended, under the same lease."""
    token = world.upload("a")
    world.ledger.save_upload(FILE, token, UPLOAD)
    world.ledger.drop_upload(FILE, token)
    with pytest.raises(Fenced):
        world.ledger.save_parts(FILE, token, {1: Part(1, 1, "e")})
    assert world.ledger.find_upload(FILE) is None
    assert world.ledger.bytes_under_way(RUN) == 0


def test_nobody_writes_a_plan_without_a_lease(world: World) -> None:
    token = world.upload("a")
    world.move(Event.FAIL, "a", token=token, delay_ms=0)
    for file in (FILE, RUN.file("unknown"), OTHER.file("a")):
        with pytest.raises(Fenced):
            world.ledger.save_upload(file, token, UPLOAD)
        assert world.ledger.find_upload(file) is None


def test_bytes_under_way_are_those_acknowledged_under_a_lease(world: World) -> None:
    token = world.upload("a", "b")
    for path in ("a", "b"):
        world.ledger.save_upload(RUN.file(path), token, UPLOAD)
        world.ledger.save_parts(RUN.file(path), token, {1: Part(1, 70, "e"), 2: Part(1, 900)})
    assert world.ledger.bytes_under_way(RUN) == 140
    world.move(Event.FAIL, "b", token=token, delay_ms=0)
    assert world.ledger.bytes_under_way(RUN) == 70
    assert world.ledger.bytes_under_way(OTHER) == 0


# -- who is who, what is proven, what could not be read, who leads


def test_workers_have_numbers(world: World) -> None:
    first, second = world.ledger.register("w1@höst"), world.ledger.register("w1@höst")
    assert 0 < first != second
    assert world.second().worker_name(first) == "w1@höst"
    assert world.ledger.worker_name(0) == ""
    assert world.ledger.worker_name(999) == ""


def test_a_proof_is_kept_for_a_time(world: World) -> None:
    endpoint = "http://127.0.0.1:9000/bucket {x}"
    assert world.ledger.find_proof(endpoint) is None
    world.ledger.save_proof(endpoint, PROOF, keep_s=60)
    assert world.ledger.find_proof(endpoint) == PROOF
    assert world.ledger.find_proof("http://127.0.0.1:9000/bucket") is None
    world.pass_ms(61_000)
    assert world.ledger.find_proof(endpoint) is None


def test_buried_messages_are_kept_in_order(world: World) -> None:
    assert world.ledger.dead_messages() == []
    for message in ("{bad", "µ \n 2", "{bad"):
        world.ledger.bury(message)
    assert world.ledger.dead_messages() == ["{bad", "µ \n 2", "{bad"]


def test_one_of_two_leads(world: World) -> None:
    one = world.ledger.leadership("sweep", keep_s=30)
    two = world.second().leadership("sweep", keep_s=30)
    assert one.keep()
    assert not two.keep()
    assert world.ledger.leadership("another", keep_s=30).keep()
    world.pass_ms(20_000)
    assert one.keep()
    world.pass_ms(20_000)
    assert not two.keep(), "it was extended"
    assert one.keep()


def test_another_leads_once_the_leader_is_not_heard_of(world: World) -> None:
    one = world.ledger.leadership("sweep", keep_s=30)
    two = world.second().leadership("sweep", keep_s=30)
    assert one.keep()
    world.pass_ms(31_000)
    assert two.keep()
    assert not one.keep()
    one.release()
    assert not one.keep(), "what is another's was not released"
    world.pass_ms(31_000)
    assert one.keep(), "it leads again, its lock having run out unseen"
    world.pass_ms(31_000)
    assert one.keep()
    assert not two.keep()


def test_what_is_only_extended_is_never_taken(world: World) -> None:
    one = world.ledger.leadership("sweep", keep_s=30)
    two = world.second().leadership("sweep", keep_s=30)
    assert not one.extend()
    assert one.keep()
    world.pass_ms(20_000)
    assert one.extend()
    world.pass_ms(20_000)
    assert not two.keep(), "it was extended"
    one.release()
    assert not one.extend(), "a thread that still works for who released"
    assert two.keep()
    world.pass_ms(31_000)
    assert not two.extend(), "it ran out"
    assert one.keep()


def test_another_leads_at_once_when_the_leader_releases(world: World) -> None:
    one = world.ledger.leadership("sweep", keep_s=30)
    two = world.second().leadership("sweep", keep_s=30)
    one.release()
    assert one.keep()
    two.release()
    assert not two.keep()
    one.release()
    one.release()
    assert two.keep()
