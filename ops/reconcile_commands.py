"""What does `labferry reconcile` take? The work is done elsewhere."""

from typing import Annotated

import typer

from ops.arguments import Config, DryRun, Json, Reason, Yes, load


def reconcile_all(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="INSTRUMENT/RUN, else all.")
    ] = None,
    abort_orphans: Annotated[
        bool, typer.Option("--abort-orphans", help="End uploads in parts that nobody owns.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Put on record again what a lost ledger held.")
    ] = False,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Compare ledger, bucket and source, and find uploads that nobody owns; changes nothing else.

    Exit 0 when all agree, 3 when something is wrong, 75 when something could not be looked at.
    After the ledger was lost, --rebuild makes it again: what is proven is taken over, nothing sent.
    """
    from ops.consent import act_of
    from ops.programs import become
    from ops.reconcile import check_rebuild, reconcile

    if abort_orphans and rebuild:
        raise typer.BadParameter(
            "first --rebuild, then --abort-orphans: until then all are nobody's"
        )
    settings = load(config, "reconcile")
    if rebuild:
        why = act_of("reconcile --rebuild", reason)
        options = check_rebuild(settings, run, why, dry_run=dry_run, yes=yes)
        become(config, "workers.rebuild", *options, *(["--json"] if json else []))
        return
    act = act_of("reconcile --abort-orphans", reason) if abort_orphans and not dry_run else None
    raise typer.Exit(reconcile(settings, run, act, yes=yes, as_json=json))
