"""Does what is in everybody's way cost no file anything, and does a slow line only cost time?

Numbers are those of research's 25 tests (docs/proof.md).
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from labferry.errors import StoreError
from labferry.failures import Kind, classify
from labferry.s3.store import open_store
from labferry.states import Event
from ops.embedded import Weed
from tests.bucket_policy import denied
from tests.dock import RUN, UNPROVEN, Meddling
from tests.faults import Answer, Drip, Fault, Hang, ResetMid, Truncate, rule
from tests.quay import COMPLETE, CREATE, GET, HEAD, PART, PART_PUT, PUT, Quay
from workers.source import SourceFile

BODY = os.urandom(2 * PART + 1)
PARTS = 3
ANY = "*"


def waits_s(quay: Quay, name: str) -> float:
    due_ms = quay.dock.ledger.find_due(RUN.file(name))
    assert due_ms is not None
    return (due_ms - quay.dock.ledger.now_ms()) / 1000


# -- 20: throttling


def in_a_while(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


ASKED = {
    "seconds": lambda: (("Retry-After", "120"),),
    "date": lambda: (("Retry-After", in_a_while(120)), ("Date", in_a_while(0))),
    "milliseconds": lambda: (("x-amz-retry-after", "120000"),),
}
Headers = tuple[tuple[str, str], ...]


@pytest.mark.parametrize("headers", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize(
    ("body", "name"), [(b"small", PUT), (BODY, PART_PUT), (BODY, CREATE), (BODY, COMPLETE)]
)
def test_the_wait_that_a_server_asks_for_is_kept_in_all_its_forms(
    quay: Quay, headers: Callable[[], Headers], body: bytes, name: str
) -> None:
    """Test 20."""
    quay.write("f", body)
    quay.ferry(rule(Answer(503, "SlowDown", headers=headers()), on=name))
    quay.held("f", "SlowDown")
    assert 100 < waits_s(quay, "f") <= 121


@pytest.mark.parametrize(("body", "name"), [(b"small", PUT), (BODY, PART_PUT)])
def test_a_server_that_asks_for_no_particular_wait_is_asked_again_after_ours(
    quay: Quay, body: bytes, name: str
) -> None:
    """Test 20."""
    quay.dock.tune("retry", hold_s=60)
    quay.write("f", body)
    quay.ferry(rule(Answer(503, "SlowDown"), on=name))
    quay.held("f", "SlowDown")
    assert 25 < waits_s(quay, "f") <= 61


def test_sustained_throttling_spends_no_files_budget(quay: Quay) -> None:
    """Test 20: far more rounds than a file has attempts."""
    quay.write("small", b"small")
    quay.write("large", BODY)
    quay.dock.tune("retry", attempts=2)
    slow = rule(Answer(503, "SlowDown"), on=f"{PUT} {CREATE} {PART_PUT} {COMPLETE}")
    for _ in range(12):
        quay.ferry(slow)
    quay.held("small", "SlowDown")
    quay.held("large", "SlowDown")
    quay.finish()
    quay.verified("small", "large")


# -- 21: credentials, permissions, clocks


def test_credentials_that_expire_in_mid_upload_end_nothing(quay: Quay) -> None:
    """Test 21: the same upload goes on with new ones."""
    quay.write("f", BODY)
    quay.ferry(rule(Answer(400, "ExpiredToken"), on=PART_PUT, nth=2))
    quay.held("f", "ExpiredToken")
    upload = quay.dock.ledger.find_upload(RUN.file("f"))
    assert upload is not None
    assert quay.uploads("f") == [upload.upload_id]
    quay.finish()
    quay.verified("f")
    assert quay.proxy.count(CREATE) == 0
    assert quay.proxy.count(PART_PUT) == PARTS - 1


@pytest.mark.parametrize(("status", "code"), [(400, "ExpiredToken"), (403, "InvalidAccessKeyId")])
def test_credentials_that_stay_bad_hold_everything_and_quarantine_nothing(
    quay: Quay, status: int, code: str
) -> None:
    """Test 21: HEAD included, whose refusal does not say why."""
    quay.dock.tune("retry", attempts=2)
    quay.write("small", b"small")
    quay.write("large", BODY)
    for _ in range(6):
        quay.ferry(rule(Answer(status), on=HEAD), rule(Answer(status, code)))
    quay.held("small", code)
    quay.held("large", code)
    quay.finish()
    quay.verified("small", "large")


def test_a_wrong_secret_is_held_by_the_real_server_too_and_read_again_when_it_is_mended(
    quay: Quay, monkeypatch: pytest.MonkeyPatch, weed: Weed
) -> None:
    """Test 21."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    quay.dock.store = open_store(quay.dock.settings.store)
    quay.write("small", b"small")
    quay.write("large", BODY)
    quay.ferry()
    quay.held("small", "SignatureDoesNotMatch")
    quay.held("large", "SignatureDoesNotMatch")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", weed.secret_key)
    quay.finish()
    quay.verified("small", "large")


def test_a_process_that_kept_old_credentials_does_not_spoil_the_first_probe_after_they_were_renewed(
    quay: Quay, monkeypatch: pytest.MonkeyPatch, weed: Weed
) -> None:
    """Another worker met the refusal, and this one asked nothing since."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ended")
    quay.dock.store = open_store(quay.dock.settings.store)
    assert quay.dock.store.puts_many(), "it has read its credentials"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", weed.secret_key)
    refused = StoreError(
        operation="PutObject", key="another", code="SignatureDoesNotMatch", status=403
    )
    quay.dock.permit().gate.open(classify(refused))
    quay.write("small", b"small")
    quay.write("large", BODY)
    quay.ferry()
    quay.verified("small", "large")


def test_a_prefix_that_may_not_be_written_is_dead_letters_at_once_and_others_go_on(
    quay: Quay, weed: Weed
) -> None:
    """Test 21: no budget is burnt on what only a person can mend."""
    for name, body in (("no/small", b"s"), ("no/large", BODY), ("small", b"s"), ("large", BODY)):
        quay.write(name, body)
    with denied(weed, quay.dock.key("no/")):
        quay.ferry()
    for name in ("no/small", "no/large"):
        assert quay.dock.codes(name) == [(Event.QUARANTINE, "AccessDenied")]
        quay.absent(name)
    quay.verified("small", "large")


def test_a_clock_that_is_off_by_an_hour_holds_everything(
    quay: Quay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test 21: refused by the real server; the upload goes on when the clock is right again."""
    quay.write("f", BODY)
    ahead = datetime.now(UTC) + timedelta(hours=1)
    real = "botocore.crt.auth.get_current_datetime"

    def wrong_from_now_on() -> None:
        monkeypatch.setattr(real, lambda **_: ahead)

    quay.ferry(store=Meddling(quay.dock.store, "put_part", wrong_from_now_on, nth=2))
    quay.held("f", "RequestTimeTooSkewed")
    monkeypatch.undo()


def test_a_request_that_arrives_after_its_time_costs_an_attempt_and_stops_nobody(
    quay: Quay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test 21: a stalled link is told from a wrong clock."""
    monkeypatch.setattr("labferry.s3.bucket.STALLED_S", 0.2)
    quay.write("f", BODY)
    quay.write("g", b"small")

    class Late(Fault):
        async def play(self, exchange: Any) -> None:
            await exchange.read_body(bytes_per_s=2 * PART)
            await Answer(403, "RequestTimeTooSkewed").play(exchange)

    quay.ferry(rule(Late(), on=PART_PUT, nth=range(1, 4)))
    assert quay.dock.codes("f") == [(Event.FAIL, "RequestStalled")]
    quay.verified("g")
    quay.finish()
    quay.verified("f")


# -- 22: lines that break or crawl


class Reads:
    """Counts the bytes that are read of source files."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.total = 0
        whole, block = SourceFile.read, SourceFile.read_into

        def read(file: SourceFile) -> bytes:
            body = whole(file)
            self.total += len(body)
            return body

        def read_into(file: SourceFile, buffer: memoryview, offset: int) -> int:
            self.total += len(buffer)
            return block(file, buffer, offset)

        patch.setattr(SourceFile, "read", read)
        patch.setattr(SourceFile, "read_into", read_into)


BROKEN = {
    "cut in the body": lambda: ResetMid(PART // 2),
    "no answer": Hang,
    "an answer that ends early": lambda: Truncate(0),
    "slow there": lambda: Drip(request_bytes_per_s=8 * PART),
    "slow back": lambda: Drip(reply_bytes_per_s=500),
}


@pytest.mark.parametrize("fault", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize(("body", "name"), [(BODY, PART_PUT), (os.urandom(1000), PUT)])
def test_a_line_that_breaks_or_crawls_costs_time_and_no_second_read(
    quay: Quay, monkeypatch: pytest.MonkeyPatch, fault: Callable[[], Fault], body: bytes, name: str
) -> None:
    """Test 22: bounded by the timeouts; what was read is sent again from memory."""
    reads = Reads(monkeypatch)
    quay.lose_patience(read_timeout_s=3)
    quay.write("f", body)
    quay.ferry(rule(fault(), on=name, nth=1))
    assert reads.total == len(body)
    quay.verified("f")
    quay.untouched("f")


@pytest.mark.parametrize("fault", [Truncate(100), Truncate(100, closes=False), Hang()], ids=str)
def test_a_read_back_that_is_cut_proves_nothing_and_is_done_again(quay: Quay, fault: Fault) -> None:
    """Test 22."""
    quay.lose_patience(read_timeout_s=3)
    quay.write("f", b"small" * 100)
    result = quay.ferry(rule(fault, on=GET), proof=UNPROVEN)["f"]
    assert result.failure is not None
    assert result.failure.kind is Kind.TRANSIENT
    quay.finish(proof=UNPROVEN)
    quay.verified("f")


def test_an_endpoint_that_is_gone_holds_everything_and_goes_on_when_it_is_back(quay: Quay) -> None:
    """Test 22: nothing is sent to nobody, and nothing is lost."""
    quay.write("small", b"small")
    quay.write("large", BODY)
    quay.proxy.refuse()
    try:
        for _ in range(5):
            quay.ferry()
    finally:
        quay.proxy.accept()
    quay.held("small", "EndpointConnectionError")
    quay.held("large", "EndpointConnectionError")
    quay.finish()
    quay.verified("small", "large")
