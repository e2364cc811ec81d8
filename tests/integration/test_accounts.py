"""Does the account of docs/hosts.md do for ledger and broker, and is one that may less told?"""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from labferry.ledger.server import VERBS, _text
from labferry.settings import (
    BrokerSettings,
    InstrumentSettings,
    LedgerSettings,
    Settings,
    StoreSettings,
)
from ops.doctor import rights
from ops.doctor.broker import look_at_broker
from ops.doctor.finding import Finding, Verdict
from ops.doctor.ledger import look_at_ledger
from ops.embedded import Valkey
from ops.exits import Exit
from ops.loopback import HOST
from tests.services import BROKER_DATABASE, LEDGER_DATABASE
from tests.site import open_site

DOCS = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text("utf-8")
((ACCOUNT, RULES),) = re.findall(r"`ACL SETUSER (\S+) (.*?)`", DOCS)
FILES = 12
#: What a connection begins with, and what the doctor alone asks.
OF_CONNECTIONS = {"HELLO", "SELECT", "QUIT", "CLIENT|SETINFO", "CLIENT|SETNAME", "INFO"}


@dataclass(frozen=True)
class Server:
    """A Valkey of its own, and its administrator."""

    valkey: Valkey
    admin: Any

    def allow(self, *less: str) -> None:
        """Give the account what the documents say, but for this."""
        rules = RULES.replace("PASSWORD", "secret").split()
        self.admin.execute_command("ACL", "SETUSER", ACCOUNT, "reset", *rules, *less)

    def url(self, database: int) -> str:
        return f"redis://{ACCOUNT}:secret@{HOST}:{self.valkey.port}/{database}"

    def findings(self) -> list[Finding]:
        settings = Settings.model_construct(
            ledger=LedgerSettings(url=self.url(LEDGER_DATABASE)),
            broker=BrokerSettings(url=self.url(BROKER_DATABASE)),
            instruments={"scope": InstrumentSettings(root=Path("/"))},
        )
        return [*look_at_ledger(settings, time.time), *look_at_broker(settings)]

    def bad(self) -> dict[str, Finding]:
        return {one.area: one for one in self.findings() if one.verdict is Verdict.BAD}

    def commands(self) -> set[str]:
        stats = self.admin.info("commandstats")
        return {name.removeprefix("cmdstat_").upper() for name in stats}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Valkey() as valkey, redis.Redis.from_url(valkey.url()) as admin:
        yield Server(valkey, admin)


def test_a_run_is_ferried_by_an_account_with_the_rights_of_the_documents(
    tmp_path: Path, server: Server, store_settings: StoreSettings
) -> None:
    server.allow()
    share = tmp_path / "share"
    (share / "run 1").mkdir(parents=True)
    for number in range(FILES):
        (share / "run 1" / f"{number}").write_bytes(os.urandom(1000))
    changes = {
        "ledger": {"url": server.url(LEDGER_DATABASE)},
        "broker": {"url": server.url(BROKER_DATABASE)},
    }
    server.admin.config_resetstat()
    with open_site(tmp_path, server.valkey, store_settings, {"scope": share}, changes) as site:
        site.start("worker")
        site.start("agent")
        site.until(site.complete, "the run complete")
        (run,) = site.ledger.runs()
        assert site.verified(run) == FILES
        assert server.admin.acl_log() == [], "nothing was refused"
        used = server.commands() - OF_CONNECTIONS - {"CONFIG|RESETSTAT", "ACL|LOG"}
        assert used <= asked(), "the doctor asks for all that is used"
        told = site.run("doctor", "--light")
        assert told.returncode == Exit.DONE, told.stdout


def asked() -> set[str]:
    settings = Settings.model_construct(instruments={})
    commands = [*rights.of_ledger(), *rights.of_broker(settings, 0)]
    return {re.sub("^(SCRIPT) ", r"\1|", one).split()[0] for one in commands}


def test_the_doctor_asks_for_every_command_of_a_script() -> None:
    texts = "".join(_text(verb) for verb in VERBS)
    commands = set(re.findall(r"\bcall\('([A-Z]+)'", texts))
    assert len(commands) > 20
    assert commands <= {one.split()[0] for one in rights.of_ledger()}


@pytest.mark.parametrize(
    ("less", "area", "told"),
    [
        ("-brpop", "broker", "may not BRPOP upload.scope.small"),
        ("-psubscribe", "broker", "may not PSUBSCRIBE"),
        ("resetchannels", "broker", "may not PUBLISH"),
        ("-zscore", "ledger", "may not ZSCORE labferry:runs"),
        ("-evalsha", "ledger", "'evalsha' command"),
        ("-info", "ledger", "'info' command"),
        ("-time", "ledger", "'time' command"),
    ],
)
def test_an_account_that_may_not_do_one_thing_is_told_which(
    server: Server, less: str, area: str, told: str
) -> None:
    server.allow(less)
    found = server.bad()[area]
    assert told in found.seen
    assert "docs/hosts.md" in f"{found.seen} {found.step}"


def test_an_account_without_the_queues_is_told(server: Server) -> None:
    server.allow("resetkeys", "~labferry:*")
    (found,) = server.bad().values()
    assert (found.area, found.check) == ("broker", "rights")
    assert "upload.scope.small" in found.seen


def test_a_wrong_password_is_told_as_one(server: Server) -> None:
    server.allow("resetpass", ">another")
    found = server.bad()
    assert set(found) == {"ledger", "broker"}
    for name, one in found.items():
        assert f"Set user and password in [{name}] url" in f"{one.seen} {one.step}"
        assert "secret" not in f"{one.seen} {one.step}"
