"""Does each alert reach each sink, whatever else is down? On the real ledger and real sinks."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from labferry.alert_sinks import Command, SnsTopic, Webhook, open_sinks
from labferry.alerts import Alert, payload
from labferry.audit import Act
from labferry.condition_port import AlertSink
from labferry.errors import NotDelivered, StoreError
from labferry.identity import Layout, RunKey
from labferry.ledger import RedisLedger, open_ledger
from labferry.ledger.keys import alerts_due
from labferry.records import Fingerprint, Note, Step
from labferry.settings import LedgerSettings
from labferry.settings_trouble import AlertSettings
from labferry.states import Event
from tests.alert_server import AlertServer
from tests.manual_clock import ManualClock
from tests.memory_store import MemoryStore
from tests.waiting import PATIENCE_S, eventually, is_gone
from workers.alerting import Courier
from workers.reasons import Reasons
from workers.reminders import Reminders

TOPIC = "arn:aws:sns:eu-central-1:123456789012:labferry"
SETTINGS = AlertSettings(gather_s=0, timeout_s=5)


@pytest.fixture
def server() -> Iterator[AlertServer]:
    with AlertServer() as running:
        yield running


@pytest.fixture
def ledger(ledger_url: str) -> RedisLedger:
    return open_ledger(LedgerSettings(url=ledger_url))


class Sink:
    """Keeps what it is given; `why` makes it fail."""

    def __init__(self, name: str = "sink") -> None:
        self.name = name
        self.given: list[dict[str, object]] = []
        self.tries = 0
        self.why = ""

    def deliver(self, payload: bytes) -> None:
        self.tries += 1
        if self.why:
            raise NotDelivered(sink=self.name, why=self.why)
        self.given.append(json.loads(payload))

    @property
    def texts(self) -> list[object]:
        return [one["text"] for one in self.given]


def courier(
    ledger: RedisLedger, sink: AlertSink, clock: ManualClock | None = None, **changes: float
) -> Courier:
    return Courier(ledger, sink, clock or ManualClock(), SETTINGS.model_copy(update=changes))


# -- the courier


def test_an_alert_is_delivered_once_and_says_what_it_is_about(ledger: RedisLedger) -> None:
    sink = Sink()
    ledger.alert("dead-letters:scope/r1:AccessDenied", "scope/r1: denied", 312)
    one = courier(ledger, sink)
    for _ in range(3):
        one.round()
    (given,) = sink.given
    assert given["id"] == "dead-letters:scope/r1:AccessDenied"
    assert (given["text"], given["files"], given["version"]) == ("scope/r1: denied", 312, 1)
    assert str(given["at"]).endswith("+00:00")


def test_what_follows_while_it_is_gathered_is_one_digest(ledger: RedisLedger) -> None:
    sink = Sink()
    one = courier(ledger, sink, gather_s=3600)
    for _ in range(5):
        ledger.alert("k", "text", 2)
        one.round()
    assert sink.given == []
    ledger._server.client.zadd(alerts_due(sink.name), {"k": 0}, xx=True)  # as time would have it
    one.round()
    assert [one["files"] for one in sink.given] == [10]


def test_a_sink_that_is_down_gets_all_alerts_later(ledger: RedisLedger) -> None:
    sink, clock = Sink(), ManualClock()
    sink.why = "down"
    one = courier(ledger, sink, clock)
    for number in range(5):
        ledger.alert(f"k{number}", f"text {number}")
        one.round()
    (waiting,) = ledger.undelivered()
    assert (waiting.sink, waiting.waiting) == ("sink", 5)
    assert "down" in waiting.why
    assert sink.tries == 1, "a sink that failed is left in peace for a while"
    sink.why = ""
    clock.now_s += 3600
    deadline = time.monotonic() + PATIENCE_S
    while len(sink.given) < 5 and time.monotonic() < deadline:
        one.round()
    assert sorted(map(str, sink.texts)) == [f"text {number}" for number in range(5)]
    assert ledger.undelivered() == []


def test_waits_between_tries_grow_to_a_cap(ledger: RedisLedger) -> None:
    sink, clock = Sink(), ManualClock()
    sink.why = "down"
    one = courier(ledger, sink, clock)
    rests = []
    for number in range(9):
        ledger.alert(f"k{number}", "text")
        began_s, tries = clock.now_s, sink.tries
        while sink.tries == tries:
            one.round()
            clock.now_s += 1
        rests.append(clock.now_s - began_s)
    assert rests == sorted(rests)
    assert rests[-1] == pytest.approx(600, abs=2)


def test_a_round_ends_in_time_however_much_is_due(ledger: RedisLedger) -> None:
    clock = ManualClock()

    class Slow(Sink):
        def deliver(self, payload: bytes) -> None:
            clock.now_s += 3
            super().deliver(payload)

    sink = Slow()
    for number in range(10):
        ledger.alert(f"k{number}", "text")
    one = courier(ledger, sink, clock, timeout_s=5)
    one.round()
    assert len(sink.given) == 2
    for _ in range(10):
        one.round()
    assert len(sink.given) == 10


def test_a_courier_that_died_after_a_delivery_is_followed_by_one_that_repeats_it(
    ledger: RedisLedger,
) -> None:
    class Dying(Sink):
        def deliver(self, payload: bytes) -> None:
            super().deliver(payload)
            raise KeyboardInterrupt

    sink, dying = Sink(), Dying()
    ledger.alert("k", "text")
    with pytest.raises(KeyboardInterrupt):
        courier(ledger, dying).round()
    courier(ledger, sink).round()
    assert (dying.texts, sink.texts) == (["text"], ["text"])
    assert dying.given == sink.given, "the same id: whoever gets it can tell"


def test_each_sink_gets_its_own_copy(ledger: RedisLedger) -> None:
    one, other = Sink("one"), Sink("other")
    one.why = "down"
    ledger.alert("k", "text")
    courier(ledger, one).round()
    courier(ledger, other).round()
    assert other.texts == ["text"]
    assert [(wait.sink, wait.waiting) for wait in ledger.undelivered()] == [("one", 1)]


def test_without_sinks_alerts_are_kept(ledger: RedisLedger) -> None:
    assert list(open_sinks(AlertSettings())) == []
    ledger.alert("k", "text")
    assert [one.text for one in ledger.alerts()] == ["text"]
    assert ledger.undelivered() == []


# -- what is told

RUN, OTHER = RunKey("seq", "r 1"), RunKey("seq", "r2")
DENIED = StoreError(operation="PutObject", key="k", code="AccessDenied", status=403)


class Refusing(MemoryStore):
    """A store that takes no document."""

    def put_document(self, key: str, body: bytes) -> None:
        raise DENIED


def bury(ledger: RedisLedger, count: int, code: str, run: RunKey = RUN) -> None:
    """Make so many dead letters of one cause."""
    paths = [f"{code}{number}" for number in range(count)]
    ledger.discover(run, [(path, Fingerprint(5, 1, 2, 3)) for path in paths])
    note = Note(event=Event.REFUSE, kind="permanent", code=code, message=f"{code} it is.")
    ledger.move(run, Event.REFUSE, [Step(path=path, note=note) for path in paths])


def write_reasons(ledger: RedisLedger, store: MemoryStore, run: RunKey = RUN) -> None:
    with suppress(StoreError):
        Reasons(ledger=ledger, store=store, layout=Layout("")).write(run)


def counts(ledger: RedisLedger) -> list[tuple[str, int]]:
    return [(one.text.partition(":")[0], one.count) for one in ledger.alerts()]


def test_dead_letters_are_told_of_once_a_run_and_cause_with_their_number(
    ledger: RedisLedger,
) -> None:
    bury(ledger, 312, "AccessDenied")
    bury(ledger, 2, "bad_name")
    bury(ledger, 1, "AccessDenied", OTHER)
    for run in (RUN, OTHER, RUN):
        write_reasons(ledger, MemoryStore(), run)
    assert sorted(counts(ledger)) == [("seq/r 1", 2), ("seq/r 1", 312), ("seq/r2", 1)]
    (text,) = [one.text for one in ledger.alerts() if one.count == 312]
    assert "AccessDenied it is." in text
    assert "`labferry dead-letters list --run 'seq/r 1' --fingerprint " in text


def test_what_cannot_be_written_to_the_bucket_is_told_of_all_the_same(
    ledger: RedisLedger,
) -> None:
    bury(ledger, 3, "AccessDenied")
    write_reasons(ledger, Refusing())
    assert counts(ledger) == [("seq/r 1", 0)]
    write_reasons(ledger, MemoryStore())
    assert counts(ledger) == [("seq/r 1", 3)]


def test_letters_that_were_given_up_are_not_told_of(ledger: RedisLedger) -> None:
    bury(ledger, 1, "bad_name")
    ledger.act(
        RUN,
        Event.DISCARD,
        [Step(path="bad_name0")],
        Act(actor="ada", reason="r", what="discard"),
    )
    write_reasons(ledger, MemoryStore())
    assert ledger.alerts() == []


def test_dead_letters_that_wait_are_told_of_again_once_a_period(ledger: RedisLedger) -> None:
    clock = ManualClock()
    bury(ledger, 2, "bad_name")
    reminders = Reminders(ledger, clock, remind_s=0.4)
    deadline = time.monotonic() + PATIENCE_S
    while len(ledger.alerts()) < 3:
        assert time.monotonic() < deadline
        reminders.tend()
        clock.now_s += 1
    assert {one.text for one in ledger.alerts() if "2 dead letters wait" in one.text}
    periods = [int(one.key.rpartition(":")[2]) for one in ledger.alerts()]
    assert periods == sorted(set(periods))


def test_runs_without_dead_letters_are_not_told_of(ledger: RedisLedger) -> None:
    ledger.discover(RUN, [("a", Fingerprint(5, 1, 2, 3))])
    bury(ledger, 1, "bad_name", OTHER)
    Reminders(ledger, ManualClock(), remind_s=3600).tend()
    assert ledger.alerts() == []


# -- the sinks

ALERT = payload(Alert(key="k", text="Größe", at_ms=1_800_000_000_123, count=3))


def fault(sink: AlertSink) -> str:
    with pytest.raises(NotDelivered) as caught:
        sink.deliver(ALERT)
    return str(caught.value)


def test_a_webhook_is_posted_the_json(server: AlertServer) -> None:
    Webhook(server.url, 60).deliver(ALERT)
    assert server.types == ["application/json"]
    assert json.loads(server.bodies[0]) == {
        "version": 1,
        "id": "k",
        "at": "2027-01-15T08:00:00.123+00:00",
        "text": "Größe",
        "files": 3,
    }


@pytest.mark.parametrize("status", [301, 307, 400, 404, 429, 500, 503])
def test_any_answer_of_a_webhook_but_a_success_is_a_failure(
    server: AlertServer, status: int
) -> None:
    server.status, server.location = status, server.url
    assert f"it answered {status}" in fault(Webhook(server.url, 60))
    assert server.bodies == []


def test_a_webhook_s_secret_is_not_told(server: AlertServer) -> None:
    server.status = 500
    assert "secret" not in fault(Webhook(server.url, 60))
    assert "secret" not in fault(Webhook("http://127.0.0.1:1/hook?token=secret", 5))


def test_a_webhook_that_hangs_fails_in_time(server: AlertServer) -> None:
    server.hangs.clear()
    assert "TimeoutError" in fault(Webhook(server.url, 0.3))


def test_a_command_gets_the_json_on_its_input(tmp_path: Path) -> None:
    target = tmp_path / "alert"
    script = "import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())"
    Command((sys.executable, "-c", script, str(target)), 60).deliver(ALERT)
    assert target.read_bytes() == ALERT


def test_a_command_that_fails_is_named_with_its_last_words() -> None:
    script = "import sys; print('x' * 9999); print('no mail', file=sys.stderr); sys.exit(3)"
    why = fault(Command((sys.executable, "-c", script), 60))
    assert "ended with 3" in why
    assert "no mail" in why
    assert len(why) < 600


def test_a_command_that_is_not_there_is_a_failure() -> None:
    assert "No such file" in fault(Command(("/no/such/program",), 5))


def test_a_command_that_hangs_is_killed_with_all_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"sleep 3600 & echo $! > {pid}; sleep 3600"
    assert "took longer than 3 s" in fault(Command(("/bin/sh", "-c", script), 3))
    eventually(lambda: is_gone(int(pid.read_text())))


def test_what_a_command_leaves_behind_does_not_keep_the_courier() -> None:
    Command(("/bin/sh", "-c", "cat > /dev/null; sleep 300 & exit 0"), 60).deliver(ALERT)


@pytest.fixture
def sns(server: AlertServer, monkeypatch: pytest.MonkeyPatch) -> AlertServer:
    """A server in the place of SNS."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_SNS", server.url.partition("/hook")[0])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return server


def test_an_sns_topic_is_published_the_json(sns: AlertServer) -> None:
    SnsTopic(TOPIC, 60).deliver(ALERT)
    fields = parse_qs(sns.bodies[0].decode())
    assert fields["TopicArn"] == [TOPIC]
    assert fields["Message"] == [ALERT.decode()]
    assert fields["Subject"] == ["labferry needs a person"]


def test_an_sns_topic_that_refuses_is_a_failure(sns: AlertServer) -> None:
    sns.status = 403
    assert "Publish" in fault(SnsTopic(TOPIC, 60))


def test_the_settings_name_the_sinks() -> None:
    settings = AlertSettings(
        webhook_url="https://hooks.example.org/x", command=("mail", "me"), sns_topic_arn=TOPIC
    )
    assert [sink.name for sink in open_sinks(settings)] == ["webhook", "command", "sns"]
