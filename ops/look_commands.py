"""What do `labferry doctor`, `explain` and `verify` take? The work is done elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from ops.arguments import Config, DryRun, Json, Reason, RunArgument, load

Budget = Annotated[
    float, typer.Option("--budget", metavar="S", min=0, help="Seconds for everything.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", metavar="FILE", help="There whole or not at all; else stdout."),
]


def examine_all(
    config: Config = None,
    light: Annotated[
        bool, typer.Option("--light", help="Only whether ledger, broker and bucket answer now.")
    ] = False,
    json: Json = False,
) -> None:
    """Prove that ledger, broker, bucket, shares and this installation are fit.

    Everything is tried, with scratch objects below probe/ that are removed again. Each finding that
    is not good says what mends it. Exit 1 when something is bad, 75 when a server does not answer.
    With --light it takes a second or two and leaves the bucket as it is: for health checks.
    """
    from ops.doctor import show_examination

    raise typer.Exit(show_examination(load(config, "doctor"), light=light, as_json=json))


def explain_file(
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY", help="INSTRUMENT/RUN/PATH, its path on the share, or its object's key"
        ),
    ],
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="FILE", help="All about its run, as a tar.gz."),
    ] = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Say of one file where it stands, and what moves it next.

    With --bundle, KEY may be INSTRUMENT/RUN: manifests, markers, every file's history, the audit,
    events and settings without secrets go into one archive, for a quality file.
    """
    from ops.explain_view import show_explanation

    if bundle is not None:
        from ops.bundle_view import bundle_run

        bundle_run(load(config, "explain"), key, bundle)
        return
    show_explanation(load(config, "explain"), key, as_json=json)


def state_safe(
    run: RunArgument,
    config: Config = None,
    budget: Budget = 3600,
    output: Output = None,
    json: Json = False,
) -> None:
    """State that the source of a run may be deleted, with a proof for each file; or say why not.

    Looks at the ledger, the bucket and every file at the source now. Exit 0 with the statement,
    signed with LABFERRY_STATEMENTS__KEY, 4 with the reasons. labferry deletes nothing.
    """
    from ops.safe_view import safe_to_delete

    settings = load(config, "safe-to-delete")
    raise typer.Exit(safe_to_delete(settings, run, budget_s=budget, output=output, as_json=json))


def look_after(  # noqa: PLR0913  one argument an option
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="INSTRUMENT/RUN, else all.")
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=0, help="Files of a manifest; 0 for all.")
    ] = 20,
    pace: Annotated[
        float, typer.Option("--pace", metavar="N", min=0.1, help="Objects asked for in a second.")
    ] = 20,
    budget: Budget = 3600,
    release: Annotated[
        bool, typer.Option("--release", help="The run's objects may go; needs --reason.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="They are to stay after all; needs --reason.")
    ] = False,
    reason: Reason = None,
    dry_run: DryRun = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Look whether what was proven is still in the bucket: some files of each complete run.

    A loss or change is an alert, while the source may still be there; exit 3. Nothing is uploaded
    again. What is deleted on purpose is released, on record, and not looked for.
    """
    from ops.consent import act_of
    from ops.custody_view import change_custody, keep_custody

    settings = load(config, "custody")
    if release or resume:
        what = "release from custody" if release else "resume custody"
        if run is None or (release and resume):
            raise typer.BadParameter("name one RUN, and --release or --resume")
        act = act_of(what, reason)
        change_custody(settings, run, act, ends=release, dry_run=dry_run, as_json=json)
        return
    if dry_run:
        raise typer.BadParameter("--dry-run is for --release and --resume")
    code = keep_custody(
        settings, run, sample=sample, per_second=pace, budget_s=budget, as_json=json
    )
    raise typer.Exit(code)


def verify_run(
    run: RunArgument,
    config: Config = None,
    budget: Budget = 3600,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read every object back, and the source.")
    ] = False,
    output: Output = None,
    json: Json = False,
) -> None:
    """Prove from the bucket alone that a run is there as its manifests say.

    Compares every object with the manifests: identity, size, ETag. Exit 0 whole, 3 partial, 75 when
    the time is up, the server does not answer, or no manifest says what should be there. With
    --deep every object is read back and hashed, then every file at the source, if its share can be
    seen from here: exit 3 also where the source differs or cannot be read.
    """
    from ops.verify_view import show_verification

    report = show_verification(
        load(config, "verify"),
        run,
        budget_s=budget,
        deep=deep,
        output=output,
        as_json=json,
    )
    raise typer.Exit(report.exit_code)
