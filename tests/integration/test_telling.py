"""Is each event given to each sink, in order, and nothing lost? On the real ledger, real sinks."""

import base64
import hmac
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from labferry.alert_sinks import Command, Webhook
from labferry.celery_events import CeleryQueue, CeleryTask
from labferry.errors import NotDelivered
from labferry.event_sinks import (
    EventBridge,
    EventCommand,
    EventSink,
    Parcel,
    SignedWebhook,
    SnsEvents,
    SqsQueue,
    open_event_sinks,
)
from labferry.events import EventKind, run_event
from labferry.identity import RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.ledger.keys import EVENT_SINKS, OUTBOXES
from labferry.manifest import Marker
from labferry.outbox import Delivery, begun
from labferry.settings import BrokerSettings, LedgerSettings, Settings, StoreSettings
from labferry.settings_events import EventSettings
from labferry.settings_trouble import RetrySettings
from tests.alert_server import AlertServer
from tests.manual_clock import ManualClock
from tests.waiting import PATIENCE_S
from workers.telling import Teller, Tidier, event_rounds

RUN, OTHER = RunKey("seq", "r 1"), RunKey("seq", "r2")


def event(run: RunKey = RUN, generation: int = 1) -> str:
    marker = Marker(
        run=run,
        generation=generation,
        manifest="m",
        sha256="ab" * 32,
        files=1,
        size=2,
        total_files=1,
        evidence={"A": 1},
    )
    return run_event(marker, "k", "lab")


def settings(url: str = "redis://127.0.0.1:1/0", **events: Any) -> Settings:
    return Settings.model_construct(
        store=StoreSettings(bucket="lab-bucket"),
        ledger=LedgerSettings(),
        broker=BrokerSettings(url=url),
        retry=RetrySettings(base_s=0.001, floor_s=0, cap_s=0.001),
        events=EventSettings(**events),
    )


@pytest.fixture
def ledger(ledger_url: str) -> RedisLedger:
    return open_ledger(LedgerSettings(url=ledger_url))


@pytest.fixture
def server() -> Iterator[AlertServer]:
    with AlertServer() as running:
        yield running


class Sink:
    """Keeps what it is given; `fault` is what it says instead."""

    is_repeatable = False

    def __init__(self, name: str = "sink") -> None:
        self.name = name
        self.given: list[dict[str, Any]] = []
        self.arrived: list[dict[str, Any]] = []
        self.fault: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda _: None

    def deliver(self, parcel: Parcel) -> None:
        told = json.loads(parcel.body)
        if facts := self.fault(told):
            raise NotDelivered(sink=self.name, why="no", **facts)
        self.given.append(told)

    def has(self, parcel: Parcel) -> bool:
        return any(one["id"] == parcel.id for one in self.arrived)

    @property
    def ids(self) -> list[str]:
        return [f"{one['run']}/{one['generation']}" for one in self.given]


def teller(
    ledger: RedisLedger, sink: EventSink, clock: ManualClock | None = None, **events: Any
) -> Teller:
    return Teller(ledger, sink, clock or ManualClock(), settings(**events))


def rounds(one: Teller, until: Callable[[], bool], clock: ManualClock | None = None) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline
        one.round()
        if clock:
            clock.now_s += 1


# -- order, repetition, parking


def test_events_are_given_once_and_in_the_order_of_their_run(ledger: RedisLedger) -> None:
    sink = Sink()
    ledger.tell(RUN, [event(), event(generation=2)])
    ledger.tell(OTHER, [event(OTHER)])
    for _ in range(3):
        teller(ledger, sink).round()
    assert sorted(sink.ids) == ["seq/r 1/1", "seq/r 1/2", "seq/r2/1"]
    assert sink.ids.index("seq/r 1/1") < sink.ids.index("seq/r 1/2")
    assert sink.given[0]["delivery"]["attempt"] == 1


def test_what_follows_waits_for_what_failed_and_other_runs_do_not(ledger: RedisLedger) -> None:
    sink, clock = Sink(), ManualClock()
    sink.fault = lambda told: {"status": 500} if told["run"] == str(RUN) else None
    ledger.tell(RUN, [event(), event(generation=2)])
    ledger.tell(OTHER, [event(OTHER), event(OTHER, 2)])
    one = teller(ledger, sink, clock)
    rounds(one, lambda: len(sink.ids) == 2, clock)
    assert sink.ids == ["seq/r2/1", "seq/r2/2"]
    sink.fault = lambda _: None
    rounds(one, lambda: len(sink.ids) == 4, clock)
    assert sink.ids[2:] == ["seq/r 1/1", "seq/r 1/2"]
    assert sink.given[2]["delivery"]["attempt"] > 1


def test_a_sink_that_is_dead_stops_no_other(ledger: RedisLedger) -> None:
    dead, other = Sink("dead"), Sink("other")
    dead.fault = lambda _: {"status": None}
    ledger.tell(RUN, [event()])
    for sink in (dead, other):
        teller(ledger, sink).round()
    assert (dead.ids, other.ids) == ([], ["seq/r 1/1"])


def test_a_sink_that_does_not_answer_is_left_in_peace(ledger: RedisLedger) -> None:
    sink, clock, tries = Sink(), ManualClock(), []

    def fault(told: dict[str, Any]) -> dict[str, Any]:
        tries.append(told["id"])
        return {"answered": False, "retry_after_s": 60}

    sink.fault = fault
    for run in (RUN, OTHER):
        ledger.tell(run, [event(run)])
    one = teller(ledger, sink, clock)
    for _ in range(5):
        one.round()
    assert len(tries) == 1


def test_a_refused_event_is_parked_told_of_and_keeps_its_place(ledger: RedisLedger) -> None:
    sink = Sink()
    sink.fault = lambda _: {"status": 422}
    ledger.tell(RUN, [event(), event(generation=2)])
    one = teller(ledger, sink)
    for _ in range(3):
        one.round()
    (parked,) = ledger.parked_deliveries()
    assert (parked.run, parked.sink, parked.delivery.code) == (RUN, "sink", "422")
    (alert,) = ledger.alerts()
    assert "`labferry dead-letters requeue --sink sink`" in alert.text
    assert sink.ids == []


def test_what_exhausts_its_tries_is_parked(ledger: RedisLedger) -> None:
    sink, clock = Sink(), ManualClock()
    sink.fault = lambda _: {"status": 500}
    ledger.tell(RUN, [event()])
    one = teller(ledger, sink, clock, attempts=3)
    rounds(one, lambda: bool(ledger.parked_deliveries()), clock)
    assert ledger.parked_deliveries()[0].delivery.tries == 3


def test_a_teller_that_died_while_it_gave_leaves_an_unknown_that_is_repeated(
    ledger: RedisLedger,
) -> None:
    class Dying(Sink):
        def deliver(self, parcel: Parcel) -> None:
            super().deliver(parcel)
            raise KeyboardInterrupt

    dying, sink, clock = Dying(), Sink(), ManualClock()
    ledger.tell(RUN, [event()])
    with pytest.raises(KeyboardInterrupt):
        teller(ledger, dying).round()
    rounds(teller(ledger, sink, clock), lambda: bool(sink.ids), clock)
    told = sink.given[0]
    assert told["id"] == dying.given[0]["id"]
    assert told["delivery"]["unknown"] == 1
    assert dying.given[0]["delivery"]["unknown"] == 0


def test_a_sink_that_can_tell_is_asked_before_an_unknown_is_repeated(
    ledger: RedisLedger,
) -> None:
    sink, clock, lost = Sink(), ManualClock(), []

    def fault(told: dict[str, Any]) -> dict[str, Any] | None:
        if told["id"] in lost:
            return None
        lost.append(told["id"])
        if told["run"] == str(RUN):
            sink.arrived.append(told)
        return {"answered": False}

    sink.fault = fault
    for run in (RUN, OTHER):
        ledger.tell(run, [event(run), event(run, 2)])
    rounds(teller(ledger, sink, clock), lambda: len(sink.ids) == 2, clock)
    assert sorted(sink.ids) == ["seq/r2/1", "seq/r2/2"], "what arrived is not given again"
    assert ledger.waiting_events("sink", [RUN])[0].delivery.position == 2


def test_a_webhook_that_can_be_asked_is(server: AlertServer) -> None:
    asked = SignedWebhook(Webhook(server.url, 5), "s", asks=True)
    server.known = {PARCEL.mark}
    assert asked.has(PARCEL)
    assert not asked.has(replace(PARCEL, id="another"))
    assert not SignedWebhook(Webhook(server.url, 5), "s").has(PARCEL)
    assert not SignedWebhook(Webhook("http://127.0.0.1:1/", 5), "s", asks=True).has(PARCEL)
    assert server.bodies == []


def test_a_message_that_lies_in_the_queue_is_found_there(broker_url: str) -> None:
    task = CeleryTask(settings(broker_url, celery_task="pipeline.start", celery_queue="pipeline"))
    parcel = replace(PARCEL, body=event().encode())
    assert not task.has(parcel)
    task.deliver(parcel)
    assert task.has(parcel)
    assert not task.has(replace(parcel, id="another"))
    assert not CeleryTask(settings(celery_task="t")).has(parcel)


def test_an_unknown_is_left_to_a_person_where_that_is_set(ledger: RedisLedger) -> None:
    sink = Sink()
    ledger.tell(RUN, [event()])
    (waiting,) = ledger.waiting_events("sink", [RUN])
    ledger.swap_delivery(RUN, "sink", waiting.delivery, begun(waiting.delivery, ledger.now_ms()))
    for _ in range(3):
        teller(ledger, sink, on_unknown="park").round()
    assert sink.ids == []
    assert ledger.parked_deliveries()[0].delivery.code == "unknown"


def test_a_sink_that_takes_the_same_once_is_given_it_again(ledger: RedisLedger) -> None:
    sink, clock = Sink(), ManualClock()
    sink.is_repeatable = True
    ledger.tell(RUN, [event()])
    (waiting,) = ledger.waiting_events("sink", [RUN])
    ledger.swap_delivery(RUN, "sink", waiting.delivery, begun(waiting.delivery, ledger.now_ms()))
    rounds(teller(ledger, sink, clock, on_unknown="park"), lambda: bool(sink.ids), clock)


def test_two_tellers_give_an_event_once_where_neither_dies(ledger: RedisLedger) -> None:
    sink, meanwhile = Sink(), Sink()
    first = teller(ledger, sink)
    stale = ledger.waiting_events("sink", [RUN])
    ledger.tell(RUN, [event()])
    first.round()
    assert not ledger.swap_delivery(RUN, "sink", stale[0].delivery, Delivery(position=1))
    teller(ledger, meanwhile).round()
    assert (sink.ids, meanwhile.ids) == (["seq/r 1/1"], [])


def test_only_the_kinds_that_are_set_are_told(ledger: RedisLedger) -> None:
    sink = Sink()
    ledger.tell(RUN, [event(), event(generation=2)])
    teller(ledger, sink, kinds=("run.generation",)).round()
    assert sink.ids == ["seq/r 1/2"]


def test_only_complete_runs_are_told_unless_more_is_asked_for(ledger: RedisLedger) -> None:
    sink, curious = Sink(), Sink("curious")
    closed = json.dumps({**json.loads(event()), "event": "run.incomplete"})
    ledger.tell(RUN, [closed, event(generation=2)])
    teller(ledger, sink).round()
    teller(ledger, curious, kinds=tuple(EventKind)).round()
    assert sink.ids == ["seq/r 1/2"]
    assert curious.ids == ["seq/r 1/1", "seq/r 1/2"]


def test_what_is_no_event_is_parked_not_dropped(ledger: RedisLedger) -> None:
    ledger.tell(RUN, ["{"])
    teller(ledger, Sink()).round()
    assert [one.event for one in ledger.parked_deliveries()] == ["{"]


def test_a_new_sink_is_not_told_of_what_is_older_than_a_day(ledger: RedisLedger) -> None:
    sink, client = Sink(), ledger._server.client
    ledger.tell(RUN, [event()])
    ledger.tell(OTHER, [event(OTHER)])
    client.zadd(OUTBOXES, {str(RUN): ledger.now_ms() - 25 * 3_600_000})
    teller(ledger, sink).round()
    assert sink.ids == ["seq/r2/1"]
    ledger.tell(RUN, [event(generation=2)])
    client.zadd(OUTBOXES, {str(RUN): ledger.now_ms() - 25 * 3_600_000})
    teller(ledger, sink).round()
    assert sink.ids == ["seq/r2/1", "seq/r 1/2"], "it is known by now: nothing is left out"
    assert client.hget(EVENT_SINKS, "sink")


def test_an_outbox_is_closed_once_every_sink_was_told_everything(ledger: RedisLedger) -> None:
    one, other, client = Sink("one"), Sink("other"), ledger._server.client
    for sink in ("one", "other"):
        ledger.sink_since(sink)
    client.hset(EVENT_SINKS, mapping={"one": 1, "other": 1})
    for run, age_ms in ((RUN, 25 * 3_600_000), (OTHER, 61_000)):
        ledger.tell(run, [event(run)])
        client.zadd(OUTBOXES, {str(run): ledger.now_ms() - age_ms})
    teller(ledger, one).round()
    Tidier(ledger, ["one", "other"], ManualClock()).round()
    assert len(ledger.open_outboxes()) == 2
    teller(ledger, other).round()
    Tidier(ledger, ["one", "other"], ManualClock()).round()
    assert [run for run, _ in ledger.open_outboxes()] == [OTHER], "a new sink is told of it yet"


def test_a_run_that_was_told_of_is_looked_at_again_when_something_new_is(
    ledger: RedisLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, client, looked = Sink(), ledger._server.client, []
    looks = RedisLedger.waiting_events

    def looking(self: RedisLedger, name: str, runs: Any) -> Any:
        looked.append(list(runs))
        return looks(self, name, runs)

    monkeypatch.setattr(RedisLedger, "waiting_events", looking)
    ledger.tell(RUN, [event()])
    client.zadd(OUTBOXES, {str(RUN): ledger.now_ms() - 121_000})
    one = teller(ledger, sink)
    one.round()
    one.round()
    assert looked[-1] == []
    ledger.tell(RUN, [event(generation=2)])
    one.round()
    assert sink.ids == ["seq/r 1/1", "seq/r 1/2"]
    one.round()
    assert looked[-1] == [RUN], "something may be underway still"


def test_where_there_is_no_sink_outboxes_do_not_pile_up(ledger: RedisLedger) -> None:
    ledger.tell(RUN, [event()])
    ledger._server.client.zadd(OUTBOXES, {str(RUN): ledger.now_ms() - 25 * 3_600_000})
    Tidier(ledger, [], ManualClock()).round()
    assert ledger.open_outboxes() == []


# -- the sinks

PARCEL = Parcel(kind="run.completed", id="i ü", run=str(RUN), body=b'{"a":1}', sent_ms=1_234_567)


def test_a_webhook_is_signed_so_that_the_receiver_can_check_it(server: AlertServer) -> None:
    key = b"0123456789abcdef"
    secret = "whsec_" + base64.b64encode(key).decode()
    SignedWebhook(Webhook(server.url, 5), secret).deliver(PARCEL)
    (headers,) = server.headers
    signed = f"{PARCEL.mark}.1234.".encode() + PARCEL.body
    expected = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    assert headers["webhook-id"] == PARCEL.mark
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert server.bodies == [PARCEL.body]


def test_a_webhook_without_a_secret_is_not_signed(server: AlertServer) -> None:
    SignedWebhook(Webhook(server.url, 5), "").deliver(PARCEL)
    assert "webhook-signature" not in server.headers[0]


def test_a_refused_connection_is_no_delivery_and_a_lost_answer_is_unknown(
    server: AlertServer,
) -> None:
    with pytest.raises(NotDelivered) as refused:
        SignedWebhook(Webhook("http://127.0.0.1:1/", 5), "s").deliver(PARCEL)
    assert refused.value.answered
    server.hangs.clear()
    with pytest.raises(NotDelivered) as lost:
        SignedWebhook(Webhook(server.url, 0.3), "s").deliver(PARCEL)
    assert not lost.value.answered


def test_an_answer_s_status_and_wait_are_known(server: AlertServer) -> None:
    server.status, server.retry_after = 503, "7"
    with pytest.raises(NotDelivered) as refused:
        SignedWebhook(Webhook(server.url, 5), "s").deliver(PARCEL)
    assert (refused.value.status, refused.value.retry_after_s) == (503, 7)


def test_a_command_gets_the_event_and_one_that_was_killed_is_unknown(tmp_path: Path) -> None:
    target = tmp_path / "event"
    script = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
    EventCommand(Command((sys.executable, "-c", script, str(target)), 20)).deliver(PARCEL)
    assert target.read_bytes() == PARCEL.body
    with pytest.raises(NotDelivered) as killed:
        EventCommand(Command(("sleep", "60"), 0.2)).deliver(PARCEL)
    assert not killed.value.answered
    with pytest.raises(NotDelivered) as failed:
        EventCommand(Command(("false",), 5)).deliver(PARCEL)
    assert failed.value.answered


@pytest.fixture
def aws(server: AlertServer, monkeypatch: pytest.MonkeyPatch) -> AlertServer:
    """A server in the place of AWS."""
    for service in ("SQS", "SNS", "EVENTBRIDGE"):
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", server.url.partition("/hook")[0])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return server


def test_a_fifo_queue_keeps_a_run_s_order_and_takes_the_same_event_once(aws: AlertServer) -> None:
    aws.answer = b'{"MessageId": "1"}'
    SqsQueue("https://sqs.eu-west-1.amazonaws.com/1/q.fifo", "x", 5).deliver(PARCEL)
    sent = json.loads(aws.bodies[0])
    assert sent["MessageBody"] == PARCEL.body.decode()
    assert sent["MessageDeduplicationId"] == PARCEL.mark
    again, other = replace(PARCEL, body=b"2"), replace(PARCEL, run="seq/r2")
    for one in (again, other):
        SqsQueue("https://sqs.eu-west-1.amazonaws.com/1/q.fifo", "x", 5).deliver(one)
    groups = [json.loads(body)["MessageGroupId"] for body in aws.bodies]
    assert groups[0] == groups[1] != groups[2]
    assert not SqsQueue("https://sqs.eu-west-1.amazonaws.com/1/q", "x", 5).is_repeatable


def test_a_topic_is_published_the_event(aws: AlertServer) -> None:
    SnsEvents("arn:aws:sns:eu-central-1:1:runs", 5).deliver(PARCEL)
    fields = parse_qs(aws.bodies[0].decode())
    assert fields["Message"] == [PARCEL.body.decode()]
    assert "MessageDeduplicationId" not in fields


def test_a_bus_is_put_the_event_and_its_refusal_is_a_failure(aws: AlertServer) -> None:
    aws.answer = b'{"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}'
    EventBridge("lab", "eu-west-1", 5).deliver(PARCEL)
    (entry,) = json.loads(aws.bodies[0])["Entries"]
    assert (entry["Source"], entry["DetailType"]) == ("labferry", "run.completed")
    assert entry["Detail"] == PARCEL.body.decode()
    aws.answer = b'{"FailedEntryCount": 1, "Entries": [{"ErrorCode": "NotThere"}]}'
    with pytest.raises(NotDelivered, match="NotThere"):
        EventBridge("lab", "eu-west-1", 5).deliver(PARCEL)


def test_aws_without_an_answer_is_unknown(aws: AlertServer) -> None:
    aws.hangs.clear()
    with pytest.raises(NotDelivered) as lost:
        SqsQueue("https://sqs.eu-west-1.amazonaws.com/1/q", "x", 0.6).deliver(PARCEL)
    assert not lost.value.answered


def test_a_task_on_the_user_s_own_queue_gets_the_event(broker_url: str) -> None:
    mine = settings(broker_url, celery_task="pipeline.start", celery_queue="pipeline")
    parcel = replace(PARCEL, body=event().encode())
    CeleryTask(mine).deliver(parcel)
    taken: list[object] = []
    queue = CeleryQueue(mine, wait_s=5)
    assert queue.look(taken.append)
    queue.close()
    assert taken == [json.loads(event())]
    queue = CeleryQueue(mine, wait_s=0.2)
    assert not queue.look(taken.append)
    queue.close()


def test_a_message_is_kept_until_its_event_was_taken(broker_url: str) -> None:
    mine = settings(broker_url, celery_task="pipeline.start", celery_queue="pipeline")
    CeleryTask(mine).deliver(replace(PARCEL, body=event().encode()))
    queue = CeleryQueue(mine, wait_s=5)

    def dies(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        queue.look(dies)
    queue.close()
    taken: list[object] = []
    second = CeleryQueue(mine, wait_s=5)
    assert second.look(taken.append)
    assert len(taken) == 1
    second.close()


def test_a_broker_that_is_down_has_not_taken_it_for_certain() -> None:
    with pytest.raises(NotDelivered) as refused:
        CeleryTask(settings(celery_task="t")).deliver(PARCEL)
    assert refused.value.answered


def test_the_settings_name_the_sinks() -> None:
    mine = settings(
        celery_task="t",
        webhook_url="https://hooks.example.org/x",
        command=("mail", "me"),
        sqs_queue_url="https://sqs.eu-west-1.amazonaws.com/1/q",
        sns_topic_arn="arn:aws:sns:eu-central-1:1:runs",
        eventbridge_bus="lab",
    )
    names = [one.name for one in event_rounds(mine)]
    assert names == [
        "events:webhook",
        "events:command",
        "events:sqs",
        "events:sns",
        "events:eventbridge",
        "events:celery",
        "events:tidy",
    ]
    assert list(open_event_sinks(settings())) == []
    assert [one.name for one in event_rounds(settings())] == ["events:tidy"]
