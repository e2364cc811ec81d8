"""Which commands does `labferry` have, and what does each take?

The work is done elsewhere. A command imports what it needs itself, so that --help answers at once.
"""

import shlex
import sys
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from labferry import __version__
from ops.arguments import Config, DryRun, Json, load
from ops.consume_commands import consume_events
from ops.dead_letter_commands import dead_letters_app
from ops.demo_runs import Injection
from ops.exits import Exit, end_with_code
from ops.look_commands import examine_all, explain_file, look_after, state_safe, verify_run
from ops.mend_commands import audit_acts, close_run, hold_runs, limit_rate, release_runs
from ops.profile_commands import profile_app
from ops.reconcile_commands import reconcile_all
from ops.replay_commands import replay_files
from ops.watch_commands import run_flower, run_monitor

FIRST, RUN, LOOK, MEND = "First steps", "Run it", "Look", "Mend"
AFTER = "After the marker"

#: Where every command looks for settings when nothing else is said.
DEFAULT_FILE = Path("labferry.toml")
#: A paragraph is one line: the terminal's width breaks it.
ABOUT = (
    "labferry moves the run folders of lab instruments to S3, and can say of every file what "
    "happened to it.\n\n"
    "New here? [bold]labferry demo[/bold] shows it at work on this machine, with real servers, in "
    "a minute. Then [bold]labferry init[/bold] writes a labferry.toml: name your bucket and your "
    "instrument's folder in it, and [bold]labferry up[/bold] runs everything on this machine. On "
    "several machines, start [bold]agent[/bold] beside the instruments and [bold]worker[/bold] as "
    "often as you like; they meet in one Redis or Valkey. [bold]labferry status[/bold] says how "
    "things stand, [bold]labferry COMMAND --help[/bold] says more about a command."
)

app = typer.Typer(
    no_args_is_help=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes\n" + "\n".join(f"{code:>5}  {code.meaning}" for code in Exit),
)
app.add_typer(profile_app, name="profile", rich_help_panel=LOOK)
app.add_typer(dead_letters_app, name="dead-letters", rich_help_panel=MEND)


class Lanes(StrEnum):
    """Which lanes a worker serves."""

    ALL = "all"
    SMALL = "small"
    LARGE = "large"


@app.callback(invoke_without_command=True, help=ABOUT)
def root(
    context: typer.Context,
    config: Config = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Handle what stands before the command."""
    if version:
        print(f"labferry {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(Exit.USAGE)


@app.command(rich_help_panel=FIRST)
def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep Flower and the servers open until Ctrl-C.")
    ] = False,
    source: Annotated[
        Path | None,
        typer.Option("--source", metavar="FOLDER", help="Ferry this folder, read-only, as a run."),
    ] = None,
    inject: Annotated[
        Injection | None,
        typer.Option("--inject", help="Let this go wrong, to try a runbook; kept until Ctrl-C."),
    ] = None,
) -> None:
    """See three runs being ferried on this machine, with real servers.

    Starts a Valkey, an S3 server (SeaweedFS), an agent, two workers and Flower in a temporary
    folder, and writes three runs of two instruments while labferry watches. Nothing is left behind.
    """
    from ops.demo import run_demo

    raise typer.Exit(run_demo(keep=keep, source=source, injection=inject))


@app.command(rich_help_panel=FIRST)
def init(path: Annotated[Path, typer.Argument(metavar="[PATH]")] = DEFAULT_FILE) -> None:
    """Write a labferry.toml with every setting explained."""
    from ops.starter_file import write_starter_file

    write_starter_file(path)
    given = "" if path == DEFAULT_FILE else f" --config {shlex.quote(str(path))}"
    print(f"Wrote {path}. Set `bucket` and the instrument's `root` in it, then:")
    print(f"  labferry doctor{given}")


app.command("doctor", rich_help_panel=FIRST)(examine_all)


@app.command(rich_help_panel=FIRST)
def drill(
    config: Config = None,
    case: Annotated[
        list[str] | None, typer.Option("--case", metavar="NAME", help="Only this one; repeatable.")
    ] = None,
    report: Annotated[
        Path, typer.Option("--report", metavar="FILE", help="Where the report goes, as JSON.")
    ] = Path("labferry-drill.json"),
    json: Json = False,
) -> None:
    """Let things go wrong on purpose, with your bucket, and report what held.

    Workers are killed, files denied, cut short and rewritten, messages lost, clocks set wrong: on
    runs and servers of its own, below a scratch prefix of the bucket, in a minute or two. All of it
    is removed again. Exit 0 when every case passed.
    """
    from labferry.settings import load_settings
    from ops.drill import run_drill

    raise typer.Exit(run_drill(load_settings(config), case or [], report, as_json=json))


@app.command(rich_help_panel=FIRST)
def up(
    config: Config = None,
    data: Annotated[
        Path, typer.Option("--data", metavar="FOLDER", help="Where the embedded Valkey keeps it.")
    ] = Path(".labferry"),
) -> None:
    """Run everything on this machine, for a real bucket.

    A Valkey of its own (unless the settings name one), agent, workers, sweep, Flower and the
    status page; Ctrl-C stops all of it in good order, and nothing is lost by that.
    """
    from ops.up import run_up

    run_up(load(config, "up"), config, data)


@app.command(rich_help_panel=RUN)
def scan(
    config: Config = None,
    instrument: Annotated[
        str | None, typer.Option("--instrument", metavar="NAME", help="Only this one.")
    ] = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Look once: record what is there, queue what is at rest."""
    from ops.programs import become

    options = ["--once"]
    options += ["--instrument", instrument] if instrument else []
    options += ["--dry-run"] if dry_run else []
    options += ["--json"] if json else []
    become(config, "producer", *options)


@app.command(rich_help_panel=RUN)
def agent(
    config: Config = None,
    instrument: Annotated[
        str | None, typer.Option("--instrument", metavar="NAME", help="Only this one.")
    ] = None,
) -> None:
    """Look again and again, beside the instruments; two do no harm."""
    from ops.programs import become

    become(config, "producer", *(["--instrument", instrument] if instrument else []))


@app.command(rich_help_panel=RUN)
def worker(
    config: Config = None,
    lane: Annotated[Lanes, typer.Option("--lane", help="Files it takes.")] = Lanes.ALL,
    processes: Annotated[
        int | None,
        typer.Option("--processes", min=1, metavar="N", help="Processes of a lane, not as set."),
    ] = None,
    no_sweep: Annotated[bool, typer.Option("--no-sweep", help="No sweep beside it.")] = False,
) -> None:
    """Upload and verify; as many as you like, on any host.

    It serves the instruments whose folder this host can see. Ctrl-C or SIGTERM stops it in good
    order: what is not finished is given back; the same again does not wait for it.
    """
    from labferry.environment import child_environment
    from labferry.records import Lane
    from ops.ready import check_ledger
    from ops.worker import serve, worker_programs

    settings = load(config, "worker")
    lanes = list(Lane) if lane is Lanes.ALL else [Lane(lane.value)]
    programs = worker_programs(settings, lanes, processes, sweep=not no_sweep)
    check_ledger(settings.ledger)
    serve(programs, child_environment(config))


@app.command(rich_help_panel=RUN)
def sweep(config: Config = None) -> None:
    """Move what no worker will: lost leases, due retries, lost messages."""
    from ops.programs import become

    become(config, "workers.sweep")


app.command("flower", rich_help_panel=RUN)(run_flower)
app.command("monitor", rich_help_panel=RUN)(run_monitor)


@app.command(rich_help_panel=LOOK)
def status(
    config: Config = None,
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="INSTRUMENT/RUN, else all.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also all old runs that are over, as --json does.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it; Ctrl-C ends.")] = False,
    json: Json = False,
) -> None:
    """Show instruments and runs: what is done, and what is not.

    Of the runs that are over and wait for nobody the newest 50 are shown.

    With RUN and --watch it ends when nothing of the run moves any more by itself: exit 0 when it is
    complete, 3 when something in it waits for a person.
    """
    from ops.status import show_status

    if watch and json:
        raise typer.BadParameter("--watch is for people; ask for --json again and again instead")
    found = show_status(
        load(config, "status"), run, everything=everything, watch=watch, as_json=json
    )
    raise typer.Exit(found)


app.command("explain", rich_help_panel=LOOK)(explain_file)
app.command("verify", rich_help_panel=LOOK)(verify_run)


app.command("audit", rich_help_panel=MEND)(audit_acts)
app.command("safe-to-delete", rich_help_panel=AFTER)(state_safe)
app.command("custody", rich_help_panel=AFTER)(look_after)
app.command("consume", rich_help_panel=AFTER)(consume_events)
app.command("replay", rich_help_panel=MEND)(replay_files)
app.command("close", rich_help_panel=MEND)(close_run)
app.command("limit", rich_help_panel=MEND)(limit_rate)
app.command("hold", rich_help_panel=MEND)(hold_runs)
app.command("release", rich_help_panel=MEND)(release_runs)
app.command("reconcile", rich_help_panel=MEND)(reconcile_all)


def run_command(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    return end_with_code(lambda: app(arguments, prog_name="labferry", standalone_mode=False))


def main() -> None:
    """Run the command line."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a message may quote what is no text
    sys.exit(run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
