"""Are the promises kept after every step, whatever the order of steps, deaths and acts?

Hypothesis draws what agents, workers, sweeps, operators, clocks and ill luck do next. The same is
done to two laboratories, one on the ledger in memory and one on a real server: they must tell the
same, and both must keep every promise (tests/promises.py) after every step. At the end of each
story everybody goes on until nothing moves, and nothing may be left behind.

LABFERRY_SEED, LABFERRY_MODEL_STORIES: another seed, more stories. LABFERRY_SHRINK=1 looks for a
short story that fails as well.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from labferry.records import Outcome
from labferry.states import Event
from tests.ledger_indexes import indexes
from tests.ledger_told import told
from tests.ledger_world import memory_world, server_world
from tests.model_lab import LARGE, NOTHING, RUN, UNIT_S, Blow, Lab
from tests.promises import Promises, left_over

SEED = int(os.environ.get("LABFERRY_SEED", "1125"))
STORIES = int(os.environ.get("LABFERRY_MODEL_STORIES", "25"))
STEPS = 40
#: To make a story that fails shorter takes minutes.
PHASES = [Phase.generate, *([Phase.shrink] if os.environ.get("LABFERRY_SHRINK") else [])]
#: Rounds in which everything must come to rest: waits, attempts and generations are few.
ROUNDS = 30

NAMES = ["a", "run.log", "x.tmp", "d/c", *(f"{number}.raw" for number in range(8))]
MARKER = "done.txt"
names = st.sampled_from(NAMES)
BODIES = {
    "nothing": b"",
    "bytes": b"bytes",
    "other bytes": b"other bytes",
    "two parts": b"2" * (LARGE + 1),
    "three parts": b"3" * (3 * LARGE),
}
bodies = st.sampled_from(list(BODIES))
index = st.integers(0, 7)
strikes = st.builds(
    Blow,
    port=st.sampled_from(["ledger", "store"]),
    nth=st.sampled_from([1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 8, 12]),
    when=st.sampled_from(["before", "after"]),
    kind=st.sampled_from(["died", "paused", "unheard"]),
)
blows = st.just(NOTHING) | strikes


ACTS = [*[Lab.release] * 4, *[Lab.discard] * 2, Lab.hold, Lab.close]
LUCK = ["the broker is flushed", "an object is stolen", "somebody writes under a stale token"]


def write_stale(lab: Lab) -> None:
    assert set(lab.write_stale()) <= {Outcome.FENCED}


#: What happened in all stories; one in which nothing happens proves nothing.
SEEN: Counter[str] = Counter()
HAPPENS = {Event.EXPIRE, Event.ABANDON, Event.CONFLICT, Event.DISCARD, "marker"}


class Story(RuleBasedStateMachine):
    """What happens to both laboratories, which look at the same share."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__()
        with redis.Redis.from_url(url) as client:
            client.flushdb()
        shutil.rmtree(folder, ignore_errors=True)
        self.run = folder / RUN.run
        self.run.mkdir(parents=True)
        self.labs = [Lab(world, folder) for world in (memory_world(), server_world(url))]
        self.promises = [Promises() for _ in self.labs]

    def both(self, what: Callable[[Lab], Any]) -> None:
        answers = [what(lab) for lab in self.labs]
        assert answers[0] == answers[1]

    # -- instruments

    @initialize(body=bodies)
    def the_run_begins(self, body: str) -> None:
        self.write(NAMES[0], body)
        self.both(Lab.scan)

    @rule(name=names, body=bodies)
    def write(self, name: str, body: str) -> None:
        path = self.run / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(BODIES[body])

    @rule(name=names, ends=st.booleans())
    def delete_or_end(self, name: str, ends: bool) -> None:
        if ends:
            self.end_the_run()
        else:
            (self.run / name).unlink(missing_ok=True)

    def end_the_run(self) -> None:
        (self.run / "x.tmp").unlink(missing_ok=True)
        (self.run / MARKER).touch()

    # -- programs

    @rule(blow=blows, program=st.sampled_from([Lab.scan, Lab.sweep, Lab.complete]))
    def run_one(self, blow: Blow, program: Callable[[Lab, Blow], str]) -> None:
        self.both(lambda lab: program(lab, blow))

    @rule(name=names, body=bodies, blow=strikes, changes=st.booleans(), again=st.booleans())
    def upload(self, name: str, body: str, blow: Blow, changes: bool, again: bool) -> None:
        self.write(name, body)
        self.settle(1)
        if changes:
            self.write(name, "other bytes")
        self.both(lambda lab: lab.deliver(0, blow, of=name, again=again))

    @rule(which=index, blow=strikes)
    def upload_again(self, which: int, blow: Blow) -> None:
        self.time_passes(2)
        self.both(lambda lab: (lab.sweep(), lab.deliver(which, blow)))

    @rule()
    def everybody_works(self) -> None:
        self.settle(1)
        self.deliver_all()
        self.both(lambda lab: (lab.sweep(), lab.tell()))

    @rule(units=st.sampled_from([1, 2, 4, 20]))
    def time_passes(self, units: int) -> None:
        self.both(lambda lab: lab.world.pass_ms(units * UNIT_S * 1000))

    def settle(self, units: int) -> None:
        self.both(lambda lab: (lab.scan(), lab.world.pass_ms(units * UNIT_S * 1000), lab.scan()))

    def deliver_all(self) -> None:
        self.both(lambda lab: [lab.deliver(0) for _ in range(len(lab.wakeups.bundles))])

    # -- people, and ill luck

    @rule(which=index)
    def replay(self, which: int) -> None:
        self.both(lambda lab: lab.send_again(which))

    @rule(act=st.sampled_from(ACTS))
    def somebody_acts(self, act: Callable[[Lab], str]) -> None:
        self.both(act)

    @rule(which=index, luck=st.sampled_from(LUCK))
    def ill_luck(self, which: int, luck: str) -> None:
        if luck != "an object is stolen":
            self.both(Lab.lose_messages if luck == "the broker is flushed" else write_stale)
            return
        self.both(lambda lab: (lab.steal(which), lab.complete()))
        for lab, promises in zip(self.labs, self.promises, strict=True):
            promises.stolen |= set(promises.objects) - set(lab.store.objects)

    # -- what must hold

    @invariant()
    def every_promise_is_kept_and_both_tell_the_same(self) -> None:
        for lab, promises in zip(self.labs, self.promises, strict=True):
            if lab.ledger.find_facts(RUN):
                promises.demand(lab, indexes(lab.world, RUN))
        one, other = (told(lab.world, [*NAMES, MARKER]) for lab in self.labs)
        assert one == other

    def teardown(self) -> None:
        """Everybody goes on and nothing ill happens: all comes to rest, and nothing is left."""
        self.end_the_run()
        self.both(Lab.release)
        for number in range(ROUNDS):
            self.settle(3)
            self.both(Lab.sweep)
            self.deliver_all()
            self.both(Lab.complete)
            self.both(Lab.tell)
            self.every_promise_is_kept_and_both_tell_the_same()
            self.both(left_over)
            if not left_over(self.labs[0]):
                self.count()
                return
            if number > ROUNDS // 2:  # what is left waits for a person
                self.both(Lab.discard)
                self.both(Lab.close)
        raise AssertionError(left_over(self.labs[0]))

    def count(self) -> None:
        """Note what happened in this story."""
        lab = self.labs[0]
        for path, _ in lab.ledger.records(RUN):
            SEEN.update(note.event for note in lab.ledger.history(RUN.file(path)))
        SEEN.update("marker" for _ in lab.ledger.markers(RUN))
        SEEN.update("one after the first" for one in lab.ledger.markers(RUN) if one > 1)


def test_the_promises_are_kept_in_every_order_of_events(tmp_path: Path, ledger_url: str) -> None:
    print(f"LABFERRY_SEED={SEED}, {STORIES} stories of {STEPS} steps")

    @seed(SEED)
    def story() -> Story:
        return Story(tmp_path / "share", ledger_url)

    run_state_machine_as_test(
        story,  # type: ignore[arg-type]  # it takes a function, too
        settings=settings(
            max_examples=STORIES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=PHASES,
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(dict(sorted(SEEN.items())))
    assert set(SEEN) >= HAPPENS
