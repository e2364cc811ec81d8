"""What do `labferry audit`, `close`, `hold`, `release` and `limit` take? Others do the work."""

from typing import Annotated

import typer

from ops.arguments import Config, DryRun, Json, Reason, RunArgument, Yes, load

Held = Annotated[
    str, typer.Argument(metavar="NAME", help="INSTRUMENT/RUN, or an instrument's name alone.")
]


def close_run(
    run: RunArgument,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """End a run that cannot be completed: shows what it would lack, asks, and gives that up.

    Its marker is `incomplete.json`, never `complete.json`, and its manifest lists what was left
    out. A file that is sent in again, or that comes late, opens the next generation.
    """
    from labferry.ledger import open_ledger
    from ops.close import Closing
    from ops.consent import act_of

    act = act_of("close", reason)
    ledger = open_ledger(load(config, "close").ledger)
    closing = Closing(ledger, run, act, as_json=json)
    raise typer.Exit(closing.run(dry_run=dry_run, yes=yes))


def hold_runs(
    name: Held,
    reason: Reason = None,
    dry_run: DryRun = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Publish and complete nothing more of a run or an instrument; what is under way ends."""
    from labferry.ledger import open_ledger
    from ops.consent import act_of
    from ops.hold import hold

    act = act_of("hold", reason, name)
    settings = load(config, "hold")
    ledger = open_ledger(settings.ledger)
    hold(ledger, settings.instruments, name, act, dry_run=dry_run, as_json=json)


def release_runs(
    name: Held,
    reason: Reason = None,
    dry_run: DryRun = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Let a run or an instrument that is held go on."""
    from labferry.ledger import open_ledger
    from ops.consent import act_of
    from ops.hold import release

    act = act_of("release", reason, name)
    settings = load(config, "release")
    ledger = open_ledger(settings.ledger)
    release(ledger, settings.instruments, name, act, dry_run=dry_run, as_json=json)


def limit_rate(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="An instrument, or `all` of them together."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Argument(
            metavar="[RATE]", help="A second, such as 50MB; `unlimited`; `default`: the settings."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="WHEN", help="A span such as 2h, or a time such as 18:00."),
    ] = None,
    reason: Reason = None,
    dry_run: DryRun = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Show how fast sources may be read, or change it while all runs.

    All workers on all hosts keep to a limit together, and hear of a change within seconds.
    """
    from ops.consent import act_of
    from ops.limit import Asked, set_limit, show_limits

    settings = load(config, "limit")
    if name is None:
        show_limits(settings, as_json=json)
        return
    if rate is None:
        raise typer.BadParameter("say how much a second: labferry limit NAME RATE")
    asked = Asked(name=name, rate=rate, until=until)
    act = act_of("limit", reason, " ".join([name, rate, *(["until", until] if until else [])]))
    set_limit(settings, asked, act, dry_run=dry_run, as_json=json)


def audit_acts(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN] [verify]", help="Of a run, else all.")
    ] = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Show who changed what, when and why; `audit verify` proves that no line was touched.

    Exit 1 when a line was changed, left out or moved.
    """
    from labferry.ledger import open_ledger
    from ops.audit import read_words, show_audit, verify_audit

    run, verify = read_words(words or [])
    ledger = open_ledger(load(config, "audit").ledger)
    if verify:
        raise typer.Exit(verify_audit(ledger, run, as_json=json))
    show_audit(ledger, run, as_json=json)
