"""What do `labferry replay` and `labferry dead-letters requeue` take? The work is elsewhere."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from labferry.batch import PER_SECOND
from ops.arguments import Config, DryRun, Json, Reason, Yes, load
from ops.dead_letter_commands import dead_letters_app
from ops.selecting import selecting

if TYPE_CHECKING:
    from labferry.settings import Settings
    from ops.deliveries import How

Detach = Annotated[
    bool, typer.Option("--detach", help="Return at once; the batch goes on by itself.")
]
Pace = Annotated[
    int, typer.Option("--pace", metavar="N", min=1, help="Files sent in a second, at most.")
]
_PANEL = "Batches that were begun before"


def _batch(option: str, meaning: str) -> Any:
    return Annotated[
        str | None,
        typer.Option(option, metavar="BATCH", help=meaning, rich_help_panel=_PANEL),
    ]


@dead_letters_app.command("requeue")
@selecting
def requeue_dead_letters(
    selector: Any,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    detach: Detach = False,
    pace: Pace = PER_SECOND,
    config: Config = None,
    json: Json = False,
) -> None:
    """Send files in again once their cause is mended: shows what would become of each, asks first.

    One file of each cause goes first. If its error comes back, the others are left as they are.
    """
    from ops.consent import act_of
    from ops.deliveries import How
    from ops.replay import Wish, replay

    if selector.sink:
        how = How(dry_run=dry_run, yes=yes, as_json=json)
        settings = load(config, "dead-letters")
        raise typer.Exit(_requeue_deliveries(settings, selector, reason, how))
    wish = Wish(
        selector=selector,
        act=act_of("requeue", reason, str(selector)),
        given_up=False,
        dry_run=dry_run,
        yes=yes,
        detach=detach,
        as_json=json,
        per_second=pace,
    )
    raise typer.Exit(replay(load(config, "replay"), wish))


def _requeue_deliveries(settings: "Settings", selector: Any, reason: str | None, how: "How") -> int:
    from labferry.ledger import open_ledger
    from ops.consent import act_of
    from ops.deliveries import REQUEUE, change_deliveries

    act = act_of("requeue", reason, str(selector))
    return change_deliveries(open_ledger(settings.ledger), selector, act, REQUEUE, how)


@selecting
def replay_files(
    selector: Any,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    detach: Detach = False,
    pace: Pace = PER_SECOND,
    list_all: Annotated[
        bool, typer.Option("--list", help="Show all batches.", rich_help_panel=_PANEL)
    ] = False,
    watch: _batch("--watch", "Follow one to its end.") = None,  # type: ignore[valid-type]
    cancel: _batch("--cancel", "Leave what waits of one.") = None,  # type: ignore[valid-type]
    config: Config = None,
    json: Json = False,
) -> None:
    """Send files in again, also such as were discarded: shows what would become of each first.

    One file of each cause goes first. What is verified is uploaded again only where --run or --file
    names it and its object is gone.
    """
    from labferry.ledger import open_ledger
    from ops.consent import act_of
    from ops.deliveries import How
    from ops.replay import Wish, cancel_batch, replay, watch_batch
    from ops.watch_batch import list_batches

    settings = load(config, "replay")
    if selector.sink:
        how = How(dry_run=dry_run, yes=yes, as_json=json)
        raise typer.Exit(_requeue_deliveries(settings, selector, reason, how))
    if list_all:
        list_batches(open_ledger(settings.ledger), as_json=json)
        return
    if watch:
        raise typer.Exit(watch_batch(open_ledger(settings.ledger), watch, as_json=json))
    if cancel:
        cancel_batch(open_ledger(settings.ledger), cancel, act_of("cancel", reason))
        return
    wish = Wish(
        selector=selector,
        act=act_of("replay", reason, str(selector)),
        given_up=True,
        dry_run=dry_run,
        yes=yes,
        detach=detach,
        as_json=json,
        per_second=pace,
    )
    raise typer.Exit(replay(settings, wish))
