"""What does only the ledger on a server promise? Its errors, keys and size."""

import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from redis.crc import key_slot
from redis.sentinel import MasterNotFoundError

from labferry.archive import Archive
from labferry.audit import Act
from labferry.batch import Batch, Item, Stage
from labferry.breakers import Breaker, Phase
from labferry.dead_letter import DeadLetter
from labferry.errors import LedgerUnavailable, MalformedMessage, Refused, SettingsError
from labferry.failures import Cause
from labferry.identity import RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.ledger.keys import RunKeys
from labferry.ledger.server import Server
from labferry.outbox import Delivery
from labferry.passes import Pass
from labferry.ports import Ledger
from labferry.records import Completion, Fingerprint, Lane, Proof, Step, Upload
from labferry.settings import LedgerSettings
from labferry.states import Event, State
from labferry.tallies import Tally, What
from labferry.throttle import Pace
from labferry.turns import Turn
from ops.loopback import HOST, free_ports
from tests.ledger_world import EVIDENCE, PRINT, RUN, World, server_world
from tests.memory_ledger import new_record

FILE = RUN.file("a")
UPLOAD = Upload(attempt_token="t", part_size=5, fingerprint=PRINT)
PROOF = Proof(
    refuses_wrong_checksum=True,
    attests_checksum=True,
    full_object=True,
    conditional_put=True,
    conditional_complete=True,
    content_md5=True,
)
COMPLETION = Completion(
    generation=1, file_count=0, manifest_key="", manifest_digest="", marker_key="", event=""
)
ACT = Act(actor="ops", reason="because", what="discard")
BREAKER = Breaker(
    name="b", cause=Cause.ENDPOINT, phase=Phase.OPEN, code="c", message="m", since_ms=1, at_ms=1
)
BATCH = Batch(id="1", act=ACT, created_ms=1, causes=())
ITEM = Item(file=FILE, cause=0, order=0, series=0, state=State.QUARANTINED)
PACE = Pace(name="p", share=0.5, at_ms=1, code="c", message="m")
ARCHIVE = Archive(key="k", sha256="", files=1)
LETTER = DeadLetter(file=FILE, at_ms=1, record=new_record(PRINT, 1), notes=())
CALLS: dict[str, Callable[[Ledger], object]] = {
    "now_ms": lambda ledger: ledger.now_ms(),
    "look": lambda ledger: ledger.look(RUN, ["a"]),
    "discover": lambda ledger: ledger.discover(RUN, [("a", PRINT)]),
    "move": lambda ledger: ledger.move(RUN, Event.CHANGE, [Step(path="a")]),
    "seal": lambda ledger: ledger.seal(RUN, [], 0),
    "runs": lambda ledger: ledger.runs(),
    "active_runs": lambda ledger: ledger.active_runs(),
    "retire": lambda ledger: ledger.retire(RUN),
    "find_facts": lambda ledger: ledger.find_facts(RUN),
    "facts_of": lambda ledger: ledger.facts_of([RUN]),
    "take": lambda ledger: ledger.take(RUN, Lane.SMALL, bundles=1, max_files=1, max_bytes=1),
    "take_due": lambda ledger: ledger.take_due(RUN, 1),
    "take_unclaimed": lambda ledger: ledger.take_unclaimed(RUN, 1),
    "register": lambda ledger: ledger.register("w"),
    "worker_name": lambda ledger: ledger.worker_name(1),
    "claim": lambda ledger: ledger.claim(RUN, 1, ["a"], 1),
    "begin": lambda ledger: ledger.begin(RUN, 1, ["a"], 1),
    "renew": lambda ledger: ledger.renew(RUN, [("a", 1)]),
    "find_upload": lambda ledger: ledger.find_upload(FILE),
    "save_upload": lambda ledger: ledger.save_upload(FILE, 1, UPLOAD),
    "save_parts": lambda ledger: ledger.save_parts(FILE, 1, {}),
    "drop_upload": lambda ledger: ledger.drop_upload(FILE, 1),
    "find_proof": lambda ledger: ledger.find_proof("e"),
    "save_proof": lambda ledger: ledger.save_proof("e", PROOF, keep_s=1),
    "lapsed": lambda ledger: ledger.lapsed(RUN, 1),
    "pending_last": lambda ledger: ledger.pending_last(RUN),
    "records": lambda ledger: list(ledger.records(RUN)),
    "complete": lambda ledger: ledger.complete(RUN, COMPLETION),
    "leadership": lambda ledger: ledger.leadership("x", keep_s=1).keep(),
    "find_record": lambda ledger: ledger.find_record(FILE),
    "find_records": lambda ledger: ledger.find_records(RUN, ["a"]),
    "find_due": lambda ledger: ledger.find_due(FILE),
    "bytes_under_way": lambda ledger: ledger.bytes_under_way(RUN),
    "history": lambda ledger: ledger.history(FILE),
    "bury": lambda ledger: ledger.bury("m"),
    "dead_messages": lambda ledger: ledger.dead_messages(),
    "markers": lambda ledger: ledger.markers(RUN),
    "dead_files": lambda ledger: list(ledger.dead_files(RUN)),
    "reasons_due": lambda ledger: ledger.reasons_due(RUN, 0, 1),
    "reasons_written": lambda ledger: ledger.reasons_written(RUN, [("a", 1)]),
    "act": lambda ledger: ledger.act(RUN, Event.DISCARD, [Step(path="a")], ACT),
    "record_act": lambda ledger: ledger.record_act(RUN, ACT),
    "hold": lambda ledger: ledger.hold(RUN, ACT),
    "release": lambda ledger: ledger.release(RUN, ACT),
    "holds": lambda ledger: ledger.holds(),
    "find_hold": lambda ledger: ledger.find_hold(RUN),
    "close": lambda ledger: ledger.close(RUN, ACT),
    "new_batch_id": lambda ledger: ledger.new_batch_id(),
    "open_batch": lambda ledger: ledger.open_batch(BATCH, [ITEM]),
    "find_batch": lambda ledger: ledger.find_batch("1"),
    "batches": lambda ledger: ledger.batches(),
    "open_batches": lambda ledger: ledger.open_batches(),
    "swap_batch": lambda ledger: ledger.swap_batch(BATCH, BATCH),
    "batch_items": lambda ledger: ledger.batch_items("1", Stage.SENT, 1),
    "put_items": lambda ledger: ledger.put_items("1", Stage.SENT, [ITEM]),
    "ended_items": lambda ledger: ledger.ended_items("1", 0, 1),
    "known": lambda ledger: ledger.known([FILE]),
    "audit": lambda ledger: list(ledger.audit(RUN)),
    "audit_head": lambda ledger: ledger.audit_head(RUN),
    "conditions": lambda ledger: ledger.conditions(),
    "swap_breaker": lambda ledger: ledger.swap_breaker(None, BREAKER),
    "swap_pace": lambda ledger: ledger.swap_pace(None, PACE),
    "alert": lambda ledger: ledger.alert("key", "text"),
    "alerts": lambda ledger: ledger.alerts(),
    "enlist": lambda ledger: ledger.enlist("sink", gather_ms=0, new_ms=0),
    "due_alerts": lambda ledger: ledger.due_alerts("sink", 1),
    "delivered": lambda ledger: ledger.delivered("sink", "key"),
    "not_delivered": lambda ledger: ledger.not_delivered("sink", "key", why="w", again_ms=1),
    "undelivered": lambda ledger: ledger.undelivered(),
    "recall": lambda ledger: ledger.recall(RUN, [LETTER], is_told=True),
    "note_sight": lambda ledger: ledger.note_sight(RUN, "seen"),
    "finished_runs": lambda ledger: ledger.finished_runs(rest_ms=0, limit=1),
    "put_away": lambda ledger: ledger.put_away(RUN, ARCHIVE, 0),
    "take_back": lambda ledger: ledger.take_back(RUN, ARCHIVE, []),
    "archived_files": lambda ledger: list(ledger.archived_files(RUN)),
    "end_custody": lambda ledger: ledger.end_custody(RUN, ACT),
    "resume_custody": lambda ledger: ledger.resume_custody(RUN, ACT),
    "out_of_custody": lambda ledger: ledger.out_of_custody(),
    "tell": lambda ledger: ledger.tell(RUN, ["{}"]),
    "told": lambda ledger: ledger.told(RUN),
    "open_outboxes": lambda ledger: ledger.open_outboxes(),
    "close_outbox": lambda ledger: ledger.close_outbox(RUN),
    "event_sinks": lambda ledger: ledger.event_sinks(),
    "sink_since": lambda ledger: ledger.sink_since("sink"),
    "waiting_events": lambda ledger: ledger.waiting_events("sink", [RUN]),
    "swap_delivery": lambda ledger: ledger.swap_delivery(RUN, "sink", Delivery(), Delivery()),
    "parked_deliveries": lambda ledger: ledger.parked_deliveries(),
    "limits": lambda ledger: ledger.limits(),
    "set_limit": lambda ledger: ledger.set_limit("scope", None, ACT),
    "reserve": lambda ledger: ledger.reserve({"scope": 1}, 1),
    "passes": lambda ledger: ledger.passes(),
    "tell_pass": lambda ledger: ledger.tell_pass(Pass(instrument="scope", host="h", at_ms=1)),
    "tell_waiting": lambda ledger: ledger.tell_waiting("scope", "h", []),
    "forget_pass": lambda ledger: ledger.forget_pass("scope", "h"),
    "turns": lambda ledger: ledger.turns(),
    "tell_turns": lambda ledger: ledger.tell_turns({"scope": Turn(rank=1)}),
    "tally": lambda ledger: ledger.tally({Tally("scope", What.CLAIM): 1}, {}),
    "tallies": lambda ledger: ledger.tallies(),
    "dead_since": lambda ledger: ledger.dead_since([RUN]),
    "waiting_since": lambda ledger: ledger.waiting_since([RUN]),
    "is_led": lambda ledger: ledger.is_led("sweep"),
}


@pytest.fixture
def world(ledger_url: str) -> World:
    return server_world(ledger_url)


def ledger_at(url: str) -> RedisLedger:
    return open_ledger(LedgerSettings(url=url))


def test_every_call_of_the_port_is_tried_below() -> None:
    ports = [port for port in Ledger.__mro__ if port.__module__.startswith("labferry.")]
    calls = {name for port in ports for name in vars(port) if not name.startswith("_")}
    assert CALLS.keys() == calls


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_server_that_is_not_there_is_said_so_without_the_password(
    call: Callable[[Ledger], object],
) -> None:
    (port,) = free_ports(1)
    ledger = ledger_at(f"redis://ferry:s3cr%2Fet@{HOST}:{port}/1")
    with pytest.raises(LedgerUnavailable) as caught:
        call(ledger)
    assert caught.value.url == f"redis://ferry:***@{HOST}:{port}/1"
    text = "".join(traceback.format_exception(caught.value))
    assert "s3cr" not in text
    assert f"{HOST}:{port}" in str(caught.value)
    assert "Check [ledger] url" in str(caught.value)


def test_sentinels_that_name_no_primary_are_told_of_without_the_clients_innards() -> None:
    def ask() -> None:
        raise MasterNotFoundError("No master found for 'm' : <redis.client.Redis(<...>)> - Timeout")

    server = Server(f"sentinel://{HOST}:1/1?master=m")
    with pytest.raises(
        LedgerUnavailable, match=r"\(MasterNotFoundError: No master found for 'm'\)"
    ):
        server.ask_anyway(ask)


def test_a_wrong_password_is_not_shown(ledger_url: str) -> None:
    url = ledger_url.replace("//", "//nobody:hidden@")
    with pytest.raises(LedgerUnavailable) as caught:
        ledger_at(url).now_ms()
    assert "hidden" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hidden/half@host:6379/1",
        "redis://user:hidden@host:port/1",
        "redis://user:hid#den@host/1?x=[",
        "redis://host:p/1?password=hidden",
    ],
)
def test_a_url_that_cannot_be_read_is_named_without_the_password(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        ledger_at(url)
    assert caught.value.field == "ledger.url"
    text = "".join(traceback.format_exception(caught.value))
    assert not any(piece in text for piece in ("hidden", "half", "hid#", "den@"))


def test_what_the_server_refuses_is_an_answer_that_did_not_come(world: World) -> None:
    world.discover("a")
    client = client_of(world)
    client.config_set("maxmemory", 1)
    try:
        with pytest.raises(LedgerUnavailable, match=r"OutOfMemory.*raise `maxmemory`"):
            world.discover("b")
        assert world.ledger.find_record(RUN.file("b")) is None
    finally:
        client.config_set("maxmemory", 0)
    assert world.discover("b") == 1
    world.facts()


def test_a_record_that_cannot_be_read_is_said_so(world: World) -> None:
    world.discover("a")
    for value in (b"?" * 60, b"d", b"e" + b"\0" * 4 + b"?" + b"\0" * 60):
        client_of(world).hset(RunKeys(RUN).files, "a", value)
        with pytest.raises(MalformedMessage):
            world.ledger.find_record(FILE)


def test_a_stale_due_time_moves_nothing(world: World) -> None:
    world.verify("a")
    client_of(world).zadd(RunKeys(RUN).due, {"a": 1, "unknown": 1})
    assert world.ledger.take_due(RUN, 10) == []
    assert world.record("a").state is State.VERIFIED
    assert client_of(world).zcard(RunKeys(RUN).due) == 0


def test_nothing_is_kept_of_a_file_that_is_verified_but_its_record(world: World) -> None:
    token = world.upload("a", "b")
    world.ledger.save_upload(FILE, token, UPLOAD)
    world.move(Event.FAIL, "b", token=token)
    (bundle,) = world.ledger.take_due(RUN, 1)
    world.claim(bundle=bundle.number)
    world.as_holder(Event.VERIFY, "a", "b", evidence=EVIDENCE)
    assert world.facts().counts[State.VERIFIED] == 2
    keys = RunKeys(RUN)
    left = set(client_of(world).scan_iter("labferry:{*"))
    assert left == {keys.files.encode(), keys.meta.encode()}


def test_all_keys_of_a_run_share_a_slot(world: World) -> None:
    run = RunKey("seq", "a}b{c %7D")
    world.discover("x{1}", "y{2}", "z", run=run)
    world.settle("x{1}", "y{2}", run=run)
    world.ledger.seal(run, ["z"], 3)
    bundle = world.take(run=run, bundles=1, max_files=1)[0]
    (token,) = world.claim(run=run, bundle=bundle.number)
    world.ledger.save_upload(run.file("x{1}"), token, UPLOAD)
    world.take(run=run)
    world.claim("y{2}", run=run)
    world.as_holder(Event.FAIL, "y{2}", run=run)
    world.complete(run=run)
    keys = [key for key in client_of(world).scan_iter("labferry:{*") if isinstance(key, bytes)]
    assert len(keys) >= 8
    assert len({key_slot(key) for key in keys}) == 1


def test_a_file_in_flight_takes_less_than_200_bytes(world: World) -> None:
    """With paths of 48 characters; eligible and not yet sent, and verified."""
    count = 10_000
    files = [(f"{i // 1000:035}/f{i:07}.bcl", _print(i)) for i in range(count)]
    assert {len(path) for path, _ in files} == {48}
    world.ledger.discover(RUN, files)
    world.ledger.move(RUN, Event.SETTLE, [Step(path=p, fingerprint=one) for p, one in files])
    assert world.facts().ready[Lane.SMALL] == count
    assert _bytes_of_run(world) / count < 200
    for bundle in world.take(max_files=500):
        world.claim(bundle=bundle.number)
    world.as_holder(Event.VERIFY, *[path for path, _ in files], evidence=EVIDENCE)
    assert world.facts().counts[State.VERIFIED] == count
    assert _bytes_of_run(world) / count < 200


def _print(number: int) -> Fingerprint:
    at_ns = 1_700_000_000_000_000_000 + number
    return Fingerprint(4096 + number, at_ns, 2**40 + number, at_ns)


def _bytes_of_run(world: World) -> int:
    client: Any = client_of(world)
    keys = list(client.scan_iter("labferry:{*"))
    return sum(client.memory_usage(key, samples=0) for key in keys)


def client_of(world: World) -> redis.Redis:
    assert isinstance(world.ledger, RedisLedger)
    return world.ledger._server.client


def test_one_ledger_serves_many_threads(world: World) -> None:
    def work(number: int) -> None:
        paths = [f"{number}-{i}" for i in range(20)]
        world.discover(*paths)
        world.move(Event.SETTLE, *paths, fingerprint=PRINT, lane=Lane.SMALL)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(50)))
    assert len(dict(world.ledger.records(RUN))) == 1000
    world.facts()


@pytest.mark.parametrize("call", CALLS)
def test_a_ledger_that_another_version_wrote_is_refused_and_not_touched(
    ledger_url: str, call: str
) -> None:
    with redis.Redis.from_url(ledger_url) as client:
        client.set("labferry:format", "99")
        with pytest.raises(Refused, match="format 99"):
            CALLS[call](open_ledger(LedgerSettings(url=ledger_url)))
        assert client.keys() == [b"labferry:format"]


def test_a_ledger_that_is_full_can_be_looked_at(ledger_url: str) -> None:
    open_ledger(LedgerSettings(url=ledger_url)).discover(RUN, [("a", PRINT)])
    with redis.Redis.from_url(ledger_url) as client:
        client.config_set("maxmemory", 1)
        try:
            ledger = open_ledger(LedgerSettings(url=ledger_url))
            assert ledger.runs() == [RUN]
            assert dict(ledger.records(RUN))
            assert ledger.find_facts(RUN) is not None
            with pytest.raises(LedgerUnavailable):
                ledger.discover(RUN, [("b", PRINT)])
        finally:
            client.config_set("maxmemory", 0)


def test_a_ledger_says_which_format_it_has(ledger_url: str) -> None:
    open_ledger(LedgerSettings(url=ledger_url)).now_ms()
    with redis.Redis.from_url(ledger_url) as client:
        assert client.get("labferry:format") == b"1"
