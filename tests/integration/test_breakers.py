"""What happens to all other files when one meets what is in everybody's way? On the real ledger."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NoReturn

import pytest

from labferry.breakers import Breaker, Phase
from labferry.errors import LedgerUnavailable, StoreError
from labferry.failures import Cause
from labferry.records import Lane
from labferry.settings import StoreSettings
from labferry.states import Event, State
from labferry.store_port import Buffer
from labferry.stored import StoredObject
from tests.dock import MIB, RUN, Dock
from tests.memory_store import Breaking, MemoryStore
from tests.waiting import PATIENCE_S, eventually

PART = 5 * MIB
LONG_S = 600.0


@pytest.fixture
def dock(tmp_path: Path, ledger_url: str) -> Dock:
    """On a store in memory; a probe is not due within the test, unless it says so."""
    settings = StoreSettings(bucket="bucket", single_put_max_bytes=PART, part_size_bytes=PART)
    dock = Dock(tmp_path, ledger_url, MemoryStore(), store_settings=settings)
    dock.tune("breakers", probe_s=LONG_S, probe_cap_s=LONG_S, ramp_s=2, recovery_s=600)
    dock.tune("retry", hold_s=10 * LONG_S)
    return dock


class Failing(MemoryStore):
    """A store that fails as told for some keys, or all, until it is mended."""

    def __init__(self, code: str, status: int | None, *keys: str) -> None:
        super().__init__()
        self.code, self.status, self.keys = code, status, keys
        self.asked: list[str] = []
        self.broken = True
        self.heads_fail = False

    def put_fast(self, key: str, body: bytes, attempt_token: str) -> str:
        self._ask("PutObject", key)
        return super().put_fast(key, body, attempt_token)

    def put_absent(
        self, key: str, body: bytes | BinaryIO, crc64: int, attempt_token: str
    ) -> StoredObject:
        self._ask("PutObject", key)
        return super().put_absent(key, body, crc64, attempt_token)

    def put_part(self, key: str, upload_id: str, number: int, body: Buffer, crc64: int) -> str:
        self._ask("UploadPart", key)
        return super().put_part(key, upload_id, number, body, crc64)

    def _ask(self, operation: str, key: str) -> None:
        self.asked.append(key)
        if self.broken and (not self.keys or key in self.keys):
            self._fail(operation, key)

    def _fail(self, operation: str, key: str) -> NoReturn:
        raise StoreError(operation=operation, key=key, code=self.code, status=self.status)


def down() -> Failing:
    """An endpoint that cannot be reached."""
    return Failing("EndpointConnectionError", None)


def written(dock: Dock, count: int, *, size: int = 5) -> list[str]:
    """Write and settle files; return their names."""
    names = [f"f{number:03}" for number in range(count)]
    for name in names:
        dock.write(name, b"x" * size)
    dock.settle(*names)
    return names


def breaker(dock: Dock, cause: Cause = Cause.ENDPOINT) -> Breaker:
    (found,) = [one for one in dock.ledger.conditions().breakers if one.cause is cause]
    return found


def states(dock: Dock, names: list[str]) -> set[State]:
    return {dock.state(name) for name in names}


def lines(dock: Dock, names: list[str]) -> int:
    """How many lines there are in all histories."""
    return sum(len(dock.codes(name)) for name in names)


# -- when it opens


def test_the_file_that_met_it_is_noted_and_all_others_are_held_without_a_line(dock: Dock) -> None:
    dock.tune("worker", small_threads=1)
    names, store = written(dock, 50), down()
    dock.ferry(store=store)
    assert states(dock, names) == {State.HELD}
    assert lines(dock, names) == 1
    assert len(store.asked) == 1
    assert (breaker(dock).phase, breaker(dock).opened) == (Phase.OPEN, 1)
    assert {dock.record(name).attempt for name in names} == {0}


def test_files_are_held_until_just_after_the_next_probe(dock: Dock) -> None:
    names = written(dock, 3)
    dock.ferry(store=down())
    due = [dock.ledger.find_due(RUN.file(name)) for name in names]
    assert all(at_ms and 0 <= at_ms - breaker(dock).next_ms < 2000 for at_ms in due)


def test_under_an_open_breaker_files_are_held_without_any_call_or_line(dock: Dock) -> None:
    names = written(dock, 20)
    dock.ferry(store=down())
    before = lines(dock, names)
    more = [f"g{number}" for number in range(20)]
    for name in more:
        dock.write(name)
    dock.settle(*more)
    store = Breaking(MemoryStore())
    results = dock.ferry(store=store)
    assert store.calls == []
    assert {result.state for result in results.values()} == {State.HELD}
    assert {one.failure.code for one in results.values() if one.failure} == {
        "EndpointConnectionError"
    }
    assert lines(dock, names + more) == before


def test_one_alert_is_recorded_however_many_meet_it(dock: Dock) -> None:
    dock.tune("worker", small_threads=16)
    written(dock, 64)
    dock.ferry(store=down())
    (alert,) = dock.ledger.alerts()
    assert alert.text.startswith(f"endpoint:{dock.settings.store.endpoint}: PutObject")
    assert "no attempt is spent" in alert.text
    assert "[store] endpoint_url" in alert.text


# -- the probe


def due(dock: Dock, cause: Cause = Cause.ENDPOINT) -> None:
    """Let the next probe be due now."""
    seen = breaker(dock, cause)
    assert dock.ledger.swap_breaker(seen, replace(seen, next_ms=1))


def released(dock: Dock, names: list[str]) -> None:
    """Let all held files be due now, as after the probe they wait for."""
    for name in names:
        dock._server.zadd(f"labferry:{{{RUN}}}:due", {name: 0}, xx=True)


def test_a_probe_that_fails_costs_one_call_no_line_and_doubles_the_wait(dock: Dock) -> None:
    dock.tune("breakers", probe_cap_s=10 * LONG_S)
    names, store = written(dock, 30), down()
    dock.tune("worker", small_threads=16)
    dock.ferry(store=store)
    before = lines(dock, names)
    due(dock)
    released(dock, names)
    store.asked.clear()
    dock.ferry(store=store)
    assert len(store.asked) == 1
    assert states(dock, names) == {State.HELD}
    assert lines(dock, names) == before
    assert (breaker(dock).phase, breaker(dock).wait_ms) == (Phase.OPEN, 2 * LONG_S * 1000)
    assert len(dock.ledger.alerts()) == 1


def test_a_probe_that_passes_lets_the_rest_of_its_bundle_go_on(dock: Dock) -> None:
    names, store = written(dock, 30), down()
    dock.ferry(store=store)
    due(dock)
    released(dock, names)
    store.broken = False
    dock.ferry(store=store)
    assert states(dock, names) == {State.VERIFIED}
    assert breaker(dock).phase is Phase.RAMP
    assert {dock.record(name).attempt for name in names} == {0}


def test_a_probe_that_meets_other_trouble_leaves_its_own_to_be_probed_again(dock: Dock) -> None:
    names = written(dock, 3)
    dock.ferry(store=Failing("ExpiredToken", 403))
    due(dock, Cause.CREDENTIALS)
    released(dock, names)
    dock.ferry(store=Failing("NoSuchBucket", 404))
    assert breaker(dock, Cause.BUCKET).phase is Phase.OPEN
    credentials = breaker(dock, Cause.CREDENTIALS)
    assert (credentials.phase, credentials.wait_ms) == (Phase.OPEN, LONG_S * 1000)
    assert credentials.next_ms <= dock.ledger.now_ms()
    assert len(dock.ledger.alerts()) == 2
    assert dock.permit().failure is not None, "nobody may ask while the bucket is away"
    due(dock, Cause.BUCKET)
    released(dock, names)
    dock.ferry()
    assert states(dock, names) == {State.VERIFIED}
    assert {one.phase for one in dock.ledger.conditions().breakers} == {Phase.RAMP}


def test_of_sixteen_workers_that_race_for_a_probe_one_wins_it(dock: Dock) -> None:
    names = written(dock, 4)
    dock.ferry(store=down())
    start = threading.Barrier(16)

    def ask(_: int) -> tuple[bool, bool]:
        permit = dock.permit()
        return permit.is_probe, permit.failure is not None

    def race(number: int) -> tuple[bool, bool]:
        start.wait()
        return ask(number)

    for turn in range(5):
        due(dock)
        with ThreadPoolExecutor(16) as pool:
            asked = list(pool.map(race, range(16)))
        assert [is_probe for is_probe, _ in asked].count(True) == 1
        assert [is_shut for _, is_shut in asked].count(True) == 15
        assert breaker(dock).probes == turn + 1
    assert states(dock, names) == {State.HELD}


def test_a_probe_whose_file_is_gone_says_nothing_and_the_next_file_tells(dock: Dock) -> None:
    dock.tune("worker", small_threads=1)
    names, store = written(dock, 5), down()
    dock.ferry(store=store)
    due(dock)
    released(dock, names)
    for name in names[:2]:
        dock.source(name).unlink()
    store.broken = False
    dock.ferry(store=store)
    assert [dock.state(name) for name in names] == [State.DISCOVERED] * 2 + [State.VERIFIED] * 3
    assert breaker(dock).phase is Phase.RAMP


def test_a_probe_of_which_nothing_came_is_given_back(dock: Dock) -> None:
    names, store = written(dock, 1), down()
    dock.ferry(store=store)
    due(dock)
    released(dock, names)
    dock.source(names[0]).unlink()
    dock.ferry(store=store)
    assert breaker(dock).phase is Phase.OPEN
    assert breaker(dock).next_ms <= dock.ledger.now_ms()
    assert dock.permit().is_probe


def test_a_large_file_lets_all_others_in_with_its_first_part(dock: Dock) -> None:
    (name,) = written(dock, 1, size=3 * PART)
    store = down()
    dock.tune("worker", part_threads=1)
    dock.ferry(store=store)
    due(dock)
    released(dock, [name])
    store.broken = False
    phases: list[Phase] = []

    class Watching(Breaking):
        def _is_chosen(self, called: str) -> bool:
            if called == "put_part":
                phases.append(breaker(dock).phase)
            return super()._is_chosen(called)

    dock.ferry(store=Watching(store))
    assert phases == [Phase.PROBING, Phase.RAMP, Phase.RAMP]
    assert dock.state(name) is State.VERIFIED


def test_a_large_file_that_is_refused_resumes_the_same_upload_and_sends_no_part_twice(
    dock: Dock,
) -> None:
    (name,) = written(dock, 1, size=4 * PART)
    dock.tune("worker", part_threads=1)
    expired = Breaking(
        dock.store,
        3,
        method="put_part",
        error=StoreError(operation="UploadPart", key="k", code="ExpiredToken", status=403),
    )
    dock.ferry(store=expired)
    upload = dock.ledger.find_upload(RUN.file(name))
    assert upload is not None
    due(dock, Cause.CREDENTIALS)
    released(dock, [name])
    counting = Breaking(dock.store)
    dock.ferry(store=counting)
    assert dock.state(name) is State.VERIFIED
    assert counting.calls.count("put_part") == 2
    assert counting.calls.count("create_upload") == 0


# -- whose fault is it?


def keys(dock: Dock, names: list[str]) -> list[str]:
    return [dock.key(name) for name in names]


def test_a_server_that_fails_underway_for_everybody_costs_few_attempts(dock: Dock) -> None:
    dock.tune("worker", small_threads=1)
    names = written(dock, 40)
    dock.ferry(store=Failing("InternalError", 500))
    assert breaker(dock).phase is Phase.OPEN
    assert states(dock, names) == {State.FAILED, State.HELD}
    assert sum(dock.record(name).attempt for name in names) == 2


def test_a_server_that_fails_underway_for_one_file_is_that_file_s_trouble(dock: Dock) -> None:
    dock.tune("worker", small_threads=1)
    dock.tune("retry", attempts=4)
    names = written(dock, 1)
    store = Failing("InternalError", 500, *keys(dock, names))
    dock.finish(store=store)
    assert states(dock, names) == {State.QUARANTINED}
    assert dock.record(names[0]).attempt == 4
    assert [event for event, _ in dock.codes(names[0])] == [Event.FAIL] * 3 + [Event.QUARANTINE]
    assert not dock.ledger.alerts()


def test_no_file_exhausts_its_budget_on_an_endpoint_that_fails_for_all(dock: Dock) -> None:
    dock.tune("retry", attempts=1)
    names = written(dock, 1)
    dock.ferry(store=Failing("InternalError", 500))
    assert states(dock, names) == {State.HELD}
    assert dock.record(names[0]).attempt == 0


def test_a_lone_file_of_which_nothing_but_failures_is_heard_opens_it_in_time(dock: Dock) -> None:
    """Each of its attempts by another process."""
    names = written(dock, 1)
    store = Failing("ReadTimeoutError", None)

    def is_held() -> bool:
        dock.ferry(store=store)
        return dock.state(names[0]) is State.HELD

    eventually(is_held)
    assert dock.record(names[0]).attempt == 2
    assert breaker(dock).phase is Phase.OPEN


def test_a_success_in_between_clears_the_strikes(dock: Dock) -> None:
    dock.tune("worker", small_threads=1)
    dock.tune("retry", attempts=200)
    names = written(dock, 8)
    store = Failing("InternalError", 500, *keys(dock, names[::2]))
    dock.ferry(store=store)
    found = [dock.state(name) for name in names]
    assert found == [State.FAILED, State.VERIFIED] * 4
    assert breaker(dock).strikes <= 1
    assert not [key for key in store.asked if "probe/" in key], "nobody had to be asked"


def test_a_denied_prefix_is_its_files_trouble(dock: Dock) -> None:
    names = written(dock, 6)
    store = Failing("AccessDenied", 403, *keys(dock, names[:3]))
    dock.ferry(store=store)
    assert states(dock, names[:3]) == {State.QUARANTINED}
    assert states(dock, names[3:]) == {State.VERIFIED}
    assert dock.ledger.conditions().breakers == ()


def test_where_everything_is_denied_nothing_is_dead(dock: Dock) -> None:
    names = written(dock, 6)
    store = Failing("AccessDenied", 403)
    dock.ferry(store=store)
    assert states(dock, names) == {State.HELD}
    assert breaker(dock, Cause.CREDENTIALS).code == "AccessDenied"
    assert len(dock.ledger.alerts()) == 1


def test_a_probe_that_meets_a_poison_file_is_not_fooled_by_it(dock: Dock) -> None:
    """The endpoint is well again; one file still fails, and is alone."""
    names = written(dock, 1)
    store = Failing("InternalError", 500)
    dock.tune("retry", attempts=2)
    dock.ferry(store=store)
    released(dock, names)
    dock.ferry(store=store)
    assert states(dock, names) == {State.HELD}
    due(dock)
    released(dock, names)
    store.keys = tuple(keys(dock, names))
    dock.ferry(store=store)
    assert breaker(dock).phase is Phase.RAMP
    assert states(dock, names) == {State.QUARANTINED}


def test_the_scratch_object_that_tells_is_removed_again(dock: Dock) -> None:
    dock.tune("retry", attempts=1)
    names = written(dock, 1)
    store = Failing("InternalError", 500, *keys(dock, names))
    dock.ferry(store=store)
    assert [key for key in store.asked if key.startswith("probe/")]
    assert list(store.objects) == []


# -- throttling


def test_what_throttles_costs_nothing_and_halves_the_pace_for_all(dock: Dock) -> None:
    names = written(dock, 1)
    dock.ferry(store=Failing("SlowDown", 503))
    assert states(dock, names) == {State.HELD}
    assert dock.record(names[0]).attempt == 0
    assert dock.codes(names[0]) == [(Event.HOLD, "SlowDown")]
    assert dock.permit().pace == pytest.approx(0.5, abs=0.01)
    assert dock.ledger.conditions().breakers == ()


def test_a_long_throttling_writes_one_line(dock: Dock) -> None:
    names = written(dock, 30)
    for _ in range(3):
        dock.ferry(store=Failing("SlowDown", 503))
        released(dock, names)
    assert lines(dock, names) == 1


def test_retry_after_is_the_least_wait_of_a_throttled_file(dock: Dock) -> None:
    (name,) = written(dock, 1)
    slow = Failing("SlowDown", 503)

    def fail(operation: str, key: str) -> NoReturn:
        raise StoreError(
            operation=operation, key=key, code="SlowDown", status=503, retry_after_s=120
        )

    slow._fail = fail  # type: ignore[method-assign]
    dock.ferry(store=slow)
    due_ms = dock.ledger.find_due(RUN.file(name))
    assert due_ms is not None
    assert due_ms - dock.ledger.now_ms() > 115_000


def in_flight(dock: Dock, names: list[str]) -> int:
    """Ferry files; return how many Puts there were at most at a time."""
    lock, now, most = threading.Lock(), [0], [0]
    together = threading.Barrier(16)

    class Counting(MemoryStore):
        def put_fast(self, key: str, body: bytes, attempt_token: str) -> str:
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            with suppress(threading.BrokenBarrierError):
                together.wait(2)
            try:
                return super().put_fast(key, body, attempt_token)
            finally:
                with lock:
                    now[0] -= 1

    dock.ferry(store=Counting())
    assert states(dock, names) == {State.VERIFIED}
    return most[0]


def test_a_worker_uses_as_many_of_its_threads_as_the_pace_allows(dock: Dock) -> None:
    dock.tune("worker", small_threads=16)
    assert in_flight(dock, written(dock, 64)) == 16
    throttled = dock.write("throttled").name
    dock.settle(throttled)
    dock.ferry(store=Failing("SlowDown", 503))
    names = [f"g{number}" for number in range(64)]
    for name in names:
        dock.write(name)
    dock.settle(*names)
    assert 4 <= in_flight(dock, names) <= 8


def test_threads_that_are_throttled_end_and_the_others_go_on(dock: Dock) -> None:
    dock.tune("worker", small_threads=4)
    names = written(dock, 60)
    workers: set[int] = set()
    begun: set[int] = set()
    together = threading.Barrier(4)

    class Slow(Failing):
        def puts_many(self) -> bool:
            return False

        def put_fast(self, key: str, body: bytes, attempt_token: str) -> str:
            if threading.get_ident() not in begun:
                begun.add(threading.get_ident())
                together.wait(PATIENCE_S)
            time.sleep(0.002)  # so that whoever is there gets some
            etag = super().put_fast(key, body, attempt_token)
            workers.add(threading.get_ident())
            return etag

    dock.ferry(store=Slow("SlowDown", 503, *keys(dock, names[:3])))
    assert len(workers) == 1
    found = [dock.state(name) for name in names]
    assert found.count(State.HELD) == 3
    assert found.count(State.VERIFIED) == 57


# -- when the ledger is away


@pytest.mark.parametrize("method", ["conditions", "swap_breaker"])
def test_a_ledger_that_is_away_when_it_is_to_be_told_costs_nothing(dock: Dock, method: str) -> None:
    names = written(dock, 3)
    away = LedgerUnavailable(url="redis://x", why="gone")
    ledger = Breaking(dock.ledger, 1, method=method, error=away)
    dock.ferry(store=down(), ledger=ledger)
    assert states(dock, names) <= {State.HELD, State.ELIGIBLE}
    assert {dock.record(name).attempt for name in names} == {0}


def test_the_lane_does_not_matter_to_who_is_held(dock: Dock) -> None:
    dock.write("large", os.urandom(PART + 1))
    dock.write("small")
    dock.settle("large", "small")
    dock.ferry(store=down())
    assert states(dock, ["large", "small"]) == {State.HELD}
    facts = dock.ledger.find_facts(RUN)
    assert facts is not None
    released(dock, ["large", "small"])
    assert dock.ledger.take_due(RUN, 10) == []
    facts = dock.ledger.find_facts(RUN)
    assert facts is not None
    assert facts.ready == {Lane.SMALL: 1, Lane.LARGE: 1}


def test_an_endpoint_is_away_for_all_hosts_but_stops_no_other_endpoint(dock: Dock) -> None:
    written(dock, 1)
    dock.ferry(store=down())
    assert dock.permit(host="other").failure is not None
    dock.tune("store", endpoint_url="http://elsewhere")
    assert dock.permit().failure is None


def test_what_one_host_lacks_stops_no_other_host(dock: Dock) -> None:
    written(dock, 1)
    dock.ferry(store=Failing("NoCredentialsError", None))
    assert dock.permit().failure is not None
    assert dock.permit(host="other").failure is None
