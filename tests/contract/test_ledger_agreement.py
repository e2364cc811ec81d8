"""Do the ledger in memory and the one on a server answer alike, whatever they are asked?

A walk at random through all calls, on both at once: the same answers, the same records but for
their instants. What is proven on the one then holds for the other.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from labferry.errors import Fenced
from labferry.identity import RunKey
from labferry.records import Completion, Fingerprint, Lane, Note, Part, Step, Upload
from labferry.states import MOVE_OF, Actor, Event
from tests.ledger_told import plain, renumbered, told
from tests.ledger_world import EVIDENCE, OTHER, RUN, World, memory_world, server_world

PATHS = [f"f{i}" for i in range(10)]
RUNS = (RUN, RUN, RUN, OTHER)
WAITS_MS = (1, 1_000, 30_000, 61_000, 400_000)
BY_MOVE = [event for event in Event if event not in (Event.DISCOVER, Event.CLAIM, Event.RETRY)]
#: A third of the moves are these, so that files get somewhere.
ONWARD = [Event.SETTLE, Event.VERIFY, Event.FAIL, Event.YIELD, Event.STORE, Event.EXPIRE]


class Walk:
    """Draws one call at a time; the same one is made of every ledger."""

    def __init__(self, seed: int, first: World) -> None:
        self.dice = random.Random(seed)
        self._first = first
        self._steps = [
            self.discover, self.move, self.move, self.move, self.claim, self.claim, self.take,
            self.take_due, self.take_unclaimed, self.renew, self.seal, self.complete, self.retire,
            self.save_upload, self.write_reasons, self.pass_ms,
        ]  # fmt: skip

    def next(self) -> Callable[[World], Any]:
        return self.dice.choice(self._steps)(self.dice.choice(RUNS))

    def discover(self, run: RunKey) -> Callable[[World], Any]:
        seen = [(path, self._print()) for path in self.dice.choices(PATHS, k=3)]
        return lambda world: world.ledger.discover(run, seen)

    def move(self, run: RunKey) -> Callable[[World], Any]:
        event = self.dice.choice(ONWARD if self.dice.random() < 0.5 else BY_MOVE)
        steps = [self._step(run, event, path) for path in self.dice.choices(PATHS, k=4)]
        if MOVE_OF[event].actor is Actor.OPERATOR:
            return lambda world: [_by_hand(world, run, event, step) for step in steps]
        if not (MOVE_OF[event].needs_token or event in (Event.EXPIRE, Event.EXHAUST)):
            return lambda world: world.apply(event, steps, run)
        tokens = self._tokens(run, [step.path for step in steps])
        return lambda world: world.apply(
            event,
            [
                replace(step, token=token)
                for step, (_, token) in zip(steps, tokens(world), strict=True)
            ],
            run,
        )

    def claim(self, run: RunKey) -> Callable[[World], Any]:
        bundle, paths = self.dice.randint(0, 30), self.dice.choices(PATHS, k=4)
        return lambda world: plain(world.ledger.claim(run, bundle, paths, 3))

    def take(self, run: RunKey) -> Callable[[World], Any]:
        lane = self.dice.choice(list(Lane))
        limits = {
            "bundles": self.dice.randint(1, 3),
            "max_files": self.dice.randint(1, 3),
            "max_bytes": self.dice.choice([1, 5_000, 10**9]),
        }
        return lambda world: world.ledger.take(run, lane, **limits)

    def take_due(self, run: RunKey) -> Callable[[World], Any]:
        # All of them: which of several comes first hangs on the millisecond.
        return lambda world: renumbered(world.ledger.take_due(run, 100))

    def take_unclaimed(self, run: RunKey) -> Callable[[World], Any]:
        return lambda world: renumbered(world.ledger.take_unclaimed(run, 100))

    def renew(self, run: RunKey) -> Callable[[World], Any]:
        held = self._tokens(run, self.dice.choices(PATHS, k=3))
        return lambda world: world.ledger.renew(run, held(world))

    def seal(self, run: RunKey) -> Callable[[World], Any]:
        last, count = self.dice.choices(PATHS, k=2), self.dice.randint(0, 8)
        return lambda world: (world.ledger.seal(run, last, count), world.ledger.pending_last(run))

    def complete(self, run: RunKey) -> Callable[[World], Any]:
        facts = self._first.ledger.find_facts(run)
        if facts is None:
            return lambda world: world.ledger.find_facts(run)
        completion = Completion(
            generation=facts.generation - self.dice.randint(0, 1),
            file_count=self.dice.randint(0, 10),
            manifest_key="m",
            manifest_digest="d",
            marker_key="k",
            event="e",
        )
        return lambda world: (world.ledger.complete(run, completion), world.outbox(run))

    def retire(self, run: RunKey) -> Callable[[World], Any]:
        return lambda world: world.ledger.retire(run)

    def save_upload(self, run: RunKey) -> Callable[[World], Any]:
        path = self.dice.choice(PATHS)
        file, tokens = run.file(path), self._tokens(run, [path])
        upload = Upload(attempt_token="t", part_size=5, fingerprint=self._print())
        parts = {self.dice.randint(1, 9): Part(1, 2, "e")}

        def save(world: World) -> Any:
            ((_, token),) = tokens(world)
            try:
                world.ledger.save_upload(file, token, upload)
                world.ledger.save_parts(file, token, parts)
            except Fenced:
                return "fenced"
            return world.ledger.find_upload(file)

        return save

    def write_reasons(self, run: RunKey) -> Callable[[World], Any]:
        count = self.dice.randint(1, 4)

        def write(world: World) -> Any:
            written = world.ledger.reasons_due(run, 0, count)
            world.ledger.reasons_written(run, written)
            return [path for path, _ in written]

        return write

    def pass_ms(self, run: RunKey) -> Callable[[World], Any]:
        wait_ms = self.dice.choice(WAITS_MS)
        return lambda world: world.pass_ms(wait_ms)

    def _step(self, run: RunKey, event: Event, path: str) -> Step:
        record = self._first.ledger.find_record(run.file(path))
        same = record is not None and self.dice.random() < 0.8
        return Step(
            path=path,
            fingerprint=record.fingerprint if record and same else self._print(),
            lane=self.dice.choice([None, *Lane]),
            evidence=EVIDENCE,
            delay_ms=self.dice.choice([None, 20_000]),
            note=Note(event=event, kind="k", code="c", message="m") if self.dice.random() < 0.3
            else None,
        )  # fmt: skip

    def _tokens(
        self, run: RunKey, paths: Sequence[str]
    ) -> Callable[[World], list[tuple[str, int]]]:
        """Return what shows each file's newest token, or one that is not; every ledger has its
        own."""
        stale = [(path, self.dice.random() < 0.2) for path in paths]
        return lambda world: [(path, max(0, world.token(path, run) - off)) for path, off in stale]

    def _print(self) -> Fingerprint:
        return Fingerprint(self.dice.randint(0, 9_999), self.dice.randint(0, 9), 3, 4)


def _by_hand(world: World, run: RunKey, event: Event, step: Step) -> Any:
    fields = {"fingerprint": step.fingerprint, "lane": step.lane, "note": step.note}
    return world.move(event, step.path, run=run, **fields)


@pytest.mark.parametrize("seed", range(8))
def test_both_ledgers_answer_alike(ledger_url: str, seed: int) -> None:
    worlds = [memory_world(), server_world(ledger_url)]
    walk = Walk(seed, worlds[0])
    for number in range(150):
        call = walk.next()
        answers = [call(world) for world in worlds]
        assert answers[0] == answers[1], (number, call)
        if number % 10 == 0:
            known = [told(world, PATHS) for world in worlds]
            assert known[0] == known[1], (number, call)
    assert told(worlds[0], PATHS) == told(worlds[1], PATHS)
