"""Are ledger and broker reached by a socket of the same host, by the URLs of docs/hosts.md?"""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from labferry.broker import CeleryWakeups, make_app
from labferry.identity import RunKey
from labferry.ledger import open_ledger
from labferry.messages import CONTROL_QUEUE
from labferry.settings import (
    BrokerSettings,
    InstrumentSettings,
    LedgerSettings,
    Settings,
    WorkerSettings,
)
from ops.doctor.broker import look_at_broker
from ops.doctor.finding import Verdict
from ops.doctor.ledger import look_at_ledger
from ops.embedded import Valkey

DOCS = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text("utf-8")
SOCKET = "s.sock"


class ByTheSocket(Valkey):
    """A Valkey that listens there, too."""

    def _command(self) -> Sequence[str]:
        return [*super()._command(), "--unixsocket", str(self.directory / SOCKET)]


@pytest.fixture
def settings() -> Iterator[Settings]:
    shown: list[str] = re.findall(
        r"^\| a socket on the same host \| `(.*?)` \|", DOCS, re.MULTILINE
    )
    with ByTheSocket() as valkey:
        place = str(valkey.directory / SOCKET)
        ledger, broker = (url.replace("/run/valkey.sock", place) for url in shown)
        yield Settings.model_construct(
            ledger=LedgerSettings(url=ledger),
            broker=BrokerSettings(url=broker),
            worker=WorkerSettings(),
            instruments={"scope": InstrumentSettings(root=Path("/"))},
        )


def test_ledger_and_broker_are_there_and_apart(settings: Settings) -> None:
    found = [*look_at_ledger(settings, time.time), *look_at_broker(settings)]
    assert {one.verdict for one in found} == {Verdict.GOOD}
    app = make_app(settings)
    CeleryWakeups(app).complete(RunKey("scope", "run 1"))
    with closing(app.connection_for_read()) as connection:
        assert connection.default_channel.client.llen(CONTROL_QUEUE) == 1  # type: ignore[attr-defined]
    assert open_ledger(settings.ledger).runs() == []
