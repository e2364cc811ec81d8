"""Which runs are there, how far are they, and which are complete?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from labferry.identity import RunKey
from labferry.ledger.archives import unpack_archive
from labferry.ledger.files import read_records
from labferry.ledger.holds import first_word, names_of_hold, unpack_word
from labferry.ledger.keys import ACTIVE, FINISHED, HOLDS, RUNS, RunKeys, run_keys_of
from labferry.ledger.layout import letters, pack_lane
from labferry.ledger.outboxes import Outboxes
from labferry.ledger.section import LONGEST_CALL_MS
from labferry.ledger.server import Argument, to_ms
from labferry.records import Completion, Lane, RunFacts
from labferry.states import State

#: The fields of a run's meta hash, made once.
_COUNT_OF = {state: f"n:{state.wire}".encode() for state in State}
_BYTES_OF = {state: f"b:{state.wire}".encode() for state in State}
_LANE_LETTERS = tuple(pack_lane(lane).decode() for lane in Lane)
#: Runs read in one round trip.
_FACTS_AT_ONCE = 500
#: States that are not in a manifest, or not yet known to be.
_UNLISTED = letters([State.SKIPPED, State.DISCOVERED, State.DISCARDED])


class Runs(Outboxes):
    """The part of the ledger that holds runs: indexes, counts, seals and markers."""

    def runs(self) -> list[RunKey]:
        """Return every run that is on record, sorted."""
        return _sorted(self._server.ask(self._server.client.smembers, RUNS))

    def active_runs(self) -> list[RunKey]:
        """Return the runs that are not retired, sorted."""
        return _sorted(self._server.ask(self._server.client.zrange, ACTIVE, 0, -1))

    def retire(self, run: RunKey) -> None:
        """Leave a complete run out of the active ones."""
        args: list[Argument] = [str(run), LONGEST_CALL_MS]
        # Retired first: a run that is on neither index keeps its records, and that is all.
        if self._server.script("retire", [ACTIVE], args):
            self._server.script("activate", [FINISHED], [str(run)])

    def find_facts(self, run: RunKey) -> RunFacts | None:
        """Return the run's counts and dates."""
        return next(iter(self.facts_of([run])), None)

    def facts_of(self, runs: Sequence[RunKey]) -> list[RunFacts]:
        """Return the counts and dates of many runs."""
        batches = (runs[i : i + _FACTS_AT_ONCE] for i in range(0, len(runs), _FACTS_AT_ONCE))
        return [facts for batch in batches for facts in self._read_facts(batch)]

    def _read_facts(self, runs: Sequence[RunKey]) -> Iterator[RunFacts]:
        """Yield what is known of runs, all of them asked for in one round trip."""

        def fill(pipe: Any) -> None:
            pipe.time()
            for run in runs:
                keys = RunKeys(run)
                pipe.hgetall(keys.meta)
                pipe.zcard(keys.sent)
                pipe.zcard(keys.reasons)
                pipe.hmget(HOLDS, names_of_hold(run))
                for letter in _LANE_LETTERS:
                    pipe.llen(keys.ready + letter)

        now, *replies = self._server.pipeline(fill)
        count = len(replies) // len(runs)
        for i, run in enumerate(runs):
            meta, *others = replies[i * count : (i + 1) * count]
            if meta:
                yield _facts(run, to_ms(now), meta, others)

    def seal(self, run: RunKey, last: Sequence[str], file_count: int) -> bool:
        """Freeze a run of which all files are settled."""
        keys = RunKeys(run)
        args: list[Argument] = [State.DISCOVERED.wire, State.SKIPPED.wire, file_count, *last]
        return bool(self._server.script("seal", [keys.files, keys.meta, keys.last], args))

    def pending_last(self, run: RunKey) -> list[str]:
        """Return the files that go up after all others and are still discovered."""
        paths = self._server.ask(self._server.client.smembers, RunKeys(run).last)
        found = read_records(self._server, run, sorted(paths))
        return [path for path, record in found if record.state is State.DISCOVERED]

    def complete(self, run: RunKey, completion: Completion) -> bool:
        """Record the marker in the set of markers and its event in the outbox."""
        keys = RunKeys(run)
        args: list[Argument] = [
            completion.generation,
            completion.file_count,
            completion.manifest_key,
            completion.manifest_digest,
            completion.marker_key,
            completion.event,
            _UNLISTED,
        ]
        self._open_outbox(run)
        done = self._server.script("complete", [keys.meta, keys.markers, keys.outbox], args)
        self._open_outbox(run)
        return bool(done)

    def markers(self, run: RunKey) -> set[int]:
        """Return the generations whose completion marker is on record."""
        key = RunKeys(run).markers
        members = self._server.ask(self._server.client.smembers, key)
        return {int(member) for member in members}


def _facts(
    run: RunKey, now_ms: int, meta: Mapping[bytes, bytes], others: Sequence[Any]
) -> RunFacts:
    sent, reasons, holds, *ready = others

    def number(field: bytes) -> int:
        return int(meta.get(field, 0))

    return RunFacts(
        run=run,
        generation=number(b"generation"),
        opened_ms=number(b"opened"),
        changed_ms=number(b"changed"),
        sealed_ms=number(b"sealed"),
        completed=number(b"completed"),
        marker=meta.get(b"marker", b"").decode(),
        counts={state: number(field) for state, field in _COUNT_OF.items()},
        sizes={state: number(field) for state, field in _BYTES_OF.items()},
        ready=dict(zip(Lane, ready, strict=True)),
        sent=sent,
        reasons_due=reasons,
        hold=first_word(holds),
        closed=unpack_word(meta.get(b"closed")),
        unfinished=b"unfinished" in meta,
        finished_ms=number(b"finished"),
        moves=number(b"moves"),
        sight=meta.get(b"sight", b"").decode(),
        archive=unpack_archive(meta.get(b"archive")),
        now_ms=now_ms,
    )


def _sorted(members: Iterable[bytes]) -> list[RunKey]:
    return sorted(run_keys_of(members))
