"""How does a terminal follow a batch of replays, and what does it list of all batches?"""

import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from labferry.batch import GOOD, Batch, Item, Stage
from labferry.clock import SystemClock
from labferry.ports import Ledger
from ops.exits import Exit
from ops.shown import instant, terminal

_POLL_S = 0.5
_PAGE = 1000
#: Files named of those that end well; what does not is named always.
_NAMED = 50
#: After so long without a move, a hint.
_QUIET_S = 20.0


def exit_of_batch(batch: Batch) -> Exit:
    """Return how a command about an ended batch ends."""
    good = sum(batch.counts.get(stage, 0) for stage in GOOD)
    if good == sum(batch.counts.values()):
        return Exit.DONE
    return Exit.PARTIAL if good else Exit.FAILED


def watch(ledger: Ledger, batch: Batch, *, as_json: bool) -> Exit:
    """Report a batch file by file until it has ended. Ctrl-C ends the report, not the batch."""
    watching = _Watch(ledger, batch.id, is_quiet=as_json)
    try:
        batch = watching.follow()
    except KeyboardInterrupt:
        terminal(stderr=True).print(
            f"\nBatch {batch.id} goes on. See it: labferry replay --watch {batch.id}; "
            f"stop it: labferry replay --cancel {batch.id} --reason TEXT"
        )
        raise
    if as_json:
        print(json.dumps(ended_json(ledger, batch)))
    return exit_of_batch(batch)


class _Watch:
    def __init__(self, ledger: Ledger, name: str, *, is_quiet: bool) -> None:
        self._ledger = ledger
        self._name = name
        self._is_quiet = is_quiet
        self._console = terminal(soft_wrap=True)
        self._clock = SystemClock()
        self._seen = self._named = 0
        self._said = ""
        self._moved_s = self._clock.mono_s()

    def follow(self) -> Batch:
        while True:
            batch = self._ledger.find_batch(self._name)
            if batch is None:
                raise RuntimeError(f"batch {self._name} is not on record any more")
            if not self._is_quiet:
                self._report(batch)
            if not batch.is_open:
                return batch
            self._clock.sleep_s(_POLL_S)

    def _report(self, batch: Batch) -> None:
        while items := self._ledger.ended_items(self._name, self._seen, _PAGE):
            self._seen += len(items)
            for item in items:
                self._name_item(item)
        line = summary(batch)
        if line != self._said:
            self._said, self._moved_s = line, self._clock.mono_s()
            self._console.print(line)
        elif self._clock.mono_s() - self._moved_s > _QUIET_S:
            self._moved_s = self._clock.mono_s()
            self._console.print(
                f"Nothing moved for {_QUIET_S:.0f} s. A sweep carries it out, and workers: "
                "`labferry worker` runs both; `labferry status` says what is in the way."
            )

    def _name_item(self, item: Item) -> None:
        if item.stage in GOOD:
            self._named += 1
            if self._named > _NAMED:
                return
        why = f": {item.why}" if item.why else ""
        self._console.print(Text(f"{item.stage:8}  {item.file}{why}"))


def summary(batch: Batch) -> str:
    """Return one line about a batch."""
    counts = [f"{batch.counts[stage]:,} {stage}" for stage in Stage if batch.counts.get(stage)]
    return f"batch {batch.id}, {_condition(batch)}: {', '.join(counts)}"


def _condition(batch: Batch) -> str:
    if batch.cancelled:
        return f"cancelled by {batch.cancelled}"
    if stopped := [cause.stopped for cause in batch.causes if cause.stopped]:
        return f"stopped, {stopped[0]}" if len(batch.causes) == 1 else "stopped in part"
    return "under way" if batch.is_open else "ended"


def list_batches(ledger: Ledger, *, as_json: bool) -> None:
    """Print all batches, the newest first."""
    found = list(reversed(ledger.batches()))
    if as_json:
        print(json.dumps({"batches": [batch_json(one) for one in found]}))
        return
    if not found:
        print("There was no batch yet.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("BATCH", "BEGUN", "WHAT", "HOW IT STANDS"):
        table.add_column(column, overflow="fold")
    for one in found:
        what = f"{one.act.what} {one.act.selector}\n{one.act.actor}: {one.act.reason}"
        table.add_row(one.id, instant(one.created_ms), Text(what), Text(summary(one)))
    terminal().print(table)


def batch_json(batch: Batch) -> dict[str, object]:
    """Return the facts of a batch."""
    return {
        "batch": batch.id,
        **asdict(batch.act),
        "condition": _condition(batch),
        "created_ms": batch.created_ms,
        "ended_ms": batch.ended_ms or None,
        "counts": {str(stage): count for stage, count in batch.counts.items() if count},
        "causes": [asdict(cause) for cause in batch.causes],
    }


def ended_json(ledger: Ledger, batch: Batch) -> dict[str, object]:
    """Return the facts of a batch with what became of each file."""
    return {**batch_json(batch), "items": [_item_json(item) for item in _ended(ledger, batch)]}


def _ended(ledger: Ledger, batch: Batch) -> Iterator[Item]:
    first = 0
    while items := ledger.ended_items(batch.id, first, _PAGE):
        yield from items
        first += len(items)


def _item_json(item: Item) -> dict[str, object]:
    return {"file": str(item.file), "outcome": item.stage, "why": item.why}
