"""How do runs and instruments look on a terminal, 80 columns wide?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from labferry.completion import OVER, RunState, run_state
from labferry.passes import Waiting
from labferry.records import RunFacts
from labferry.states import AT_REST, State
from labferry.word import Word
from ops.causes import Cause
from ops.condition import Condition
from ops.overview import InstrumentStatus, Overview
from ops.pace import Pace
from ops.shown import STYLE_OF_RUN, counted, duration, size

BAR_WIDTH = 22
STYLE_OF_CONDITION = {
    Condition.ATTENTION: "bold red",
    Condition.AWAY: "bold red",
    Condition.UNWATCHED: "bold red",
    Condition.STUCK: "yellow",
    Condition.HUNG: "bold red",
    Condition.SLOW: "yellow",
    Condition.LAGGING: "yellow",
    Condition.RETRYING: "yellow",
    Condition.WORKING: "blue",
    Condition.ARRIVING: "cyan",
    Condition.IDLE: "green",
}
#: What takes longer is not reckoned but guessed.
LONGEST_ETA_S = 100 * 3600
#: Causes of dead letters named of one run; `labferry dead-letters list` has all.
CAUSES_SHOWN = 3
#: Parts of the done rule shown that an open run lacks; `labferry scan` has all.
_LACKS_SHOWN = 2
#: States worth a word of their own, and what a person does about them.
_REMARKS = {
    State.FAILED: "failed, tried again by itself",
    State.HELD: "held until the environment heals",
    State.QUARANTINED: "quarantined, a person decides",
    State.DISCARDED: "discarded",
    State.SKIPPED: "skipped",
}


def overview_view(overview: Overview) -> RenderableType:
    """Return instruments and runs."""
    if not overview.runs:
        nothing = "No run is on record yet. The agent, or `labferry scan`, records what it sees."
        return Group(*_listed(overview), Text(nothing))
    return Group(*_listed(overview))


def watch_view(resting: Overview, moving: Sequence[tuple[RunFacts, Pace]]) -> RenderableType:
    """Return instruments, bars for the runs that move, then those at rest: the screen may end."""
    instruments, runs = replace(resting, runs=()), replace(resting, instruments=())
    return Group(*_listed(instruments), progress_view(moving), Text(), *_listed(runs))


def states_view(facts: RunFacts) -> RenderableType:
    """Return how many files of one run are in which state."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("FILES ARE")
    table.add_column("COUNT", justify="right")
    table.add_column("SIZE", justify="right")
    for state in State:
        if facts.counts[state]:
            table.add_row(state, f"{facts.counts[state]:,}", size(facts.sizes[state]))
    return table


def _listed(overview: Overview) -> Iterator[RenderableType]:
    if overview.instruments:
        yield _instruments(overview.instruments)
        yield Text()
    if overview.runs:
        yield _runs(overview)
        yield Text()
    if overview.left_out:
        yield Text(f"{overview.left_out:,} older runs are over; --all shows them.\n", style="dim")


def to_go_words(status: InstrumentStatus) -> str:
    """Return what is not at rest of an instrument's files."""
    return f"{counted(status.backlog)}, {size(status.backlog_bytes)}" if status.backlog else "-"


def waits_for(waiting: Waiting) -> Sequence[str]:
    """Return what keeps a run from being done: what is stuck, else what it lacks first."""
    return waiting.stuck or waiting.lacks[:_LACKS_SHOWN]


def _instruments(statuses: Sequence[InstrumentStatus]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("INSTRUMENT", overflow="fold")
    table.add_column("CONDITION")
    table.add_column("RUNS", justify="right")
    table.add_column("TO GO", justify="right")
    for status in statuses:
        name = Text(status.instrument)
        name.append(f" {status.profile}" if status.profile else "", style="dim")
        if status.why:
            name.append(f"\n  {status.why}", style="dim")
        if status.hold:
            name.append(f"\n  {hold_words(status.hold)}", style="yellow")
        if status.watched.room:
            name.append(f"\n  {status.watched.room}", style="yellow")
        condition = Text(status.condition, style=STYLE_OF_CONDITION[status.condition])
        table.add_row(name, condition, f"{status.runs:,}", to_go_words(status))
    return table


def _runs(overview: Overview) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("RUN", overflow="fold", ratio=1)
    table.add_column("STATE")
    table.add_column("VERIFIED", justify="right")
    table.add_column("SIZE", justify="right")
    for facts in overview.runs:
        name = Text(str(facts.run))
        for remark in remarks(facts, overview.causes.get(facts.run, ())):
            name.append(f"\n  {remark}", style="dim")
        if waiting := overview.waiting.get(str(facts.run)):
            for remark in waits_for(waiting):
                name.append(f"\n  {remark}", style="yellow" if waiting.stuck else "dim")
        table.add_row(name, state_text(facts), _verified(facts), size(sum(facts.sizes.values())))
    return table


def _verified(facts: RunFacts) -> str:
    done = facts.counts[State.VERIFIED]
    total = sum(facts.counts.values()) - facts.counts[State.SKIPPED]
    return f"{done:,}" if done == total else f"{done:,} of {total:,}"


def state_text(facts: RunFacts) -> Text:
    """Return the run's state as a word, coloured."""
    state = run_state(facts)
    return Text(state, style=STYLE_OF_RUN[state])


def remarks(facts: RunFacts, causes: Sequence[Cause] = ()) -> Iterator[str]:
    """Yield what is out of the ordinary in a run."""
    if facts.generation > 1:
        yield f"generation {facts.generation}"
    if facts.hold:
        yield hold_words(facts.hold)
    if facts.closed:
        yield f"closed by {facts.closed.actor}: {facts.closed.reason}"
    for state, words in _REMARKS.items():
        if facts.counts[state]:
            yield f"{facts.counts[state]:,} {words}"
        if state is State.QUARANTINED:
            yield from (f"  {cause.words}" for cause in causes[:CAUSES_SHOWN])


def hold_words(hold: Word) -> str:
    """Return who holds a run or an instrument, and why."""
    return f"held by {hold.actor}: {hold.reason}"


def progress_view(runs: Sequence[tuple[RunFacts, Pace]]) -> RenderableType:
    """Return a bar for each run, with rate and time to go."""
    return Group(*(line for facts, pace in runs for line in _progress(facts, pace)))


def _progress(facts: RunFacts, pace: Pace) -> Iterator[RenderableType]:
    yield Text.assemble((str(facts.run), "bold"), overflow="ellipsis", no_wrap=True)
    row = Table.grid(padding=(0, 1))
    row.add_column(width=10)
    row.add_column(width=BAR_WIDTH)
    row.add_column(no_wrap=True)
    bar = ProgressBar(total=1.0, completed=pace.share, width=BAR_WIDTH)
    row.add_row(state_text(facts), bar, progress_words(facts, pace))
    yield row
    for remark in remarks(facts):
        yield Text(f"           {remark}", style="dim")


def progress_words(facts: RunFacts, pace: Pace) -> str:
    """Return how far a run is, in words that need no bar."""
    words = f"{pace.files_done:,}/{pace.files_total:,} files {size(pace.bytes_done)}"
    state = run_state(facts)
    if state in OVER or not pace.bytes_per_s:
        return words
    words = f"{words} {size(pace.bytes_per_s)}/s"
    # What still arrives is not known: only a sealed run has an end to reckon with.
    if state is RunState.SEALED and pace.eta_s is not None and pace.eta_s < LONGEST_ETA_S:
        words = f"{words} {duration(pace.eta_s)} left"
    return words


def unfinished(facts: RunFacts) -> bool:
    """Whether something of the run still moves by itself."""
    moving = any(facts.counts[state] for state in State if state not in AT_REST)
    return moving or run_state(facts) in {RunState.OPEN, RunState.SEALED}
