"""Does docker-compose.yml do what docs/containers.md says, in a real engine? `make containers`.

Builds the image, starts everything with three workers, a local S3 server and Prometheus, ferries
two runs, kills a worker and restarts Valkey in the middle of the second, takes all down and up
again, and removes it. Each line says what was seen; the first thing that is not so ends it.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.told import demand, seen, until

ROOT = Path(__file__).parent.parent
PROFILES = "local-s3,prometheus"
OURS = ("agent", "worker", "sweep", "flower", "monitor")
WORKERS = 3
MIB = 1024 * 1024
TOOLS = ("cc", "gcc", "make", "git")


class Project:
    """The project in a folder of shares of its own, with the ports of ops/trial.env."""

    def __init__(self, shares: Path) -> None:
        self.shares = shares
        self._environment = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": "labferry-containers",
            "COMPOSE_PROFILES": PROFILES,
            "LABFERRY_SHARES": str(shares),
        }

    def compose(self, *words: str, check: bool = True) -> str:
        """Run docker-compose; return what it printed."""
        return self._run("docker-compose", "--env-file", "ops/trial.env", *words, check=check)

    def docker(self, *words: str, check: bool = True) -> str:
        """Run docker; return what it printed."""
        return self._run("docker", *words, check=check)

    def inside(self, service: str, *words: str, check: bool = True) -> str:
        """Run a command in the first container of a service."""
        return self.compose("exec", "-T", service, *words, check=check)

    def containers(self, service: str) -> list[str]:
        """Return the containers of a service."""
        return self.compose("ps", "-q", service).split()

    def _run(self, *words: str, check: bool) -> str:
        done = subprocess.run(
            words, env=self._environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if check and done.returncode:
            sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
        return done.stdout + ("" if check else done.stderr)


@contextmanager
def project() -> Iterator[Project]:
    """Lend a project, and remove it with its volumes."""
    with tempfile.TemporaryDirectory(prefix="labferry-containers-") as folder:
        shares = Path(folder)
        (shares / "microscope").mkdir()
        for one in (shares, shares / "microscope"):
            one.chmod(0o755)
        ours = Project(shares)
        try:
            yield ours
        finally:
            ours.compose("down", "-v", "--remove-orphans", check=False)


def look_at_image(ours: Project) -> None:
    """The image is small, not root's, and holds nothing to build with."""
    ours.compose("build")
    (image,) = json.loads(ours.docker("image", "inspect", "labferry"))
    base = json.loads(ours.docker("image", "inspect", "python:3.13-slim"))[0]
    added = image["Size"] - base["Size"]
    seen(f"the image takes {added // MIB} MiB more than the one it is built on")
    demand(image["Config"]["User"] == "10001:10001", "it runs as user 10001")
    look = f"command -v {' '.join(TOOLS)}; ls -d /src"
    found = ours.docker("run", "--rm", "--entrypoint", "sh", "labferry", "-c", look, check=False)
    there = [line for line in found.splitlines() if line.startswith("/")]
    demand(not there, f"it has no {', '.join(TOOLS)} and no sources")


def are_healthy(ours: Project, count: int) -> bool:
    """Whether so many containers are there, all of them healthy."""
    names = ours.compose("ps", "-q").split()
    states = [json.loads(ours.docker("inspect", name))[0]["State"] for name in names]
    return len(states) == count and all(
        one["Running"] and one["Health"]["Status"] == "healthy" for one in states
    )


def look_at_containers(ours: Project) -> None:
    """No container of ours is root, writes anywhere, takes all the memory or shows a secret."""
    for service in OURS:
        for name in ours.containers(service):
            facts = json.loads(ours.docker("inspect", name))[0]
            host = facts["HostConfig"]
            assert host["Memory"] > 0, service
            assert host["ReadonlyRootfs"], service
            assert host["CapDrop"] == ["ALL"], service
    seen("memory is limited, nothing is writable, no capability is left")
    demand(ours.inside("worker", "id", "-u").strip() == "10001", "inside, the user is 10001")
    for place in ("/shares/microscope/x", "/opt/labferry/x", "/etc/x"):
        told = ours.inside("worker", "python", "-c", f"open('{place}', 'w')", check=False)
        assert "Error" in told, place
    seen("neither shares nor image can be written")
    history = ours.docker("history", "--no-trunc", "labferry")
    demand("trial-secret" not in history, "no secret is in the image")


def look_at_credentials(ours: Project) -> None:
    """Credentials in a file do as well as in the environment."""
    file = ours.shares / "credentials"
    keys = "aws_access_key_id = trial\naws_secret_access_key = trial-secret\n"
    file.write_text(f"[default]\n{keys}")
    file.chmod(0o644)
    variables = ("AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=")
    named = (*variables, f"AWS_SHARED_CREDENTIALS_FILE=/shares/{file.name}")
    options = [word for one in named for word in ("-e", one)]
    ours.compose("run", "--rm", "-T", *options, "agent", "doctor", "--light")
    seen("credentials in a file let the bucket be read")


def write_run(ours: Project, name: str, files: int) -> int:
    """Write a run of small files and a large one, as an instrument would; return how many."""
    folder = ours.shares / "microscope" / name
    folder.mkdir()
    folder.chmod(0o755)
    for number in range(files):
        (folder / f"tile {number} #1.tif").write_bytes(os.urandom(20_000))
    (folder / "stack.raw").write_bytes(os.urandom(200 * MIB))
    return files + 1


def run_state(ours: Project, name: str) -> dict[str, Any]:
    """Return what status says of a run; nothing while the ledger is away."""
    told = ours.inside("agent", "labferry", "status", "--json", check=False)
    try:
        runs = json.loads(told[told.index("{") :].splitlines()[0])["runs"]
    except (ValueError, KeyError):
        return {}
    return next((one for one in runs if one["run"] == f"microscope/{name}"), {})


def is_complete(ours: Project, name: str) -> bool:
    return run_state(ours, name).get("state") == "complete"


def verified(ours: Project, name: str) -> int:
    return int(run_state(ours, name).get("files", {}).get("verified", 0))


def look_at_metrics() -> None:
    """Prometheus reaches what it is to scrape, and has the rules."""

    def asked(path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:9090/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def all_up() -> bool:
        targets = asked("targets")["activeTargets"]
        return bool(targets) and all(one["health"] == "up" for one in targets)

    until(all_up, "Prometheus reaches all its targets")
    rules = [rule for group in asked("rules")["groups"] for rule in group["rules"]]
    demand(rules and all(one["health"] != "err" for one in rules), f"it has {len(rules)} rules")
    found = asked("query?query=labferry_backlog_files")["result"]
    demand(found, "it has the backlog of the microscope")


def main() -> None:
    """Do all of it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # containers would stay behind
    with project() as ours:
        look_at_image(ours)
        ours.compose("up", "-d", "--scale", f"worker={WORKERS}")
        count = len(ours.compose("ps", "-q").split())
        until(lambda: are_healthy(ours, count), f"{count} containers are up and healthy")
        look_at_containers(ours)
        look_at_credentials(ours)
        files = write_run(ours, "first", 400)
        until(lambda: is_complete(ours, "first"), f"a run of {files} files is complete")
        files = write_run(ours, "second", 2000)
        until(lambda: verified(ours, "second") > 100, "the second one is under way")
        demand(not is_complete(ours, "second"), "it is not complete yet")
        ours.docker("kill", ours.containers("worker")[0])
        ours.compose("restart", "-t", "1", "valkey")
        seen("a worker was killed, and Valkey started again")
        until(lambda: is_complete(ours, "second"), f"the run of {files} files is complete")
        for name in ("first", "second"):
            ours.inside("agent", "labferry", "verify", f"microscope/{name}")
        seen("`labferry verify` finds both whole")
        look_at_metrics()
        ours.compose("down")
        ours.compose("up", "-d", "--scale", f"worker={WORKERS}")
        until(lambda: is_complete(ours, "second"), "after down and up the ledger still knows it")
    seen("everything was removed")


if __name__ == "__main__":
    main()
