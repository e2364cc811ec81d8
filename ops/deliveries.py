"""Which events could not be delivered, and what does a person do about them?

They are dead letters of their own kind: `--sink` chooses them in the commands of dead letters.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text

from labferry.alerts import Undelivered
from labferry.audit import Act
from labferry.errors import MalformedMessage
from labferry.events import read_event
from labferry.outbox import Delivery, Waiting, again, moved_on
from labferry.ports import Ledger
from labferry.selector import Selector
from ops.consent import consent
from ops.exits import Exit
from ops.shown import counted, instant, terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How a command that changes something is to go about it."""

    dry_run: bool
    yes: bool
    as_json: bool


def chosen_deliveries(ledger: Ledger, selector: Selector) -> list[Waiting]:
    """Return the parked deliveries that are meant; all where nothing is named."""
    now_ms = ledger.now_ms()
    return [one for one in ledger.parked_deliveries() if selector.means_delivery(one, now_ms)]


def undelivered_events(ledger: Ledger) -> Iterator[Undelivered]:
    """Yield the sinks that were not given every event yet."""
    runs = [run for run, _ in ledger.open_outboxes()]
    for sink in ledger.event_sinks():
        waiting = [one for one in ledger.waiting_events(sink, runs) if one.event]
        count = sum(one.count - one.delivery.position for one in waiting)
        why = next((one.delivery.why for one in waiting if one.delivery.why), "")
        if count:
            yield Undelivered(sink=sink, waiting=count, why=why)


def delivery_json(waiting: Waiting) -> dict[str, object]:
    """Return an object of `labferry dead-letters list --json`, under `deliveries`."""
    delivery = waiting.delivery
    return {
        "run": str(waiting.run),
        "sink": waiting.sink,
        "code": delivery.code,
        "why": delivery.why,
        "tries": delivery.tries,
        "unknown": delivery.unknown,
        "first_ms": delivery.first_ms,
        "behind": waiting.count - delivery.position - 1,
        "event": _event(waiting),
    }


def deliveries_view(found: list[Waiting]) -> RenderableType:
    """Return what a person is shown of parked deliveries."""
    count = counted(len(found), "event")
    return Lines(Text(f"{count} could not be delivered", style="bold"), *map(_lines, found), Text())


def _lines(waiting: Waiting) -> RenderableType:
    event, delivery = _event(waiting), waiting.delivery
    what = event.get("id", "no event") if isinstance(event, dict) else "no event"
    behind = waiting.count - delivery.position - 1
    after = f", {behind:,} more wait behind it" if behind else ""
    since = f"since {instant(delivery.first_ms)}" if delivery.first_ms else ""
    return Lines(
        Text(),
        Text.assemble((waiting.sink, "bold cyan"), "  ", (delivery.code, "bold red"), f"  {what}"),
        Text(f"  {delivery.tries:,} tries {since}{after}: {delivery.why}"),
        Text(f"  to do   mend {waiting.sink}, then requeue or discard with --sink", style="dim"),
    )


def _event(waiting: Waiting) -> object:
    try:
        return read_event(waiting.event)
    except MalformedMessage:
        return waiting.event


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an operator does with parked deliveries: `word` names it, `become` says what follows."""

    word: str
    become: Callable[[Delivery], Delivery]


REQUEUE = Change(word="Requeue", become=again)
DISCARD = Change(word="Discard", become=moved_on)


def change_deliveries(
    ledger: Ledger, selector: Selector, act: Act, change: Change, how: How
) -> Exit:
    """Show which deliveries are meant, ask, and requeue them or give them up, on record.

    Raises: Refused, LedgerUnavailable.
    """
    found = chosen_deliveries(ledger, selector)
    if not how.as_json:
        shown = deliveries_view(found) if found else Text("No such delivery waits.")
        terminal().print(shown)
    done = 0
    if found and not how.dry_run:
        consent(f"{change.word} {len(found):,}?", yes=how.yes)
        done = sum(_changed(ledger, one, act, change) for one in found)
    if how.as_json:
        print(json.dumps({"deliveries": [delivery_json(one) for one in found], "done": done}))
    return Exit.DONE if how.dry_run or done == len(found) else Exit.PARTIAL


def _changed(ledger: Ledger, waiting: Waiting, act: Act, change: Change) -> bool:
    # The act first: what is on record and was not done is found parked still.
    event = _event(waiting)
    what = event["id"] if isinstance(event, dict) else "what is no event"
    said = replace(act, what=f"{act.what} the delivery to {waiting.sink} of {what}")
    ledger.record_act(waiting.run, said)
    after = change.become(waiting.delivery)
    return ledger.swap_delivery(waiting.run, waiting.sink, waiting.delivery, after)
