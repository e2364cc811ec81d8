"""What does `labferry consume` take? The work is done elsewhere."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labferry.errors import SettingsError
from ops.arguments import Config, DryRun, Json, Reason, load

if TYPE_CHECKING:
    from labferry.inbox import Inbox
    from labferry.settings import Settings

_INBOX = "labferry-inbox.sqlite3"
_OF_INBOX = "The inbox: look at it and decide, then end"


class From(StrEnum):
    """Where events come from."""

    QUEUE = "queue"
    BUCKET = "bucket"


class OnUnknown(StrEnum):
    """What follows when a consumer died over its command."""

    STOP = "stop"
    RERUN = "rerun"


def _decision(option: str, meaning: str) -> Any:
    return Annotated[
        str | None,
        typer.Option(option, metavar="RUN/GENERATION", help=meaning, rich_help_panel=_OF_INBOX),
    ]


Done = _decision("--done", "What is stuck is done: a person has seen to it.")
Again = _decision("--again", "What is stuck is to begin again.")
Exec = Annotated[
    str | None,
    typer.Option("--exec", metavar="CMD", help="Such as 'start.sh {run} {manifest}'."),
]
Source = Annotated[
    From | None,
    typer.Option(
        "--from", metavar="queue|bucket", help="Your Celery queue, or markers of the bucket."
    ),
]
InboxPlace = Annotated[
    str,
    typer.Option("--inbox", metavar="FILE", help="What came and was done; or redis://...#NAME."),
]
Instruments = Annotated[
    list[str] | None, typer.Option("--instrument", metavar="NAME", help="Only these.")
]
Incomplete = Annotated[
    bool, typer.Option("--incomplete", help="Also runs that a person closed incomplete.")
]
Unknown = Annotated[
    OnUnknown,
    typer.Option("--on-unknown", help="When a consumer died over its command."),
]
Attempts = Annotated[
    int, typer.Option("--attempts", metavar="N", min=1, help="Times a command may fail.")
]
Lease = Annotated[
    float, typer.Option("--lease", metavar="S", min=1, help="A dead consumer is noticed after.")
]
Every = Annotated[
    float,
    typer.Option("--every", metavar="S", min=0.1, help="Between two looks at the bucket."),
]
Once = Annotated[bool, typer.Option("--once", help="End when nothing is left to do.")]
SkipExisting = Annotated[
    bool, typer.Option("--skip-existing", help="Count as done what is there now, then end.")
]
ListAll = Annotated[bool, typer.Option("--list", help="Show what came.", rich_help_panel=_OF_INBOX)]


def consume_events(
    command: Exec = None,
    source: Source = None,
    inbox: InboxPlace = _INBOX,
    instrument: Instruments = None,
    incomplete: Incomplete = False,
    on_unknown: Unknown = OnUnknown.STOP,
    attempts: Attempts = 3,
    lease: Lease = 60,
    every: Every = 30,
    once: Once = False,
    skip_existing: SkipExisting = False,
    list_all: ListAll = False,
    done: Done = None,  # type: ignore[valid-type]
    again: Again = None,  # type: ignore[valid-type]
    reason: Reason = None,
    dry_run: DryRun = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Run a command once for each generation of a run that is complete.

    What came is kept in the inbox: the same is worked on once, also by consumers that share it.
    A command that fails is tried again; of one whose consumer died a person decides.

    The event is on the command's standard input. Fields for its arguments: {run} {instrument}
    {generation} {bucket} {manifest} {marker} {id} {event} {name}.
    """
    from labferry.inbox import open_inbox
    from labferry.retry import Budget
    from ops import consume

    kept = open_inbox(inbox, lease_s=lease, reruns=on_unknown is OnUnknown.RERUN)
    if list_all or done or again or dry_run:
        _look_at(kept, done, again, reason, list_all=list_all, dry_run=dry_run, as_json=json)
        return
    settings = load(config, "consume")
    from_queue = _is_queue(settings, source)
    opened = consume.open_source(settings, from_queue=from_queue, every_s=every)
    chosen = consume.wanted(instrument or (), incomplete=incomplete)
    if skip_existing:
        print(f"Noted as done: {consume.skip_existing(kept, opened, chosen):,}.")
        return
    budget = Budget(**{**settings.retry.model_dump(), "attempts": attempts})
    consumer = consume.Consumer(
        inbox=kept, source=opened, command=_given(command), wanted=chosen, budget=budget
    )
    raise typer.Exit(consumer.run(once=once))


def _look_at(
    inbox: "Inbox",
    done: str | None,
    again: str | None,
    reason: str | None,
    *,
    list_all: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    from labferry.inbox.entries import AGAIN, DONE
    from ops.consent import act_of
    from ops.inbox_view import decide_entry, list_inbox

    if list_all:
        list_inbox(inbox, as_json=as_json)
        return
    if bool(done) is bool(again):
        raise typer.BadParameter("name one event, by --done or by --again; --dry-run is for those")
    act = act_of(DONE if done else AGAIN, reason)
    decide_entry(inbox, str(done or again), act, dry_run=dry_run, as_json=as_json)


def _given(command: str | None) -> str:
    if command is None:
        raise SettingsError(
            field="--exec",
            why="it is missing",
            step="Say what to run, such as --exec 'start.sh {run} {manifest}'.",
        )
    return command


def _is_queue(settings: "Settings", source: From | None) -> bool:
    """Whether events come from the queue: as said, else where [events] names one."""
    return source is From.QUEUE if source else settings.events.celery_task is not None
