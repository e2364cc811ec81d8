"""Who hears of what stays as it is for too long, and when is an acquisition over?"""

from dataclasses import replace

import pytest

from labferry.completion import RunState, run_state
from labferry.identity import RunKey
from labferry.profiles import load_profile
from labferry.records import Lane, RunFacts
from labferry.source.done import Holds, Part
from labferry.states import State
from producer.lingering import Lingering
from producer.next_run import TOGETHER_S, Looks, NextFiles, NextRuns
from producer.report import RunReport
from tests.ledger_world import PRINT
from tests.memory_ledger import MemoryLedger

RUN = RunKey("inst", "run1")
DAY_MS = 86_400_000


class Clocked(MemoryLedger):
    """A ledger on a clock that the test holds, with runs that were opened when it says."""

    def __init__(self, **opened_s: float) -> None:
        super().__init__()
        self.at_ms = 0
        self.opened_s = opened_s
        self.alerted: dict[str, str] = {}
        self.asked = 0

    def now_ms(self) -> int:
        return self.at_ms

    def alert(self, key: str, text: str, count: int = 1) -> bool:
        return key not in self.alerted and not self.alerted.update({key: text})

    def find_facts(self, run: RunKey) -> RunFacts | None:
        self.asked += 1
        if run.run not in self.opened_s:
            return None
        return facts(run, opened_ms=int(self.opened_s[run.run] * 1000))


def facts(run: RunKey = RUN, *, opened_ms: int = 1, **fields: float) -> RunFacts:
    known = RunFacts(
        run=run,
        generation=1,
        opened_ms=opened_ms,
        changed_ms=0,
        sealed_ms=0,
        completed=0,
        marker="",
        counts=dict.fromkeys(State, 0),
        sizes=dict.fromkeys(State, 0),
        ready=dict.fromkeys(Lane, 0),
        sent=0,
        now_ms=0,
    )
    return replace(known, **fields)  # type: ignore[arg-type]


def lingering(ledger: Clocked, **fields: object) -> Lingering:
    return Lingering(ledger, load_profile("generic", fields))


def report(**fields: object) -> RunReport:
    return RunReport(run=str(RUN), **fields)  # type: ignore[arg-type]


def stuck(made: Lingering, **fields: object) -> tuple[str, ...]:
    """Judge a pass; return what is stuck."""
    return made.judge(report(**fields))[0].stuck


@pytest.mark.parametrize(
    ("now_ms", "sealed_ms", "completed", "state"),
    [
        (DAY_MS, 0, 0, RunState.OPEN),
        (DAY_MS + 1, 0, 0, RunState.STALE),
        (DAY_MS + 1, 5, 0, RunState.SEALED),
        (DAY_MS + 1, 0, 1, RunState.COMPLETE),
    ],
)
def test_an_open_run_without_change_is_stale_after_its_time(
    now_ms: int, sealed_ms: int, completed: int, state: RunState
) -> None:
    known = facts(now_ms=now_ms, sealed_ms=sealed_ms, completed=completed, stale_s=86_400)
    assert run_state(known) is state
    assert run_state(replace(known, stale_s=0)) is not RunState.STALE


def test_a_stale_run_is_told_once_with_what_it_lacks() -> None:
    ledger = Clocked()
    lacking = (Part(name="marker", holds=Holds.FAIL, looked_at="no CopyComplete.txt"),)
    for _ in range(3):
        lingering(ledger).judge(report(state=RunState.STALE, done=lacking))
    (text,) = ledger.alerted.values()
    assert "inst/run1" in text
    assert "no CopyComplete.txt" in text


def test_a_temporary_name_is_stuck_after_a_day_of_our_own_looks() -> None:
    ledger = Clocked()
    made = lingering(ledger)
    assert stuck(made, temporary=("a.tmp",)) == ()
    ledger.at_ms = DAY_MS
    assert stuck(made, temporary=("a.tmp", "b.tmp")) == ()
    ledger.at_ms = DAY_MS + 1
    for _ in range(2):
        (sentence,) = stuck(made, temporary=("a.tmp", "b.tmp"))
        assert "a.tmp has a temporary name" in sentence
    assert list(ledger.alerted) == ["stuck:inst/run1/a.tmp"]


def test_since_when_a_name_is_temporary_outlives_the_agent() -> None:
    ledger = Clocked()
    _, told = lingering(ledger).judge(report(temporary=("a.tmp",)))
    ledger.at_ms = DAY_MS + 1
    made = lingering(ledger)
    made.remember(told)
    assert stuck(made, temporary=("a.tmp",))


RESTLESS = Part(name="settled", holds=Holds.FAIL, looked_at="files not at rest: 2")


def test_a_run_of_which_no_file_comes_to_rest_for_a_day_is_told_once() -> None:
    ledger = Clocked()
    made = lingering(ledger)
    moving = {"done": (RESTLESS,), "changed": 2, "changing": ("a", "b")}
    assert stuck(made, **moving) == ()
    ledger.at_ms = DAY_MS + 1
    for _ in range(2):
        (sentence,) = stuck(made, **moving)
        assert "such as a" in sentence
        assert "size_mtime" in sentence
    assert list(ledger.alerted) == ["restless:inst/run1"]


@pytest.mark.parametrize("meanwhile", [{"settled": 1, "done": (RESTLESS,)}, {"done": ()}])
def test_a_run_of_which_a_file_came_to_rest_is_not_stuck(meanwhile: dict[str, object]) -> None:
    ledger = Clocked()
    made = lingering(ledger)
    stuck(made, done=(RESTLESS,))
    ledger.at_ms = DAY_MS
    stuck(made, **meanwhile)
    ledger.at_ms = 2 * DAY_MS
    assert stuck(made, done=(RESTLESS,)) == ()


def test_a_temporary_name_that_went_and_came_again_is_not_stuck() -> None:
    ledger = Clocked()
    made = lingering(ledger)
    stuck(made, temporary=("a.tmp",))
    ledger.at_ms = DAY_MS
    stuck(made)
    ledger.at_ms = 2 * DAY_MS
    assert stuck(made, temporary=("a.tmp",)) == ()


# -- the next acquisition


def is_over(ledger: Clocked, run: str = "a", **fields: object) -> bool:
    runs = [RunKey("inst", name) for name in ledger.opened_s]
    profile = load_profile("ms-bruker-tims", fields)
    looks = Looks()
    for begins_s in sorted(ledger.opened_s.values()):  # each was looked for just before it began
        begun = [f"inst/{name}" for name, at_s in ledger.opened_s.items() if at_s <= begins_s]
        looks.note(None, int(begins_s * 1000), [])
        looks.note(None, int(begins_s * 1000), begun)
    return NextRuns(ledger, profile, runs, looks).is_over(RunKey("inst", run))


def test_an_acquisition_is_over_when_the_next_one_began() -> None:
    assert is_over(Clocked(a=0, b=600))
    assert not is_over(Clocked(a=0, b=600), "b")
    assert is_over(Clocked(a=0, b=600, c=1200))


def test_nothing_follows_from_runs_that_come_together() -> None:
    assert not is_over(Clocked(a=0, b=TOGETHER_S - 1))
    assert not is_over(Clocked(a=0, b=600, c=600 + TOGETHER_S - 1))


def test_the_ledger_is_not_asked_for_a_profile_that_does_not_go_by_it() -> None:
    ledger = Clocked(a=0, b=600)
    assert not is_over(ledger, quiet_after_next_s=None)
    assert ledger.asked == 0


@pytest.mark.parametrize(
    ("others_s", "over"),
    [((), False), ((600,), True), ((600, 1200), True), ((TOGETHER_S - 1,), False),
     ((600, 600 + TOGETHER_S - 1), False), ((600, 1200, 1201), True)],
)  # fmt: skip
def test_a_file_is_over_when_one_like_it_came_later_and_alone(
    others_s: tuple[float, ...], over: bool
) -> None:
    ledger = MemoryLedger()
    began_ms = ledger.clock_ms
    absent_ms = dict[str, int]()
    for number, at_s in enumerate((0.0, *others_s)):
        ledger.clock_ms = began_ms + int(at_s * 1000)
        ledger.discover(RUN, [(f"{number}.RAW", PRINT)])
        absent_ms[f"{number}.RAW"] = ledger.clock_ms  # looked for just before it came
    ledger.discover(RUN, [("queue.sld", PRINT)])
    files = NextFiles(ledger, load_profile("ms-thermo", {}), RUN, absent_ms)
    assert files.is_over("0.RAW") is over
    assert not files.is_over("queue.sld")
    assert not files.is_over("unknown.raw")


def test_nothing_follows_from_what_may_have_come_while_nobody_looked() -> None:
    ledger = MemoryLedger()
    began_ms = ledger.clock_ms
    ledger.discover(RUN, [("0.RAW", PRINT)])
    ledger.clock_ms += 600_000
    ledger.discover(RUN, [("1.RAW", PRINT)])
    profile = load_profile("ms-thermo", {})
    for looked_ms, over in ((began_ms, False), (began_ms + 60_000, True)):
        looks = Looks()
        looks.note(RUN, began_ms, ["0.RAW"])
        looks.note(RUN, looked_ms, [])
        looks.note(RUN, ledger.clock_ms, ["1.RAW"])
        files = NextFiles(ledger, profile, RUN, looks.absent_ms(RUN))
        assert files.is_over("0.RAW") is over
    unseen = NextFiles(ledger, profile, RUN, Looks().absent_ms(RUN))
    assert not unseen.is_over("0.RAW"), "an agent that was just started knows nothing"


def test_a_run_that_is_not_on_record_is_not_over() -> None:
    assert not is_over(Clocked(b=600))
