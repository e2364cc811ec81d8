"""Does the ledger come through when its server dies, stalls or drops connections?

On a Valkey of their own, with the append-only file written every second.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest
import redis

from labferry.errors import LedgerUnavailable
from labferry.ports import Ledger
from labferry.records import Lane, Outcome, Step
from labferry.states import Event, State
from ops.embedded import Valkey
from tests.ledger_proxy import Command, LedgerProxy
from tests.ledger_world import EVIDENCE, PRINT, RUN, TTL_MS, World, server_world, was_claimed_once
from tests.waiting import eventually

DATABASE = 1
#: So that a stalled server is noticed soon, and a slow one is not taken for stalled.
IMPATIENT = "?socket_timeout=3"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Valkey]:
    with Valkey(tmp_path) as running:
        yield running


@pytest.fixture
def world(server: Valkey) -> World:
    return server_world(server.url(DATABASE))


class CuttingProxy(LedgerProxy):
    """Cuts a connection when the next request or answer passes."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._cut = ""
        self.cuts = 0

    def cut(self, what: Literal["request", "answer"]) -> None:
        self._cut = what

    def before(self, command: Command) -> None:
        self._cut_if("request")

    def after(self, command: Command, reply: object) -> None:
        self._cut_if("answer")

    def _cut_if(self, what: str) -> None:
        if self._cut == what:
            self._cut = ""
            self.cuts += 1
            raise ConnectionError(what)


@pytest.fixture
def proxy(server: Valkey) -> Iterator[CuttingProxy]:
    between = CuttingProxy(server.port)
    yield between
    between.close()


def cut_all(server: Valkey) -> int:
    """Close every connection to the server but this one; return how many there were."""
    with redis.Redis.from_url(server.url()) as client:
        cut: int = client.client_kill_filter(_type="normal", skipme=True)
        return cut


def works_again(call: Callable[[], object]) -> bool:
    try:
        call()
    except LedgerUnavailable:
        return False
    return True


def steps(paths: list[str], token: int = 0) -> list[Step]:
    return [
        Step(path=p, token=token, fingerprint=PRINT, lane=Lane.SMALL, evidence=EVIDENCE)
        for p in paths
    ]


def test_what_was_acknowledged_outlives_a_kill_of_the_server(server: Valkey, world: World) -> None:
    token = world.upload("held", "failed")
    world.move(Event.FAIL, "failed", token=token, delay_ms=3_600_000)
    world.settle("queued")
    world.settle("sent", lane=Lane.LARGE)
    (bundle,) = world.take(Lane.LARGE)
    leader = world.ledger.leadership("sweep", keep_s=600)
    assert leader.keep()
    records, facts = dict(world.ledger.records(RUN)), world.facts()
    server.kill()
    with pytest.raises(LedgerUnavailable):
        world.ledger.find_facts(RUN)
    server.start()
    assert dict(world.ledger.records(RUN)) == records
    again = world.facts()
    assert (again.counts, again.ready, again.sent) == (facts.counts, facts.ready, facts.sent)
    assert world.ledger.renew(RUN, [("held", token)]) == [True]
    assert world.ledger.find_due(RUN.file("failed")) is not None
    assert len(world.claim(bundle=bundle.number)) == 1
    assert leader.keep()
    assert not world.second().leadership("sweep", keep_s=600).keep()


def test_calls_work_again_by_themselves_once_the_server_is_back(
    server: Valkey, world: World
) -> None:
    """The same clients, in threads, with connections and scripts from before."""
    world.settle(*(f"f{i}" for i in range(8)))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: world.ledger.now_ms(), range(64)))
        server.kill()
        down = list(pool.map(lambda i: works_again(lambda: world.claim(f"f{i}")), range(8)))
        assert not any(down)
        server.start()
        tokens = list(pool.map(lambda i: world.claim(f"f{i}"), range(8)))
    assert tokens == [[world.token(f"f{i}")] for i in range(8)]
    assert world.facts().counts[State.UPLOADING] == 8


class Ferryman:
    """A worker that asks again whenever it got no answer, with one file after the other until it
    is told to end."""

    def __init__(self, ledger: Ledger, name: str, ends: threading.Event) -> None:
        self._ledger = ledger
        self._name = name
        self._ends = ends
        self.unanswered = 0
        self.verified = 0

    def ferry(self) -> None:
        while not self._ends.is_set():
            path = f"{self._name}{self.verified}"
            for call in (self._settle, self._claim, self._verify):
                self._surely(lambda call=call, path=path: call(path))  # type: ignore[misc]
            self.verified += 1

    def _settle(self, path: str) -> None:
        self._ledger.discover(RUN, [(path, PRINT)])
        self._ledger.move(RUN, Event.SETTLE, steps([path]))

    def _claim(self, path: str) -> None:
        self._ledger.claim(RUN, 0, [path], 1)

    def _verify(self, path: str) -> None:
        """Verify a file under the newest token: the claim's own answer may have been lost."""
        record = self._ledger.find_record(RUN.file(path))
        assert record is not None
        done = self._ledger.move(RUN, Event.VERIFY, steps([path], record.token))
        assert done == [Outcome.DONE]

    def _surely(self, call: Callable[[], object]) -> None:
        while not works_again(call):
            self.unanswered += 1


def test_a_run_goes_through_a_server_that_is_killed_again_and_again(
    server: Valkey, world: World
) -> None:
    ends = threading.Event()
    men = [Ferryman(world.second(), name, ends) for name in "abc"]
    with ThreadPoolExecutor(len(men)) as pool:
        futures = [pool.submit(man.ferry) for man in men]
        try:
            for _ in range(6):
                verified, unanswered = _sums(men)
                eventually(lambda n=verified: _sums(men)[0] > n + 50)  # type: ignore[misc]
                server.kill()
                try:
                    eventually(lambda n=unanswered: _sums(men)[1] > n)  # type: ignore[misc]
                finally:
                    server.start()
        finally:
            ends.set()
        for future in futures:
            future.result()
    facts = world.facts()
    assert facts.counts[State.VERIFIED] == _sums(men)[0]
    assert all(was_claimed_once(record) for _, record in world.ledger.records(RUN))


def _sums(men: list[Ferryman]) -> tuple[int, int]:
    """How many files are verified, and how many calls were not answered."""
    return sum(man.verified for man in men), sum(man.unanswered for man in men)


def test_a_cut_connection_is_not_seen_by_the_caller(server: Valkey, world: World) -> None:
    ledger = world.ledger
    assert ledger.discover(RUN, [("a", PRINT), ("b", PRINT)]) == 2
    assert cut_all(server) >= 1
    assert ledger.look(RUN, ["a"])[1] != [None]
    assert cut_all(server) >= 1
    assert ledger.move(RUN, Event.SETTLE, steps(["a", "b"])) == [Outcome.DONE] * 2
    assert cut_all(server) >= 1
    (bundle,) = world.take()
    assert cut_all(server) >= 1
    token, _ = world.claim(bundle=bundle.number)
    assert cut_all(server) >= 1
    assert ledger.renew(RUN, [("a", token)]) == [True]
    assert cut_all(server) >= 1
    assert ledger.move(RUN, Event.VERIFY, steps(["a", "b"], token)) == [Outcome.DONE] * 2
    assert cut_all(server) >= 1
    assert ledger.seal(RUN, [], 2)
    assert cut_all(server) >= 1
    assert world.complete(file_count=2)
    assert cut_all(server) >= 1
    leader = ledger.leadership("sweep", keep_s=60)
    assert leader.keep()
    assert cut_all(server) >= 1
    assert leader.keep()
    assert cut_all(server) >= 1
    assert len(dict(ledger.records(RUN))) == 2


def test_a_request_that_was_cut_off_is_sent_again(server: Valkey, proxy: CuttingProxy) -> None:
    world = server_world(proxy.url(DATABASE))
    token = world.upload("a")
    proxy.cut("request")
    assert world.move(Event.FAIL, "a", token=token, delay_ms=0) == [Outcome.DONE]
    proxy.cut("request")
    assert world.ledger.find_record(RUN.file("a")) is not None
    assert proxy.cuts == 2
    assert world.record("a").attempt == 1


def test_a_move_whose_answer_was_cut_off_is_done_once(server: Valkey, proxy: CuttingProxy) -> None:
    world = server_world(proxy.url(DATABASE))
    token = world.upload("a")
    proxy.cut("answer")
    assert world.move(Event.FAIL, "a", token=token, delay_ms=0) == [Outcome.DONE]
    assert proxy.cuts == 1
    assert world.record("a").attempt == 1


def test_a_claim_whose_answer_was_cut_off_is_found_when_its_lease_lapses(
    server: Valkey, proxy: CuttingProxy
) -> None:
    world = server_world(proxy.url(DATABASE))
    world.settle("a")
    (bundle,) = world.take()
    assert world.claim() == []  # the server knows the script now
    proxy.cut("answer")
    assert world.claim(bundle=bundle.number) == [], "nobody knows that it holds the file"
    assert proxy.cuts == 1
    world.pass_ms(TTL_MS)
    assert [path for path, _ in world.ledger.lapsed(RUN, 10)] == ["a"]


def test_all_pooled_connections_may_be_cut_at_once(server: Valkey, world: World) -> None:
    start = threading.Barrier(16)

    def ask(_: int) -> int:
        start.wait()
        return world.ledger.now_ms()

    with ThreadPoolExecutor(16) as pool:
        for _ in range(3):
            assert len(list(pool.map(ask, range(16)))) == 16
            assert cut_all(server) >= 1


def test_a_listing_of_records_goes_on_over_a_cut(server: Valkey, world: World) -> None:
    world.discover(*(f"f{i:05}" for i in range(5000)))
    listing = world.ledger.records(RUN)
    found = {next(listing)[0]}
    assert cut_all(server) >= 1
    found |= {path for path, _ in listing}
    assert len(found) == 5000


def test_a_stalled_server_is_unavailable_and_its_late_answers_are_nobody_s(
    server: Valkey,
) -> None:
    world = server_world(server.url(DATABASE) + IMPATIENT)
    token = world.upload("a", "b")
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(LedgerUnavailable):
            world.move(Event.STORE, "a", token=token)
        with pytest.raises(LedgerUnavailable):
            world.ledger.find_facts(RUN)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    eventually(lambda: works_again(world.ledger.now_ms))
    eventually(lambda: world.record("a").state is State.UPLOADED)
    assert world.move(Event.STORE, "a", token=token) == [Outcome.DONE], "it was done, and is again"
    assert world.ledger.renew(RUN, [("a", token), ("b", token + 1)]) == [True, False]
    assert world.facts().counts[State.UPLOADED] == 1
