"""What are the profiles, which fits a folder, and is a folder done by one? Needs no server."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from labferry.clock import SystemClock
from labferry.errors import NotFound
from labferry.profiles import Profile, load_profile, own_folder, profile_names
from labferry.settings import config_path
from labferry.source.done import Holds
from labferry.source.examine import Examination, detect, examine
from labferry.source.tally import Names
from ops.exits import Exit
from ops.shown import counted, size, terminal

_MARKS = {Holds.PASS: "+", Holds.FAIL: "-", Holds.NOT_POSSIBLE: "?", Holds.ASSUMED: "~"}


class Profiles:
    """The shipped profiles and those in `profiles/` beside the settings that are in force."""

    def __init__(self, config: Path | None) -> None:
        self._folder = own_folder(config_path(config))

    def names(self) -> list[str]:
        """Return their names."""
        return profile_names(self._folder)

    def load(self, name: str) -> Profile:
        """Return one of them. Raises: NotFound, SettingsError."""
        if name not in self.names():
            raise NotFound(what=f"the profile {name}", step="`labferry profile list` shows all.")
        return load_profile(name, {}, self._folder)

    def all(self) -> list[Profile]:
        """Return all. Raises: SettingsError."""
        return [self.load(name) for name in self.names()]

    def fitting(self, folder: Path) -> Profile:
        """Return the one that fits a folder best; `generic` where none has a clue.

        Raises: NotFound.
        """
        _demand(folder)
        _, found = detect(folder, self.all())
        return self.load(found[0].profile if found else "generic")


def show_profiles(profiles: Profiles, *, as_json: bool) -> None:
    """Print what profiles there are."""
    known = profiles.all()
    if as_json:
        facts = [{"name": one.name, "title": one.title, "extends": one.extends} for one in known]
        _print({"profiles": facts})
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in known:
        table.add_row(one.name, one.title)
    terminal().print(table)


def show_profile(profile: Profile, *, as_json: bool) -> None:
    """Print one profile, with what it has from the profiles it extends."""
    fields = profile.model_dump(mode="json", by_alias=True)
    if as_json:
        _print(fields)
        return
    for name, value in fields.items():
        if value not in ("", [], None):
            print(f"{name} = {json.dumps(value, ensure_ascii=False)}")


def show_detected(profiles: Profiles, folder: Path, *, as_json: bool) -> Exit:
    """Print which profiles fit a folder, best first. Raises: NotFound."""
    _demand(folder)
    run, found = detect(folder, profiles.all())
    if as_json:
        _print({"folder": str(run), "fits": [asdict(fit) for fit in found]})
    elif not found:
        print(f"No profile has clues that hold for {folder}. Name one: --profile NAME.")
    for fit in () if as_json else found:
        print(f"{fit.profile}: {', '.join(fit.clues)} in {run}")
    return Exit.DONE if found else Exit.NOT_FOUND


def show_test(folder: Path, profile: Profile, *, as_json: bool) -> Exit:
    """Print what a profile's done rule says of a folder, part by part. Raises: NotFound."""
    _demand(folder)
    examined = examine(folder, profile, SystemClock())
    done = bool(examined) and all(one.done for one in examined)
    if as_json:
        runs = [_facts(one) for one in examined]
        _print({"profile": profile.name, "done": done, "runs": runs})
    else:
        print(f"profile {profile.name}: {profile.title}")
        for one in examined:
            print("\n".join(_lines(one)))
    return Exit.DONE if done else Exit.PARTIAL


def _demand(folder: Path) -> None:
    if not folder.is_dir():
        raise NotFound(what=f"the folder {folder}", step="Name one that is there.")


def _facts(one: Examination) -> dict[str, object]:
    return {
        "path": one.path,
        "is_named_as_a_run": one.is_named,
        "done": one.done,
        "files": one.files,
        "bytes": one.size,
        "parts": [asdict(part) for part in one.parts],
        "last": list(one.last),
        "temporary": asdict(one.temporary),
        "left_out": asdict(one.left_out),
        "unreadable": asdict(one.unreadable),
        "alike": asdict(one.alike),
        "failed": asdict(one.failed),
        "unlisted": asdict(one.unlisted),
    }


def _lines(one: Examination) -> Iterator[str]:
    done = "done" if one.done else "not done"
    yield f"{one.path}: {done}, {counted(one.files)}, {size(one.size)}"
    if not one.is_named:
        yield "  ! no pattern of `runs` matches it: the agent would not take it for a run"
    for part in one.parts:
        needed = "" if part.needed else ", not required"
        yield f"  {_MARKS[part.holds]} {part.name} ({part.holds}{needed}): {part.looked_at}"
    if one.last:
        yield f"  goes up last: {', '.join(one.last)}"
    yield from _names("temporary", one.temporary)
    yield from _names("left out", one.left_out)
    yield from _names("cannot be read", one.unreadable)
    yield from _names("told apart by case or accents alone", one.alike)
    yield from _names("the instrument calls it failed", one.failed)
    yield from _names("in no list of the instrument", one.unlisted)


def _names(what: str, names: Names) -> Iterator[str]:
    yield from (f"  {what}: {name}" for name in names.first)
    if names.count > len(names.first):
        yield f"  {what}: and {names.count - len(names.first)} more"


def _print(facts: object) -> None:
    print(json.dumps(facts, indent=2, ensure_ascii=False))
