"""Do other brokers than Redis carry the wake-ups, and cost no file when they die? `make brokers`.

RabbitMQ, by the URLs of docs/hosts.md, without TLS and with: runs are ferried by real processes,
and in the middle of one the broker is killed, and ended in good order in that of another. Then SQS
as moto's server shows it, where moto and pycurl are installed. Each line says what was seen; the
first thing that is not so ends it.
"""

import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import psutil

from labferry.identity import RunKey
from labferry.settings import StoreSettings
from ops.embedded import Valkey, Weed
from ops.exits import Exit
from tests.certificates import certified
from tests.fault_proxy import FaultProxy
from tests.moto_server import Moto, find_moto
from tests.rabbitmq import PASSWORD, RabbitMq
from tests.services import BUCKET, credentials
from tests.site import Site, open_site
from tests.told import demand, seen, until

DOCS = (Path(__file__).parent.parent / "docs" / "hosts.md").read_text("utf-8")
MIB = 1024 * 1024
FEW, MANY = 100, 2000
#: Of the many, the broker dies with so many verified.
STRUCK_AT = 100
#: Celery processes beside a worker: one a lane, and the sweep.
CHILDREN = 3


def documented(row: str) -> str:
    """Return the URL of a row of the table of brokers."""
    url: str
    (url,) = re.findall(rf"^\| {row} \| `(.*?)` \|", DOCS, re.MULTILINE)
    return url


class Lab:
    """A site with one broker, whose worker and agent run all the time."""

    def __init__(self, site: Site, share: Path) -> None:
        self.site = site
        self.worker = psutil.Process(site.start("worker").pid)
        site.start("agent")
        until(lambda: len(self.worker.children()) == CHILDREN, "all processes are there")
        self.children = set(self.worker.children())
        self._share = share

    def write(self, name: str, files: int) -> RunKey:
        """Write a run of small files, and one that goes up in parts."""
        folder = self._share / name
        folder.mkdir()
        for number in range(files):
            (folder / f"tile {number}.tif").write_bytes(os.urandom(1000))
        (folder / "stack.raw").write_bytes(os.urandom(12 * MIB))
        return RunKey("scope", name)

    def is_complete(self, run: RunKey) -> bool:
        """Whether its marker is on record."""
        facts = self.site.ledger.find_facts(run)
        return facts is not None and facts.is_over

    def ends_whole(self, run: RunKey) -> None:
        """Wait until a run is complete, and demand all of it, by the processes that began."""
        until(lambda: self.is_complete(run), f"{run} is complete")
        done = self.site.run("verify", str(run))
        demand(done.returncode == Exit.DONE, f"`labferry verify` finds {run} whole")
        spent = sum(record.attempt for _, record in self.site.ledger.records(run))
        demand(spent == 0, "no attempt failed")
        demand(set(self.worker.children()) == self.children, "no process had to be started again")

    def doctor(self) -> tuple[int, str]:
        """Return its exit code and what it printed, without the breaks of lines."""
        done = self.site.run("doctor")
        return done.returncode, " ".join(done.stdout.split())


@contextmanager
def lab(url: str, *, bundle: int, resend_s: float) -> Iterator[Lab]:
    """Lend a laboratory with that broker, and at most so many files in a message."""
    with (
        tempfile.TemporaryDirectory(prefix="labferry-brokers-") as folder,
        Valkey() as valkey,
        Weed(BUCKET) as weed,
        patch.dict(os.environ, credentials(weed)),
    ):
        share = Path(folder) / "share"
        share.mkdir()
        store = StoreSettings(
            bucket=BUCKET,
            endpoint_url=weed.endpoint,
            single_put_max_bytes=MIB,
            part_size_bytes=5 * MIB,
        )
        changes: dict[str, dict[str, object]] = {
            "broker": {"url": url, "bundle_max_files": bundle, "window_messages": 50},
            "ledger": {"resend_s": resend_s},
        }
        with open_site(Path(folder), valkey, store, {"scope": share}, changes) as site:
            yield Lab(site, share)


@dataclass(frozen=True)
class Blow:
    """What is done to a broker, and undone."""

    what: str
    strike: Callable[[], None]
    undo: Callable[[], object]


def goes_on(ours: Lab, name: str, blow: Blow) -> None:
    """Let the blow fall in the middle of a run, look at what is said of it, and undo it."""
    run = ours.write(name, MANY)
    until(lambda: ours.site.verified(run) >= STRUCK_AT, f"{run} is under way")
    demand(not ours.is_complete(run), "it is not complete yet")
    blow.strike()
    seen(f"the broker was {blow.what}")
    code, told = ours.doctor()
    demand(code == Exit.UNAVAILABLE, "the doctor cannot ask it, and says so: exit code 75")
    demand(PASSWORD not in told, "and shows no password")
    waiting = MANY + 1 - ours.site.verified(run)
    demand(waiting, f"{waiting:,} files wait for it")
    blow.undo()
    seen("it is there again")
    ours.ends_whole(run)


def look_at_rabbitmq(broker: RabbitMq) -> None:
    """Ferry runs over it, while it is restarted and killed."""
    with lab(broker.named(documented("RabbitMQ")), bundle=5, resend_s=2) as ours:
        ours.ends_whole(ours.write("first", FEW))
        code, told = ours.doctor()
        demand(code == Exit.DONE, "the doctor finds nothing wrong")
        demand("every queue is served" in told, "workers answer over it, and every queue is served")
        goes_on(ours, "second", Blow("ended in good order", lambda: broker._end(60), broker.start))
        goes_on(ours, "third", Blow("killed", broker.kill, broker.start))


def look_at_tls(broker: RabbitMq) -> None:
    """Ferry a run over TLS; see an authority that is not the server's, and a password, refused."""
    with lab(broker.named(documented("RabbitMQ with TLS")), bundle=5, resend_s=2) as ours:
        ours.ends_whole(ours.write("first", FEW))
        code, _ = ours.doctor()
        demand(code == Exit.DONE, "the doctor finds nothing wrong over TLS")
        config = ours.site.config
        sound = config.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder:
            other = str(certified(Path(folder), "DNS:elsewhere").authority)
            config.write_text(sound.replace(str(broker.certified.authority), other), "utf-8")
            code, told = ours.doctor()
        demand(code == Exit.FAILED, "another authority is bad: exit code 1")
        demand("Let `ssl_ca_certs` in [broker] url" in told, "and the doctor says what mends it")
        config.write_text(sound.replace(PASSWORD, "wrong"), "utf-8")
        code, told = ours.doctor()
        demand(code == Exit.FAILED, "a wrong password is bad: exit code 1")
        demand("Set user and password in [broker] url" in told, "and the doctor says what mends it")


def look_at_sqs(proxy: FaultProxy) -> None:
    """Ferry runs over what has SQS's shape, while it cannot be reached."""
    where = {"AWS_ENDPOINT_URL_SQS": proxy.url, "AWS_DEFAULT_REGION": "us-east-1"}
    # A worker asks it for one message a second.
    with patch.dict(os.environ, where), lab(documented("SQS"), bundle=100, resend_s=20) as ours:
        ours.ends_whole(ours.write("first", FEW))
        code, told = ours.doctor()
        demand(code == Exit.DONE, "the doctor finds nothing wrong")
        demand("Flower stays empty" in told, "and says that Flower stays empty")
        goes_on(ours, "second", Blow("cut off", proxy.refuse, proxy.accept))


def main() -> None:
    """Do all of it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers would stay behind
    with RabbitMq() as broker:
        seen(f"RabbitMQ {broker.version()} runs")
        look_at_rabbitmq(broker)
        look_at_tls(broker)
    moto = find_moto()
    if moto is None or find_spec("pycurl") is None:
        seen("SQS was not looked at: it needs moto and pycurl (pip install 'moto[server]' pycurl)")
        return
    with Moto(moto) as server, FaultProxy(server.endpoint) as proxy:
        seen("moto's server runs in the place of SQS")
        look_at_sqs(proxy)


if __name__ == "__main__":
    main()
