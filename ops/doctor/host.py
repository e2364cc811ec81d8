"""Is this host fit: its shares, its installation, and whom it shows Flower to?"""

import contextlib
import importlib.metadata
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from labferry.errors import LedgerUnavailable, Refused, SettingsError, ShareUnavailable
from labferry.ledger import open_ledger
from labferry.settings import InstrumentSettings, Settings
from labferry.source.share import Share, list_share, run_path
from ops.doctor.finding import Area, Finding
from ops.flower_access import check_exposure
from ops.shown import counted

SHARE = Area("share")
INSTALLATION = Area("installation")
FLOWER = Area("flower")
PACKAGES = ("labferry", "producer", "workers", "ops")
#: Entries looked at to find one file that can be opened.
TRIED_MAX = 1000
_MOUNT = "Mount it, or leave the instrument to the hosts that can see it."


def look_at_host(settings: Settings) -> Iterator[Finding]:
    """Yield what is right and wrong with this host."""
    yield _packages()
    yield _flower(settings)
    owners: dict[bytes, str] = {}
    for name, instrument in settings.instruments.items():
        yield from _share(name, instrument, _had_runs(settings, name), owners)


def _packages() -> Finding:
    owners = importlib.metadata.packages_distributions()
    foreign = {package: sorted(set(owners.get(package, [])) - {"labferry"}) for package in PACKAGES}
    named = [f"{package} ({', '.join(others)})" for package, others in foreign.items() if others]
    if named:
        return INSTALLATION.bad(
            "packages",
            f"other distributions bring packages of the same name: {'; '.join(named)}",
            "Install labferry into an environment of its own.",
        )
    return INSTALLATION.good("packages", "its packages are its own")


def _flower(settings: Settings) -> Finding:
    try:
        check_exposure(settings.flower)
    except (Refused, SettingsError) as error:
        return FLOWER.bad("exposure", str(error), "")
    behind = "a password" if settings.flower.basic_auth.get_secret_value() else "loopback alone"
    return FLOWER.good("exposure", f"{settings.flower.address}, behind {behind}")


def _had_runs(settings: Settings, instrument: str) -> Callable[[], bool]:
    def ask() -> bool:
        try:
            runs = open_ledger(settings.ledger).runs()
        except (LedgerUnavailable, Refused, SettingsError):
            return False  # told by the ledger's own checks
        return any(run.instrument == instrument for run in runs)

    return ask


def _share(
    name: str,
    instrument: InstrumentSettings,
    had_runs: Callable[[], bool],
    owners: dict[bytes, str],
) -> Iterator[Finding]:
    """Yield what is told of an instrument's share; `owners` has whose each run folder is."""
    try:
        share = list_share(instrument.root, name, instrument.resolved(), had_runs)
    except ShareUnavailable as error:
        yield SHARE.bad(name, str(error), _MOUNT)
        return
    for what in (*share.unreadable, *share.unusable):
        yield SHARE.warning(name, what, "Let labferry's account read it, or rename it.")
    for other in sorted(_owners(name, share, owners) - {name}):
        what = f"run folders below {share.root} are {other}'s too: they go up twice"
        yield SHARE.warning(name, what, "Give each instrument a root of its own.")
    yield _readable(name, share)


def _owners(name: str, share: Share, owners: dict[bytes, str]) -> set[str]:
    root = share.root.resolve()  # once: a share is slow, and has thousands of runs
    folders = (run_path(root, one.run) for one in share.runs)
    return {owners.setdefault(folder, name) for folder in folders}


def _readable(name: str, share: Share) -> Finding:
    runs = counted(len(share.runs), "run folder")
    refused = ""
    for path in _files(share):
        try:
            with Path(os.fsdecode(path)).open("rb", buffering=0) as file:
                file.read(1)
        except OSError as error:
            refused = refused or f"{os.fsdecode(path)}: {error.strerror}"
        else:
            return SHARE.good(name, f"{runs} in {share.root}, files can be read")
    if refused:
        return SHARE.bad(name, f"no file can be read: {refused}", "Let labferry's account read it.")
    return SHARE.good(name, f"{runs} in {share.root}, no file yet")


def _files(share: Share) -> Iterator[bytes]:
    """Yield some regular files of the newest runs."""
    entries = (
        os.fsencode(folder) + b"/" + name
        for run in reversed(share.runs)
        for folder, _, names in os.walk(run.path)
        for name in names
    )
    for path in itertools.islice(entries, TRIED_MAX):
        with contextlib.suppress(OSError):  # it was renamed or removed since
            if stat.S_ISREG(os.lstat(path).st_mode):
                yield path
