"""Is the wheel exactly what a user installs: four packages, their data files, one command?"""

import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {"labferry", "producer", "workers", "ops"}
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel from a copy of what is committed or about to be, with what is installed."""
    source = tmp_path_factory.mktemp("source")
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True).stdout
    for name in names.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    out = tmp_path_factory.mktemp("wheel")
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([sys.executable, *build, "-w", str(out), str(source)], check=True)
    (path,) = out.glob("labferry-*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_four_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES


def test_the_wheel_holds_every_source_file_of_the_packages(wheel: zipfile.ZipFile) -> None:
    kinds = {".py", ".lua", ".toml", ".typed", ".service", ".timer", ".yml", ".yaml", ".json"}
    wanted = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in kinds or path.name == "py.typed"
    }
    assert any(name.endswith(".lua") for name in wanted)
    assert "ops/grafana/labferry.json" in wanted
    assert wanted <= set(wheel.namelist())


#: Every command says what it takes, and nothing comes from the source tree.
EVERY_COMMAND = """
import sys, labferry, ops.cli, producer, typer, workers
assert all(one.__file__.startswith(sys.prefix) for one in (labferry, ops, producer, workers))
commands = typer.main.get_group(ops.cli.app).commands
assert len(commands) > 20
sys.exit(max(ops.cli.run_command([name, "--help"]) for name in commands))
"""


def test_an_installed_wheel_works_without_the_source_tree(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    """As pipx puts it: a venv of its own, whose dependencies are those of this one."""
    home = tmp_path / "venv"
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    pip = [
        "-m",
        "pip",
        f"--python={python}",
        "install",
        "--quiet",
        "--no-compile",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([sys.executable, *pip, str(wheel.filename)], check=True)
    packages = sysconfig.get_path("purelib", "venv", {"base": str(home)})
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    every: list[str | Path] = [python, "-c", EVERY_COMMAND]
    subprocess.run(every, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    for command, said in (("--version", "labferry "), ("profile list", "illumina-novaseq")):
        asked: list[str | Path] = [home / "bin" / "labferry", *command.split()]
        assert said in subprocess.check_output(asked, cwd=tmp_path, text=True)


def test_each_package_is_typed(wheel: zipfile.ZipFile) -> None:
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(wheel.namelist())


def test_the_wheel_brings_the_command_and_the_licence(wheel: zipfile.ZipFile) -> None:
    (points,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "labferry = ops.__main__:main" in wheel.read(points).decode()
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())


def test_the_packages_in_the_settings_are_those_on_disk() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    found = {
        str(path.parent.relative_to(ROOT)).replace("/", ".")
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert set(listed["packages"]) == found


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_requirements_are_pinned_by_hash_and_name_no_server(path: Path) -> None:
    text = path.read_text("utf-8")
    assert "://" not in text
    entries = re.split(r"\n(?=[a-z])", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).strip())
    for entry in entries:
        assert re.match(r"[a-z0-9.-]+==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry


def test_every_dependency_is_in_its_requirements_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    groups = project["dependency-groups"]
    runtime = project["project"]["dependencies"]
    demo = project["project"]["optional-dependencies"]["demo"]
    for name, wanted in {
        "runtime": runtime,
        "dev": [*runtime, *demo, *groups["dev"]],
        "bench": groups["bench"],
        "lock": groups["lock"],
    }.items():
        pinned = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
        for requirement in (one for one in wanted if isinstance(one, str)):
            bare = re.match(r"[A-Za-z0-9._-]+", requirement)
            assert bare and f"\n{bare[0].lower()}==" in f"\n{pinned}", f"{requirement}: make lock"


#: What each program of an installed labferry imports; no test, no demo.
PROGRAMS = (
    "producer.__main__", "workers.app", "workers.sweep", "kombu.transport.redis", "flower.command",
    "celery.bin.celery", "celery.apps.worker", "celery.concurrency.prefork", "ops.cli", "ops.up",
    "ops.status", "ops.explain", "ops.verify", "ops.alive", "ops.embedded",
)  # fmt: skip
#: Hides every module of a distribution that is not pinned for the runtime, then imports.
ALONE = """
import importlib, re, sys
from importlib.metadata import packages_distributions
pinned = set(sys.argv[1].split())
plain = lambda name: re.sub("[-_.]+", "-", name).lower()
owners = packages_distributions()
class Hidden:
    def find_spec(name, path=None, target=None):
        mine = {plain(owner) for owner in owners.get(name.split(".")[0], ())}
        if mine and not mine & pinned:
            raise ModuleNotFoundError(f"{name} is not among the runtime requirements", name=name)
sys.meta_path.insert(0, Hidden)
for name in sys.argv[2:]:
    importlib.import_module(name)
"""


def test_every_program_runs_with_the_runtime_requirements_alone(tmp_path: Path) -> None:
    config = tmp_path / "labferry.toml"
    config.write_text('[store]\nbucket = "bucket"\n[instruments.i]\nroot = "/data"\n')
    text = (ROOT / "requirements" / "runtime.txt").read_text("utf-8")
    pinned = ["labferry", *re.findall(r"^([a-z0-9.-]+)==", text, re.MULTILINE)]
    subprocess.run(
        [sys.executable, "-c", ALONE, " ".join(pinned), *PROGRAMS],
        env={"LABFERRY_CONFIG": str(config)},
        check=True,
    )
