"""How are files sent in again? Shown first, then as a batch that the sweep carries out.

The batch is in the ledger: it goes on without the terminal it was begun at, and any other one can
watch or cancel it.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from labferry.archive_lines import ArchivedFile
from labferry.audit import Act
from labferry.batch import PER_SECOND, Batch, Cause, Item, Stage
from labferry.chosen import chosen_letters
from labferry.compaction import Records
from labferry.dead_letter import DeadLetter, find_letter
from labferry.errors import NotFound, Refused
from labferry.identity import FileKey, Layout
from labferry.ledger import open_ledger
from labferry.ports import Ledger
from labferry.s3.store import open_store
from labferry.selector import Selector
from labferry.settings import Settings
from labferry.states import MOVE_OF, Event, State
from ops.consent import consent
from ops.exits import Exit
from ops.losses import Losses, put_on_record
from ops.preview import Chosen, Forecast, Prediction, Preview
from ops.preview_view import show_forecasts
from ops.shown import counted
from ops.watch_batch import watch

#: A letter's cause is the newest line of its history.
_CAUSE = 1
#: In this order files are sent: the first of a cause is its canary, and should tell something.
_TURN = (Prediction.UPLOAD, Prediction.UNKNOWN, Prediction.NO_OP, Prediction.FAIL)
#: What a prediction alone decides.
_STAGES = {Prediction.FAIL: Stage.LEFT, Prediction.NO_OP: Stage.NO_OP}
_REPLAYABLE = MOVE_OF[Event.REPLAY].sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the operator wants: `given_up` takes in files that were discarded, or lost."""

    selector: Selector
    act: Act
    given_up: bool
    dry_run: bool = False
    yes: bool = False
    detach: bool = False
    as_json: bool = False
    per_second: int = PER_SECOND


def replay(settings: Settings, wish: Wish) -> Exit:
    """Show what would become of the chosen files, ask, and send them in again.

    Raises: SettingsError when nothing is chosen, Refused, NotFound, LedgerUnavailable.
    """
    wish.selector.require()
    ledger = open_ledger(settings.ledger)
    store = open_store(settings.store)
    layout = Layout(settings.store.prefix)
    records = Records(ledger=ledger, store=store, layout=layout)
    losses = Losses(ledger=ledger, store=store, layout=layout, records=records)
    preview = Preview(settings, ledger, store)
    chosen = list({one.file: one for one in _chosen(ledger, records, losses, wish)}.values())
    obstacles = preview.obstacles(one.file.run for one in chosen) if chosen else []
    forecasts = preview.forecasts(chosen)
    if not wish.as_json:
        show_forecasts(forecasts, obstacles)
    elif wish.dry_run or not forecasts:
        print(json.dumps(_forecasts_json(forecasts, obstacles)))
    if wish.dry_run or not forecasts:
        return Exit.DONE
    count = sum(one.prediction is not Prediction.FAIL for one in forecasts)
    consent(f"Send in {count:,} of {counted(len(forecasts))} again?", yes=wish.yes)
    _take_back(records, forecasts)
    put_on_record(ledger, [lost for one in forecasts if (lost := one.chosen.lost)])
    batch = begin(ledger, wish, forecasts)
    if wish.detach:
        _say_begun(batch, as_json=wish.as_json)
        return Exit.DONE
    return watch(ledger, batch, as_json=wish.as_json)


def _take_back(records: Records, forecasts: Sequence[Forecast]) -> None:
    """Put the records on the ledger again that are to be moved and were put away."""
    chosen = (one.chosen for one in forecasts)
    for run in {one.file.run for one in chosen if one.record.state in _REPLAYABLE}:
        records.take_back(run)


def begin(ledger: Ledger, wish: Wish, forecasts: Sequence[Forecast]) -> Batch:
    """Record a batch of the files; the sweep carries it out."""
    name = ledger.new_batch_id()
    causes = _causes(forecasts)
    what = f"{wish.act.what}: batch {name} of {counted(len(forecasts))}"
    ledger.record_act(None, replace(wish.act, what=what))
    batch = Batch(
        id=name,
        act=wish.act,
        created_ms=ledger.now_ms(),
        causes=tuple(causes.values()),
        per_second=wish.per_second,
    )
    return ledger.open_batch(batch, list(_items(forecasts, list(causes))))


def _causes(forecasts: Sequence[Forecast]) -> dict[str, Cause]:
    counts = Counter(one.chosen.fingerprint for one in forecasts)
    code_of = {one.chosen.fingerprint: one.chosen.code for one in forecasts}
    return {
        fingerprint: Cause(fingerprint=fingerprint, code=code_of[fingerprint], count=count)
        for fingerprint, count in counts.items()
    }


def _items(forecasts: Sequence[Forecast], causes: Sequence[str]) -> Iterator[Item]:
    place = {fingerprint: number for number, fingerprint in enumerate(causes)}
    in_turn = sorted(forecasts, key=lambda one: (_TURN.index(one.prediction), one.chosen.file))
    for order, one in enumerate(in_turn):
        record = one.chosen.record
        item = Item(
            file=one.chosen.file,
            cause=place[one.chosen.fingerprint],
            order=order,
            series=record.series,
            state=record.state,
            revised=one.revised,
        )
        stage = _STAGES.get(one.prediction)
        # The same object is there: that is a no-op for the bucket, and still to be proven.
        is_to_prove = stage is Stage.NO_OP and record.state in _REPLAYABLE
        yield item if stage is None or is_to_prove else item.end(stage, one.why)


def _chosen(ledger: Ledger, records: Records, losses: Losses, wish: Wish) -> Iterator[Chosen]:
    """Yield the files that are meant; one may come twice."""
    selector, now_ms = wish.selector, ledger.now_ms()
    if selector.file is not None and wish.given_up:
        yield _named(ledger, records, losses, selector.file)
        return
    for letter in chosen_letters(ledger, selector, now_ms=now_ms, notes=_CAUSE):
        yield _of_letter(letter)
    if wish.given_up:
        for letter in _discarded(ledger, records, selector):
            if selector.matches(letter, now_ms):
                yield _of_letter(letter)
        for lost in losses.of_run(selector.run) if selector.run else ():
            if selector.matches(lost, now_ms):
                yield replace(_of_letter(lost), lost=lost)


def _discarded(ledger: Ledger, records: Records, selector: Selector) -> Iterator[DeadLetter]:
    for run in filter(selector.may_be_in, ledger.runs()):
        facts = ledger.find_facts(run)
        if facts is None or not facts.counts[State.DISCARDED]:
            continue
        for one in records.files(facts):
            if one.record.state is State.DISCARDED:
                letter = find_letter(run.file(one.path), one.record, one.history)
                if letter is not None:
                    yield letter


def _named(ledger: Ledger, records: Records, losses: Losses, file: FileKey) -> Chosen:
    facts = ledger.find_facts(file.run)
    if facts is not None and facts.archive is not None:
        one = records.get(file, facts.archive)
    elif (found := ledger.find_record(file)) is not None:
        one = ArchivedFile(path=file.path, record=found, history=tuple(ledger.history(file)))
    else:
        raise NotFound(what=f"the file {file}", step="KEY is INSTRUMENT/RUN/PATH.")
    if lost := losses.of_file(file, one):
        return replace(_of_letter(lost), lost=lost)
    letter = find_letter(file, one.record, one.history)
    return _of_letter(letter) if letter else Chosen(file=file, record=one.record)


def _of_letter(letter: DeadLetter) -> Chosen:
    return Chosen(
        file=letter.file, record=letter.record, fingerprint=letter.fingerprint, code=letter.code
    )


def _forecasts_json(forecasts: Sequence[Forecast], obstacles: Sequence[str]) -> dict[str, object]:
    return {"items": [one.to_json() for one in forecasts], "obstacles": list(obstacles)}


def _say_begun(batch: Batch, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"batch": batch.id}))
    else:
        print(
            f"Batch {batch.id} is on record and goes on by itself. "
            f"See it: labferry replay --watch {batch.id}"
        )


def cancel_batch(ledger: Ledger, name: str, act: Act) -> None:
    """Leave what waits of a batch as it was; what was sent goes on. Raises: NotFound, Refused."""
    batch = _get_going(ledger, name)
    ledger.record_act(None, replace(act, what=f"cancel batch {name}"))
    by = f"{act.actor}: {act.reason}"
    while not ledger.swap_batch(batch, replace(batch, cancelled=by)):
        batch = _get_going(ledger, name)
    waiting = batch.counts.get(Stage.WAITING, 0)
    print(f"Cancelled batch {name}: {counted(waiting, 'waiting file')} left as before.")


def _get_going(ledger: Ledger, name: str) -> Batch:
    """Return a batch that can still be cancelled. Raises: NotFound, Refused."""
    batch = get_batch(ledger, name)
    if batch.is_open and not batch.cancelled:
        return batch
    raise Refused(
        what=f"batch {name}",
        why=f"cancelled by {batch.cancelled}" if batch.is_open else "it has ended",
        step=f"See it: labferry replay --watch {name}",
    )


def get_batch(ledger: Ledger, name: str) -> Batch:
    """Return a batch. Raises: NotFound."""
    batch = ledger.find_batch(name)
    if batch is None:
        raise NotFound(what=f"the batch {name}", step="`labferry replay --list` shows them.")
    return batch


def watch_batch(ledger: Ledger, name: str, *, as_json: bool) -> Exit:
    """Follow a batch to its end. Raises: NotFound."""
    return watch(ledger, get_batch(ledger, name), as_json=as_json)
