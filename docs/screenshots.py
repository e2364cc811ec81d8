"""How do the status page and Flower look? `make screenshots` looks with a real browser.

A site at work is set up as the tests do it: real Valkey, S3 server, agent, worker, Flower, monitor.
Chromium (Debian: apt install chromium) opens each page; what a person must find there is looked for
in what the browser made of it, and docs/pictures/ gets what it shows.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from labferry import messages
from labferry.identity import RunKey
from labferry.records import Bundle, Lane
from labferry.settings import StoreSettings
from labferry.states import State
from ops.embedded import Valkey, Weed
from ops.loopback import free_ports
from tests.fault_proxy import FaultProxy
from tests.faults import Answer, Delay, Drip, rule
from tests.services import BUCKET, credentials
from tests.site import Site, open_site

PICTURES = Path(__file__).parent / "pictures"
SEQUENCER, MICROSCOPE = "NovaSeqX", "Lightsheet"
DONE = RunKey(SEQUENCER, "20260312_LH00512_0042_A22KQ7LT4")
GOING = RunKey(SEQUENCER, "20260313_LH00512_0043_B22KQ8LT4")
LARGE = RunKey(MICROSCOPE, "2026-03-12 Zebrafisch #7, DAPI+GFP, Müller")
STUCK = RunKey(MICROSCOPE, "2026-03-11 Kalibrierung")
REFUSED = "Übersicht 100%.tif"
MIB = 1024 * 1024
SIZE = "1180,760"

FAULTS = (
    rule(Answer(403, "AccessDenied"), on="PutObject", key=f"raw/*{STUCK.run}/*"),
    rule(Answer(400, "RequestTimeout"), on="PutObject", key=f"*{GOING.run}/*7.cbcl"),
    rule(Delay(before_s=1.2), on="PutObject", key=f"*{GOING.run}/*"),
    rule(Drip(request_bytes_per_s=MIB // 4), on="UploadPart"),
)


def main() -> None:
    """Make all pictures; stop at the first page that lacks what it should show."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("Chromium is not there. Debian: apt install chromium")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="labferry-pictures-") as name:
        folder = Path(name)
        with Valkey(folder / "valkey") as valkey, Weed(BUCKET, folder / "s3") as weed:
            os.environ.update(credentials(weed))
            with FaultProxy(weed.endpoint) as proxy:
                proxy.script(*FAULTS)
                take_all(folder, valkey, proxy.url, Browser(browser, folder / "profile"))


def take_all(folder: Path, valkey: Valkey, endpoint: str, browser: "Browser") -> None:
    """Set a site up, wait until there is something of everything, and look."""
    roots = {name: folder / name for name in (SEQUENCER, MICROSCOPE)}
    write_runs(roots)
    flower, monitor = free_ports(2)
    store = StoreSettings(bucket=BUCKET, endpoint_url=endpoint)
    changes = {
        "flower": {"port": flower},
        "monitor": {"port": monitor},
        "broker": {"bundle_max_files": 1},
        "retry": {"floor_s": 60, "base_s": 120, "cap_s": 120},
        "store": {"single_put_max_bytes": 5 * MIB, "part_size_bytes": 5 * MIB},
        "worker": {"small_threads": 2, "small_processes": 2},
    }
    with open_site(folder, valkey, store, roots, changes) as site:
        site.start("flower")
        site.start("monitor")
        site.start("worker")
        site.until(lambda: answers(flower) and answers(monitor), "the pages answer")
        site.start("agent")
        site.until(lambda: is_of_everything(site), "there is something of everything")
        look_at_the_status_page(browser, f"http://127.0.0.1:{monitor}/")
        look_at_flower(browser, f"http://127.0.0.1:{flower}/")


def write_runs(roots: dict[str, Path]) -> None:
    """Write four runs, as instruments do."""
    for run, count in ((DONE, 120), (GOING, 260)):
        for tile in range(count):
            lane, cycle = tile % 2 + 1, tile // 2 + 1
            path = f"Data/Intensities/BaseCalls/L{lane:03}/C{cycle}.1/L{lane:03}_{cycle}.cbcl"
            write(roots[run.instrument] / run.run / path, 2_000 + tile * 7_919 % 58_000)
        write(roots[run.instrument] / run.run / "Logs/Messgerät #1.log", 18_400)
    write(roots[MICROSCOPE] / LARGE.run / "Embryo #7 - Zeitreihe t000-t119.czi", 200 * MIB)
    write(roots[MICROSCOPE] / LARGE.run / "Notizen.txt", 120)
    for name in (REFUSED, "Objektiv #2 (20x).xml", "Beleuchtung 488nm+561nm.xml"):
        write(roots[MICROSCOPE] / STUCK.run / name, 4_000)


def write(path: Path, size: int) -> None:
    """Write a file of so many bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(random.Random(path.name).randbytes(size))


def is_of_everything(site: Site) -> bool:
    """Whether one run is complete and one under way, and files are dead, failed and in parts."""
    done, going, large, stuck = map(site.ledger.find_facts, (DONE, GOING, LARGE, STUCK))
    if not (done and going and large and stuck):
        return False
    return (
        done.completed == 1
        and going.counts[State.FAILED] > 0
        and going.counts[State.VERIFIED] > 20
        and stuck.counts[State.QUARANTINED] == 3
        and site.ledger.bytes_under_way(LARGE) > 0
    )


def look_at_the_status_page(browser: "Browser", url: str) -> None:
    """Look at runs, one run, and one file."""
    key = urllib.parse.quote(f"{STUCK}/{REFUSED}", safe="")
    browser.look(
        "status", url, "attention", "3 quarantined", "files", str(GOING), "Zebrafisch #7", "left"
    )
    browser.look("run", f"{url}run?key={urllib.parse.quote(str(STUCK), safe='')}", REFUSED)
    browser.look(
        "explain", f"{url}explain?key={key}", "quarantined", "AccessDenied", "dead-letters show"
    )


def look_at_flower(browser: "Browser", url: str) -> None:
    """Look at tasks, a failure with its error, and workers."""
    browser.look("flower-tasks", f"{url}tasks", f"{GOING}/Data", "SUCCESS", ".cbcl")
    browser.look("flower-retry", f"{url}tasks?state=RETRY", f"{GOING}/Data", "RETRY")
    task = urllib.parse.quote(f"{task_id(STUCK, REFUSED)}")
    browser.look("flower-failure", f"{url}task/{task}", "FAILURE", "AccessDenied", REFUSED)
    browser.look("flower-workers", f"{url}workers", "small-", "large-", "Online")


def task_id(run: RunKey, path: str) -> str:
    """Return the id of a file's task."""
    return messages.task_id(Bundle(run=run, number=1, lane=Lane.SMALL, paths=(path,)))


class Browser:
    """A headless Chromium, a new one for each page."""

    def __init__(self, program: str, profile: Path) -> None:
        self._command = [
            program,
            "--headless=new",
            "--no-sandbox",  # it opens pages of this machine alone; root may not have one
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            f"--window-size={SIZE}",
            "--virtual-time-budget=4000",
        ]

    def look(self, name: str, url: str, *words: str) -> None:
        """Find words on a page as the browser shows it, and take its picture."""
        page = self._run("--dump-dom", url)
        missing = [word for word in words if word not in page]
        if missing:
            sys.exit(f"{url} does not show {missing}:\n{page}")
        self._run(f"--screenshot={PICTURES / f'{name}.png'}", url)
        print(f"{name}: {(PICTURES / f'{name}.png').stat().st_size / 1000:.0f} kB")

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command, *arguments], capture_output=True, text=True, timeout=120, check=True
        )
        return done.stdout


def answers(port: int) -> bool:
    """Whether a page answers there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthcheck") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    main()
