"""Does the overview name what an instrument is about, in the fixed form?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from labferry.breakers import Breaker, Conditions, Phase
from labferry.dead_letter import DeadFile
from labferry.errors import NotFound, SettingsError
from labferry.failures import Cause
from labferry.identity import RunKey
from labferry.passes import Pass, Space, Waiting
from labferry.records import Note, RunFacts
from labferry.settings_watching import MonitorSettings
from labferry.states import Event, State
from labferry.tallies import Tallies
from labferry.throttle import Pace
from labferry.turns import Turn, rank_of
from labferry.word import Word
from ops.causes import LOOKED_AT
from ops.condition import Condition
from ops.overview import QUIET_SHOWN, Rules, read_overview
from ops.run_view import overview_view
from tests.memory_ledger import MemoryLedger
from tests.unit.labferry.records_by_hand import record
from tests.unit.ops.run_facts import run_facts

#: What agents told, at the ledger's beginning of time.
SEEN = Pass(instrument="scope", host="beside", at_ms=-5000, due_ms=5000)
SILENT = replace(SEEN, at_ms=-7_200_000, due_ms=1)
GONE = replace(SEEN, away="The share /mnt/scope is unavailable: the root is empty.")
LACKING = Waiting(
    run="scope/run 1", lacks=("marker: no CopyComplete.txt; there is RTAComplete.txt",)
)
STUCK = Waiting(run="scope/run 1", stuck=("a.part has a temporary name",))


class Known(MemoryLedger):
    """A ledger that knows these runs."""

    def __init__(self, *facts: RunFacts, passes: Sequence[Pass] = ()) -> None:
        super().__init__()
        self._facts = {one.run: one for one in facts}
        self._seen = list(passes)
        self.moved_ms = self.waiting_ms = 0
        self.have_to_send: dict[str, Turn] = {}
        self.held: dict[str, Word] = {}
        self.breakers: tuple[Breaker, ...] = ()
        self.paces: tuple[Pace, ...] = ()

    def now_ms(self) -> int:
        return max((facts.now_ms for facts in self._facts.values()), default=0)

    def passes(self) -> list[Pass]:
        return self._seen

    def turns(self) -> dict[str, Turn]:
        return self.have_to_send

    def conditions(self) -> Conditions:
        return Conditions(now_ms=0, breakers=self.breakers, paces=self.paces)

    def holds(self) -> dict[str, Word]:
        return self.held

    def tallies(self) -> Tallies:
        return Tallies(moved_ms={"scope": self.moved_ms})

    def waiting_since(self, runs: Sequence[RunKey]) -> int:
        return self.waiting_ms

    def dead_since(self, runs: Sequence[RunKey]) -> int:
        return int(bool(runs))

    def runs(self) -> list[RunKey]:
        return sorted(self._facts)

    def find_facts(self, run: RunKey) -> RunFacts | None:
        return self._facts.get(run)

    def facts_of(self, runs: Sequence[RunKey]) -> list[RunFacts]:
        return [self._facts[run] for run in runs]

    def dead_files(self, run: RunKey, *, notes: int = 0) -> Iterator[DeadFile]:
        """Yield 12 dead letters, two causes, when any is counted."""
        if self._facts[run].counts[State.QUARANTINED]:
            for number, code in enumerate([*["EACCES"] * 10, "bad_name", "bad_name"]):
                yield _dead(f"d/{number}", code)


def _dead(path: str, code: str) -> DeadFile:
    note = Note(event=Event.REFUSE, kind="permanent", code=code, message=f"{path}: no")
    return DeadFile(path=path, since_ms=1, record=record(State.QUARANTINED), notes=(note,))


@pytest.mark.parametrize(
    ("facts", "condition"),
    [
        (run_facts(verified=3), Condition.IDLE),
        (run_facts(verified=3, skipped=2, discarded=1), Condition.IDLE),
        (run_facts(discovered=1, verified=3), Condition.ARRIVING),
        (run_facts(eligible=1, discovered=1), Condition.WORKING),
        (run_facts(uploading=1, discovered=1), Condition.WORKING),
        (run_facts(uploading=1, failed=1), Condition.RETRYING),
        (run_facts(held=1), Condition.RETRYING),
        (run_facts(quarantined=1, failed=1, uploading=1), Condition.ATTENTION),
    ],
)
def test_the_gravest_condition_that_holds_is_named(facts: RunFacts, condition: Condition) -> None:
    (status,) = read_overview(Known(facts), [], None).instruments
    assert status.condition is condition


MINUTE_MS = 60_000


def at(minutes: int, **counts: Any) -> RunFacts:
    """A run that changed at the beginning, seen so many minutes later."""
    return replace(run_facts(**counts), now_ms=minutes * MINUTE_MS)


def runs_shown(ledger: Known, run: str | None = None) -> list[dict[str, Any]]:
    """Return the runs of `labferry status --json`."""
    shown: Any = read_overview(ledger, [], run).to_json()
    return list(shown["runs"])


def named(ledger: Known) -> tuple[Condition, str]:
    (status,) = read_overview(ledger, [], None).instruments
    return status.condition, status.why


@pytest.mark.parametrize("counts", [{"eligible": 1}, {"uploading": 1}, {"uploaded": 1}])
def test_what_could_go_and_did_not_for_long_is_hung(counts: dict[str, int]) -> None:
    hung = (Condition.HUNG, "nothing moved for 11:00, named after 10:00")
    assert named(Known(at(11, **counts))) == hung
    assert named(Known(at(10, **counts)))[0] is Condition.WORKING


@pytest.mark.parametrize("sign", ["moved_ms", "waiting_ms"])
def test_what_moved_or_came_just_now_is_not_hung(sign: str) -> None:
    ledger = Known(at(30, eligible=1))
    setattr(ledger, sign, 25 * MINUTE_MS)
    assert named(ledger)[0] is Condition.WORKING


def test_what_only_waits_for_its_due_time_is_not_hung() -> None:
    assert named(Known(at(300, failed=1, held=1)))[0] is Condition.RETRYING


def test_what_a_person_holds_is_not_hung() -> None:
    word = Word(actor="ada", reason="cleaning", at_ms=1)
    assert named(Known(replace(at(300, eligible=1), hold=word)))[0] is Condition.WORKING


@pytest.mark.parametrize(
    ("name", "condition"),
    [("endpoint:x", Condition.WORKING), ("share:scope@host", Condition.WORKING),
     ("share:other@host", Condition.HUNG)],
)  # fmt: skip
def test_what_a_breaker_holds_is_not_hung(name: str, condition: Condition) -> None:
    ledger = Known(at(300, eligible=1))
    ledger.breakers = (
        Breaker(
            name=name,
            cause=Cause(name.partition(":")[0]),
            phase=Phase.OPEN,
            code="c",
            message="m",
            since_ms=0,
            at_ms=0,
        ),
    )
    assert named(ledger)[0] is condition


def test_an_endpoint_that_allows_less_than_half_makes_it_slow() -> None:
    ledger = Known(at(1, eligible=1))
    ledger.paces = (Pace(name="x", share=0.25, at_ms=0, code="SlowDown", message="m"),)
    why = "the endpoint allows 25% of the threads, named below 50%"
    assert named(ledger) == (Condition.SLOW, why)
    ledger.paces = (replace(ledger.paces[0], share=0.5),)
    assert named(ledger)[0] is Condition.WORKING


def test_a_file_that_waits_for_an_hour_makes_it_lag() -> None:
    ledger = Known(at(61, eligible=1))
    ledger.moved_ms, ledger.waiting_ms = 60 * MINUTE_MS, 1
    assert named(ledger)[0] is Condition.LAGGING
    ledger.waiting_ms = 2 * MINUTE_MS
    assert named(ledger)[0] is Condition.WORKING


def test_the_thresholds_are_settings() -> None:
    rules = Rules(limits=MonitorSettings(hung_s=5))
    (status,) = read_overview(Known(at(1, eligible=1)), [], None, rules).instruments
    assert status.condition is Condition.HUNG


@pytest.mark.parametrize(
    ("told", "counts", "condition"),
    [
        (SEEN, {"verified": 3}, Condition.IDLE),
        (SILENT, {"verified": 3}, Condition.UNWATCHED),
        (GONE, {"discovered": 3}, Condition.AWAY),
        (replace(SEEN, waiting=(STUCK,)), {"discovered": 3}, Condition.STUCK),
        # The run went on since: what an agent told of it once is no news.
        (replace(SEEN, waiting=(STUCK,)), {"verified": 3, "sealed_ms": 1}, Condition.IDLE),
        (SILENT, {"quarantined": 1}, Condition.ATTENTION),
    ],
    ids=["idle", "scanner stopped", "share away", "stuck", "stuck before", "a person first"],
)
def test_an_instrument_that_is_silent_says_why(
    told: Pass, counts: dict[str, Any], condition: Condition
) -> None:
    facts = replace(run_facts(**counts), now_ms=2)
    (status,) = read_overview(Known(facts, passes=[told]), [], None).instruments
    assert status.condition is condition
    assert bool(status.why) == (condition is not Condition.IDLE)


def test_an_open_run_says_what_it_waits_for() -> None:
    told = [replace(SEEN, waiting=(LACKING,))]
    (run,) = runs_shown(Known(run_facts(verified=3), passes=told), "scope/run 1")
    assert run["waits_for"] == ("marker: no CopyComplete.txt; there is RTAComplete.txt",)
    sealed = read_overview(Known(run_facts(verified=3, sealed_ms=1), passes=told), [], None)
    assert not sealed.waiting


def test_the_profile_by_which_an_instrument_is_looked_at_is_shown() -> None:
    rules = Rules(profiles={"scope": "microscopy-czi"})
    shown: Any = read_overview(Known(run_facts()), [], None, rules).to_json()
    assert shown["instruments"][0]["profile"] == "microscopy-czi"


def test_the_backlog_is_what_is_not_at_rest() -> None:
    facts = run_facts(verified=9, skipped=9, quarantined=9, discovered=1, eligible=2, failed=4)
    (status,) = read_overview(Known(facts), [], None).instruments
    assert (status.backlog, status.backlog_bytes) == (7, 7000)


def test_an_instrument_without_a_run_is_shown_all_the_same() -> None:
    overview = read_overview(Known(run_facts("b/run")), ["a"], None)
    assert [status.instrument for status in overview.instruments] == ["a", "b"]
    assert overview.instruments[0].condition is Condition.IDLE


def test_the_json_has_the_fixed_form() -> None:
    facts = run_facts(
        verified=2, sealed_ms=1, completed=1, marker="runs/scope/run 1/1/complete.json"
    )
    shown: Any = read_overview(Known(facts), [], None).to_json()
    assert shown["instruments"] == [
        {
            "instrument": "scope",
            "condition": "idle",
            "why": None,
            "backlog": 0,
            "backlog_bytes": 0,
            "waits_s": 0,
            "runs": 1,
            "profile": None,
            "hold": None,
            "watch": "unknown",
            "looked_ms": None,
            "share_free_bytes": None,
            "share_total_bytes": None,
            "share_full_in_s": None,
            "goes_first": False,
        }
    ]
    (run,) = shown["runs"]
    assert set(run) == {"run", "state", "generation", "files", "bytes", "marker", "causes"}
    assert run["run"] == "scope/run 1"
    assert run["state"] == "complete"
    assert run["generation"] == 1
    assert set(run["files"]) == set(run["bytes"]) == {str(state) for state in State}
    assert run["files"]["verified"] == 2
    assert run["bytes"]["verified"] == 2000
    assert run["marker"] == "runs/scope/run 1/1/complete.json"
    assert run["causes"] == []


def test_a_run_with_dead_letters_tells_their_causes_the_most_frequent_first() -> None:
    facts = run_facts(verified=3, quarantined=12, sealed_ms=1)
    (run,) = runs_shown(Known(facts))
    assert run["state"] == "incomplete"
    told = [(one["code"], one["count"], one["at_least"]) for one in run["causes"]]
    assert told == [("EACCES", 10, False), ("bad_name", 2, False)]
    assert run["causes"][0]["message"] == "d/0: no"


def test_where_not_all_were_looked_at_a_count_is_a_least_one() -> None:
    facts = run_facts(quarantined=LOOKED_AT + 1, sealed_ms=1)
    (run,) = runs_shown(Known(facts))
    assert all(one["at_least"] for one in run["causes"])


def test_the_marker_of_an_older_generation_is_not_shown_for_the_open_one() -> None:
    facts = run_facts(generation=2, completed=1, discovered=1, marker="runs/scope/run 1/1/x")
    (run,) = runs_shown(Known(facts))
    assert (run["state"], run["marker"]) == ("open", None)


def test_one_run_can_be_asked_for() -> None:
    overview = read_overview(Known(run_facts("a/1"), run_facts("a/2")), ["a"], "a/2")
    assert [str(facts.run) for facts in overview.runs] == ["a/2"]


def test_a_run_may_be_written_as_a_shell_completes_a_folder() -> None:
    overview = read_overview(Known(run_facts("a/1"), run_facts("a/2")), ["a"], "a/2/")
    assert [str(facts.run) for facts in overview.runs] == ["a/2"]


def test_a_run_that_is_not_known_is_not_found() -> None:
    with pytest.raises(NotFound, match="the run a/3 is not known"):
        read_overview(Known(), [], "a/3")


@pytest.mark.parametrize("text", ["a", "a/", "/b", "a/../b", "a b/c", "a/b//", "/"])
def test_what_is_no_run_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(SettingsError, match="is not INSTRUMENT/RUN"):
        read_overview(Known(), [], text)


def test_a_share_that_fills_says_when_it_is_full_and_that_its_files_go_first() -> None:
    space = Space(free_bytes=36 * 10**11, total_bytes=10**13, fills_bytes_per_s=10**8)
    known = Known(run_facts(), passes=[replace(SEEN, space=space)])
    known.have_to_send = {"scope": Turn(rank=rank_of(0, space, 12 * 3600))}
    overview = read_overview(known, [], None)
    shown: Any = overview.instruments[0].to_json()
    assert (shown["share_full_in_s"], shown["goes_first"]) == (36_000, True)
    console = Console(width=80)
    with console.capture() as captured:
        console.print(overview_view(overview))
    text = " ".join(captured.get().split())
    assert "3.6 TB free on its share, 360.0 GB less each hour: full in 10.0 h" in text
    assert "its files go first" in text


def finished(run: str, at_ms: int, **counts: Any) -> RunFacts:
    facts = run_facts(run, sealed_ms=1, completed=1, verified=1, **counts)
    return replace(facts, finished_ms=at_ms)


def test_of_the_runs_that_are_over_and_need_nobody_the_newest_alone_are_shown() -> None:
    quiet = [finished(f"scope/{at_ms:04}", at_ms) for at_ms in range(QUIET_SHOWN + 7)]
    held = replace(finished("scope/held", 0), hold=Word(actor="ada", reason="why", at_ms=1))
    troubled = finished("scope/dead", 0, quarantined=1)
    open_ = run_facts("scope/open", eligible=1)
    overview = read_overview(Known(*quiet, held, troubled, open_), [], None)
    newest = overview.newest()
    assert newest.left_out == 7
    assert {one.run for one in overview.runs} - {one.run for one in newest.runs} == {
        RunKey("scope", f"{at_ms:04}") for at_ms in range(7)
    }
    assert newest.instruments == overview.instruments
    assert read_overview(Known(*quiet[:3]), [], None).newest().left_out == 0
