"""When is the ledger told what, and which instant counts for a look?"""

from collections.abc import Mapping, Sequence

from labferry.identity import Layout, RunKey
from labferry.profiles import load_profile
from labferry.records import Fingerprint, Lane, Outcome, Seen, Step
from labferry.source.scan import Batch, LeftOut
from labferry.states import Event, State
from producer.record import Recorder, Rules
from tests.memory_ledger import MemoryLedger

RUN = RunKey("inst", "run1")
FILE = Fingerprint(size=10, mtime_ns=1, inode=7, ctime_ns=1)
WINDOW_S = 60


class ScriptedLedger(MemoryLedger):
    """Answers a recorder as it was told to, and remembers what it was asked."""

    def __init__(self, now_ms: int, seen: Mapping[str, Seen], outcome: Outcome) -> None:
        super().__init__()
        self.clock_ms, self.seen, self.outcome = now_ms, seen, outcome
        self.calls: list[str] = []

    def look(self, run: RunKey, paths: Sequence[str]) -> tuple[int, list[Seen | None]]:
        self.calls.append("look")
        return self.clock_ms, [self.seen.get(path) for path in paths]

    def discover(self, run: RunKey, seen: Sequence[tuple[str, Fingerprint]]) -> int:
        self.calls.append(f"discover {len(seen)}")
        return len(seen)

    def move(self, run: RunKey, event: Event, steps: Sequence[Step]) -> list[Outcome]:
        self.calls.append(f"{event} {len(steps)}")
        return [self.outcome] * len(steps)


def recorder(
    seen: Mapping[str, Seen], *, now_ms: int, outcome: Outcome = Outcome.DONE
) -> tuple[Recorder, ScriptedLedger]:
    ledger = ScriptedLedger(now_ms, seen, outcome)
    profile = load_profile("generic", {"settle_window_s": WINDOW_S})
    rules = Rules(profile=profile, layout=Layout(), lane=lambda _: Lane.SMALL)
    made = Recorder(ledger, RUN, rules, {}, hold_last=True, frozen=False)
    return made, ledger


def known(state: State, changed_ms: int = 0) -> Seen:
    return Seen(state, FILE, changed_ms)


def test_a_slow_batch_does_not_count_as_rest() -> None:
    """The files were looked at early in the batch, the ledger's answer came a minute later."""
    made, ledger = recorder({"a": known(State.DISCOVERED)}, now_ms=61_000)
    made.record(Batch(files=[("a", FILE)]), looked_ms=59_999)
    assert ledger.calls == ["look"]
    made.record(Batch(files=[("a", FILE)]), looked_ms=60_000)
    assert ledger.calls == ["look", "look", "settle 1"]


def test_the_answer_for_one_batch_is_the_instant_before_the_next() -> None:
    made, ledger = recorder({}, now_ms=500)
    assert made.record(Batch(files=[("a", FILE)]), looked_ms=100) == 500
    assert made.record(Batch(), looked_ms=500) == 500
    assert ledger.calls == ["look", "discover 1"]


def test_a_batch_is_one_call_for_each_verdict_in_it() -> None:
    seen = {
        **{f"settles{n}": known(State.DISCOVERED) for n in range(3)},
        **{f"waits{n}": known(State.DISCOVERED, changed_ms=1) for n in range(3)},
        **{f"rests{n}": known(State.VERIFIED) for n in range(3)},
    }
    made, ledger = recorder(seen, now_ms=60_000)
    names = [f"{name}{n}" for name in ("new", "settles", "waits", "rests") for n in range(3)]
    left_out = [LeftOut(path=f"l{n}", fingerprint=FILE, code="litter", message="-") for n in "ab"]
    batch = Batch(files=[(name, FILE) for name in names], left_out=left_out)
    made.record(batch, looked_ms=60_000)
    assert ledger.calls == ["look", "discover 3", "settle 3", "discover 2", "skip 2"]
    assert made.recorded.discovered == 6


def test_a_move_that_another_agent_made_is_not_counted_as_ours() -> None:
    made, _ = recorder({"a": known(State.DISCOVERED)}, now_ms=60_000, outcome=Outcome.DIFFERENT)
    made.record(Batch(files=[("a", FILE)]), looked_ms=60_000)
    assert not made.recorded.moves["settle"]  # type: ignore[index]
    assert made.recorded.discovered == 1


def test_a_marker_is_at_rest_after_its_window_and_still_waits() -> None:
    batch = Batch(files=[("done", FILE)], last=["done"])
    for changed_ms, restless in ((0, 0), (1, 1)):
        made, ledger = recorder({"done": known(State.DISCOVERED, changed_ms)}, now_ms=60_000)
        made.record(batch, looked_ms=60_000)
        assert ledger.calls == ["look"]
        assert (made.recorded.last_waiting, made.recorded.last_restless) == (1, restless)


def test_a_marker_that_is_new_or_changed_is_not_at_rest() -> None:
    batch = Batch(files=[("done", FILE)], last=["done"])
    changed = Seen(State.DISCOVERED, FILE._replace(size=1), 0)
    for seen in (dict[str, Seen](), {"done": changed}):
        made, _ = recorder(seen, now_ms=60_000)
        made.record(batch, looked_ms=60_000)
        assert (made.recorded.last_waiting, made.recorded.last_restless) == (1, 1)


def test_a_marker_that_is_on_its_way_is_waited_for_no_more() -> None:
    made, _ = recorder({"done": known(State.VERIFIED)}, now_ms=60_000)
    made.record(Batch(files=[("done", FILE)], last=["done"]), looked_ms=60_000)
    assert (made.recorded.last_waiting, made.recorded.last_restless) == (0, 0)
