"""Does the light form of `labferry doctor` tell what a health check must know, and soon?"""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from labferry.identity import Layout
from labferry.ledger import open_ledger
from labferry.passes import Pass
from labferry.s3.store import open_store
from labferry.settings import (
    BrokerSettings,
    InstrumentSettings,
    LedgerSettings,
    Settings,
    StoreSettings,
    WorkerSettings,
)
from ops.doctor.finding import Finding, Verdict
from ops.doctor.light import examine_lightly
from ops.loopback import HOST, free_ports

GOOD, WARNING, BAD, UNKNOWN = Verdict
#: Longer than anything takes on a busy machine.
LONG_S = 60


@pytest.fixture
def settings(
    ledger_url: str, broker_url: str, store_settings: StoreSettings, tmp_path: Path
) -> Settings:
    return Settings.model_construct(
        store=store_settings,
        ledger=LedgerSettings(url=ledger_url),
        broker=BrokerSettings(url=broker_url),
        worker=WorkerSettings(),
        instruments={"scope": InstrumentSettings(root=tmp_path)},
    )


def light(settings: Settings, patience_s: float = LONG_S) -> dict[str, Verdict]:
    """Return what is not good, by area and check."""
    found = list(examine_lightly(settings, patience_s))
    assert all(one.step for one in found if one.verdict is not GOOD)
    return {f"{one.area} {one.check}": one.verdict for one in found if one.verdict is not GOOD}


def test_what_answers_is_good_and_the_bucket_is_left_as_it_is(settings: Settings) -> None:
    assert light(settings) == {"programs sweep": WARNING}
    open_ledger(settings.ledger).leadership("sweep", keep_s=600).keep()
    assert light(settings) == {}
    probes = Layout(settings.store.prefix).probe("")
    assert not list(open_store(settings.store).list_objects(probes))


def test_what_is_not_there_is_told(settings: Settings) -> None:
    ledger, broker = (f"redis://{HOST}:{port}/0" for port in free_ports(2))
    away = settings.model_copy(
        update={
            "ledger": LedgerSettings(url=ledger),
            "broker": BrokerSettings(url=broker),
            "store": settings.store.model_copy(update={"bucket": "no-such-bucket"}),
        }
    )
    assert light(away) == {
        "ledger answer": UNKNOWN, "broker answer": UNKNOWN, "bucket access": BAD,
    }  # fmt: skip


def test_what_nobody_foresaw_is_unknown_and_told_as_such(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_settings: StoreSettings) -> Finding:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("ops.doctor.light.look_at_access", fail)
    found = [one for one in examine_lightly(settings, LONG_S) if one.area == "bucket"]
    assert [(one.check, one.verdict) for one in found] == [("look", UNKNOWN)]
    assert "ZeroDivisionError: of all things" in found[0].seen


def test_what_gives_no_answer_is_not_waited_for(settings: Settings) -> None:
    with socket.create_server((HOST, 0)) as deaf:
        endpoint = f"http://{HOST}:{deaf.getsockname()[1]}"
        store = settings.store.model_copy(update={"endpoint_url": endpoint})
        found = light(settings.model_copy(update={"store": store}), patience_s=5)
    assert found["bucket answer"] is UNKNOWN


def test_an_agent_of_this_host_that_fell_silent_is_bad_where_nobody_else_looks(
    settings: Settings,
) -> None:
    ledger, host = open_ledger(settings.ledger), socket.gethostname()
    now_ms = ledger.now_ms()
    late = Pass(instrument="scope", host=host, at_ms=now_ms - 300_000, due_ms=now_ms - 1)
    ledger.tell_pass(late)
    assert light(settings)["programs scope"] is BAD
    ledger.tell_pass(replace(late, host="other"))
    assert light(settings)["programs scope"] is BAD
    ledger.tell_pass(replace(late, host="other", at_ms=now_ms, due_ms=now_ms + 600_000))
    assert "programs scope" not in light(settings)
