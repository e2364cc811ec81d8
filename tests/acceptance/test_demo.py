"""The first minute: does the demo show everything, end by itself, and leave no trace?"""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.demo_runs import demo_runs
from tests.acceptance.command import Command, ctrl_c, processes_below
from tests.waiting import eventually


@pytest.fixture
def labferry(tmp_path: Path) -> Iterator[Command]:
    """The command, with a temporary folder of its own to leave nothing in."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    # Of another site: nothing of it may be used.
    elsewhere = {
        "TMPDIR": str(temporary),
        "LABFERRY_LEDGER__URL": "redis://192.0.2.1:6379/1",
        "AWS_ACCESS_KEY_ID": "another",
        "HTTP_PROXY": "http://192.0.2.1:3128",
        "http_proxy": "http://192.0.2.1:3128",
    }
    command = Command(tmp_path, elsewhere)
    yield command
    command.close()


def assert_nothing_is_left(tmp_path: Path) -> None:
    # What was killed a moment ago may still be on the list of processes.
    eventually(lambda: not processes_below(tmp_path))
    assert list((tmp_path / "tmp").iterdir()) == []


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mtime_ns, path.lstat().st_ctime_ns)
        for path in [folder, *folder.rglob("*")]
    }


def test_the_demo_ferries_three_runs_and_leaves_nothing(labferry: Command, tmp_path: Path) -> None:
    ended = labferry.run("demo")
    assert ended.code == 0, ended
    for run in demo_runs():
        part = ended.out.split(f"\n{run.instrument}/{run.name}\n")[1]
        assert re.search(rf"verified +{len(run.files)} files", part)
        assert re.search(r"evidence +A ", part)
        key = re.escape(f"s3://labferry-demo/runs/{run.instrument}/{run.name}/1")
        assert re.search(rf"manifest +{key}/manifest\.jsonl", part)
        assert re.search(rf"marker +{key}/complete\.json", part)
        assert f"{len(run.files):,} files, all there as the manifest says" in part
    assert re.search(r"Flower showed every task at http://127\.0\.0\.1:\d+/", ended.out)
    assert "labferry demo --keep" in ended.out
    assert_nothing_is_left(tmp_path)


def test_runs_are_still_being_written_while_labferry_watches(labferry: Command) -> None:
    """What is verified grows while the run is open: the agent did not wait for the end."""
    said = labferry.run("demo").out
    counts = re.findall(r"(?m)^(\S+/.+): open, (\d+)/(\d+) files", said)
    assert any(0 < int(done) < int(total) for _, done, total in counts)
    totals = {name: [int(one[2]) for one in counts if one[0] == name] for name, _, _ in counts}
    assert all(grew == sorted(grew) for grew in totals.values())
    assert any(grew[0] < grew[-1] for grew in totals.values())


def test_a_folder_of_ones_own_is_ferried_alone_and_only_read(
    labferry: Command, tmp_path: Path
) -> None:
    parent = tmp_path / "shares"
    folder = parent / "Run [1] #2 ü"
    (folder / "sub" / "empty").mkdir(parents=True)
    (folder / "sub" / "a b.txt").write_text("data")
    (folder / "big.raw").write_bytes(os.urandom(20 * 1024 * 1024))
    (folder / "link").symlink_to("/etc/passwd")
    (parent / "Run 1 #2 ü").mkdir()  # what the brackets would match as a pattern
    (parent / "Run 1 #2 ü" / "not asked for.txt").write_text("private")
    before = snapshot(parent)
    process = labferry.start("demo", "--keep", "--source", str(folder))
    assert process.stdout is not None
    said = ""
    while "stays open until Ctrl-C" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    env = re.search(r"(?m)^  \. (\S+/env)$", said)
    assert env is not None
    config = re.search(r"export LABFERRY_CONFIG=(\S+)", Path(env[1]).read_text())
    assert config is not None
    status = labferry.run(
        "--config", config[1], "status", "--json", LABFERRY_LEDGER__URL=_ledger(config[1])
    )
    assert "Run [1] #2 ü" in status.out
    assert "not asked for" not in said
    assert "Run 1 #2 ü" not in status.out
    assert re.search(r"verified +2 files, 21\.0 MB", said)
    assert "left out   link: a symbolic link" in said
    ctrl_c(process)
    assert process.returncode == 0
    assert snapshot(parent) == before
    assert_nothing_is_left(tmp_path)


def _ledger(config: str) -> str:
    found = re.search(r'\[ledger\]\nurl = "(.*)"', Path(config).read_text())
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    "last_words",
    ["", "folder", "S3 server", "Valkey", "programs", "open, 0/", "sealed", "read back"],
)
def test_ctrl_c_at_any_point_leaves_nothing(
    labferry: Command, tmp_path: Path, last_words: str
) -> None:
    process = labferry.start("demo", "--keep")  # it does not end before it is told to
    assert process.stdout is not None
    while last_words not in (line := process.stdout.readline()):
        assert line, "it ended before"
    said = ctrl_c(process)
    assert "Traceback" not in said
    assert process.returncode == (0 if "stays open until Ctrl-C" in said else 130)
    assert "Everything was stopped and removed" in said
    assert_nothing_is_left(tmp_path)


def test_an_impatient_ctrl_c_leaves_nothing_either(labferry: Command, tmp_path: Path) -> None:
    process = labferry.start("demo")
    assert process.stdout is not None
    while "open, " not in (line := process.stdout.readline()):
        assert line, "it ended before"
    os.killpg(process.pid, signal.SIGINT)
    os.killpg(process.pid, signal.SIGINT)
    ctrl_c(process)
    assert_nothing_is_left(tmp_path)


def test_a_killed_demo_takes_its_processes_along(labferry: Command, tmp_path: Path) -> None:
    process = labferry.start("demo")
    assert process.stdout is not None
    while "open, " not in (line := process.stdout.readline()):
        assert line, "it ended before"
    assert len(processes_below(tmp_path)) > 5
    process.kill()
    process.communicate()
    eventually(lambda: not processes_below(tmp_path))


@pytest.mark.parametrize(
    ("folder", "said"),
    [("gone", "gone is not a folder"), ("/", "has no folder above it"), ("empty", "holds no file")],
)
def test_a_source_that_cannot_be_a_run_is_named(
    labferry: Command, tmp_path: Path, folder: str, said: str
) -> None:
    (tmp_path / "empty").mkdir()
    ended = labferry.run("demo", "--source", folder)
    assert ended.code == 2
    assert ended.err.startswith("labferry: --source: ")
    assert said in ended.err
    assert_nothing_is_left(tmp_path)


def test_a_demo_without_its_s3_server_says_how_to_get_it(labferry: Command, tmp_path: Path) -> None:
    """The wheel is taken away by a path on which it is not."""
    hidden = tmp_path / "sitecustomize.py"
    hidden.write_text("import sysconfig\nsysconfig.get_path = lambda name, *_: '/nowhere'\n")
    ended = labferry.run("demo", PYTHONPATH=str(tmp_path), PATH="/nowhere")
    assert ended.code == 2
    assert "pip install 'labferry[demo]'" in ended.err
    assert_nothing_is_left(tmp_path)
