"""Which commands does `labferry profile` have? The work is done in ops.profiles."""

from pathlib import Path
from typing import Annotated

import typer

from ops.arguments import Config, Json

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A run folder, or one above runs.")]

profile_app = typer.Typer(
    no_args_is_help=True, help="See what is known of instruments; try it on a folder."
)


@profile_app.command("list")
def list_profiles(config: Config = None, json: Json = False) -> None:
    """List the profiles: those shipped, and your own in `profiles/` beside labferry.toml."""
    from ops.profiles import Profiles, show_profiles

    show_profiles(Profiles(config), as_json=json)


@profile_app.command("show")
def show_profile(
    name: Annotated[str, typer.Argument(metavar="NAME")], config: Config = None, json: Json = False
) -> None:
    """Show one profile, with what it has from the one it extends."""
    from ops.profiles import Profiles
    from ops.profiles import show_profile as show

    show(Profiles(config).load(name), as_json=json)


@profile_app.command("detect")
def detect(folder: Folder, config: Config = None, json: Json = False) -> None:
    """Say which profiles fit a folder, best first, and by which clues. Exit 5 when none does."""
    from ops.profiles import Profiles, show_detected

    raise typer.Exit(show_detected(Profiles(config), folder, as_json=json))


@profile_app.command("test")
def test(
    folder: Folder,
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME", help="Else the one that fits best."),
    ] = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Say whether a folder is done by a profile, part by part. Exit 0 done, 3 not done.

    Only reads, and asks no server. What only time can tell is assumed when two looks a second
    apart see the same.
    """
    from ops.profiles import Profiles, show_test

    profiles = Profiles(config)
    chosen = profiles.load(profile) if profile else profiles.fitting(folder)
    raise typer.Exit(show_test(folder, chosen, as_json=json))
