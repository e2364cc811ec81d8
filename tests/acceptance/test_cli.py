"""The command as an operator meets it: exit code, what is said where, and what is left."""

import base64
import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import redis

from labferry.identity import RunKey
from labferry.ledger import open_ledger
from labferry.records import Fingerprint, Step
from labferry.settings import LedgerSettings
from labferry.states import Event, State
from ops.cli import app
from ops.embedded import Valkey, Weed
from ops.exits import Exit
from ops.loopback import free_ports
from tests.acceptance.command import Command, ctrl_c, processes_below
from tests.services import credentials
from tests.waiting import PATIENCE_S, eventually

RUN = RunKey("scope", "run 1")
COMMANDS = [
    command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands
]


def silent_port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "share"
    (root / "run 1").mkdir(parents=True)
    (root / "run 1" / "a.txt").write_text("data")
    return root


@pytest.fixture
def labferry(
    tmp_path: Path, root: Path, weed: Weed, ledger_url: str, broker_url: str
) -> Iterator[Command]:
    """The command in a folder with a sound labferry.toml and real servers."""
    (tmp_path / "labferry.toml").write_text(
        f"""
[store]
bucket = "{weed.bucket}"
endpoint_url = "{weed.endpoint}"
prefix = "{tmp_path.name}"
[ledger]
url = "{ledger_url}"
sweep_interval_s = 0.3
[broker]
url = "{broker_url}"
[worker]
small_processes = 1
large_processes = 1
soft_shutdown_s = 1
[monitor]
port = 0
[flower]
port = {silent_port()}
[instruments.scope]
root = "{root}"
quiet_s = 0.5
settle_window_s = 0.3
scan_interval_s = 0.3
"""
    )
    command = Command(tmp_path, credentials(weed))
    yield command
    command.close()


def record_a_file(ledger_url: str, state: State = State.DISCOVERED) -> None:
    ledger = open_ledger(LedgerSettings(url=ledger_url))
    fingerprint = Fingerprint(size=4, mtime_ns=1, inode=2, ctime_ns=3)
    ledger.discover(RUN, [("a.txt", fingerprint)])
    if state is State.QUARANTINED:
        ledger.move(RUN, Event.REFUSE, [Step(path="a.txt")])


# -- help


def test_help_names_every_command_and_every_exit_code(tmp_path: Path) -> None:
    page = Command(tmp_path, {}).run("--help")
    assert page.code == 0
    for command in COMMANDS:
        assert re.search(rf"(?m)^│ {command} ", page.out), command
    for code in Exit:
        assert re.search(rf"(?m)^ *{code.value}  {re.escape(code.meaning)}", page.out)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(tmp_path: Path, command: str) -> None:
    page = Command(tmp_path, {}).run(command, "--help")
    assert page.code == 0
    assert f"labferry {command}" in page.out


def test_a_shell_completes_commands(tmp_path: Path) -> None:
    asked = {"_LABFERRY_COMPLETE": "complete_bash", "COMP_WORDS": "labferry dea", "COMP_CWORD": "1"}
    assert Command(tmp_path, asked).run().out.split() == ["dead-letters"]


def test_a_command_that_does_not_exist_names_the_nearest(tmp_path: Path) -> None:
    ended = Command(tmp_path, {}).run("statsu")
    assert ended.code == 2
    assert ended.out == ""
    assert "Did you mean 'status'?" in ended.err


def test_no_command_shows_the_page_and_is_a_usage_error(tmp_path: Path) -> None:
    ended = Command(tmp_path, {}).run()
    assert ended.code == 2
    assert "labferry demo" in ended.out


# -- settings


@pytest.mark.parametrize(
    "command", ["status", "scan", "agent", "worker", "sweep", "flower", "monitor", "up"]
)
def test_without_settings_every_command_names_the_field(tmp_path: Path, command: str) -> None:
    ended = Command(tmp_path, {}).run(command)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err == (
        "labferry: store.bucket: it is not set. Set `bucket` under [store] of labferry.toml "
        "(there is none here; `labferry init` writes one), or LABFERRY_STORE__BUCKET.\n"
    )


def test_an_unknown_setting_is_named_with_file_and_variable(labferry: Command) -> None:
    with (labferry.folder / "labferry.toml").open("a") as file:
        file.write("\n[worker2]\nprocesses = 3\n")
    ended = labferry.run("status")
    assert ended.code == 2
    assert ended.err.startswith("labferry: worker2: labferry has no such setting.")


def test_config_stands_before_or_after_the_command(labferry: Command, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere.toml"
    (tmp_path / "labferry.toml").rename(moved)
    assert labferry.run("--config", str(moved), "status").code == 0
    assert labferry.run("status", "--config", str(moved)).code == 0
    assert labferry.run("status", LABFERRY_CONFIG=str(moved)).code == 0
    assert labferry.run("status").code == 2


def test_init_writes_what_the_other_commands_read(labferry: Command, tmp_path: Path) -> None:
    (tmp_path / "labferry.toml").unlink()
    written = labferry.run("init")
    assert (written.code, written.err) == (0, "")
    assert "labferry doctor" in written.out
    ended = labferry.run("worker")
    assert ended.code == 2
    assert "instruments.NovaSeq1.root: /data/NovaSeq1: No such file or directory" in ended.err
    again = labferry.run("init")
    assert again.code == 4
    assert again.err.startswith("labferry: labferry.toml: it is there already")


# -- servers and roots that are not as they should be


@pytest.mark.parametrize("command", [["status"], ["worker"], ["explain", "scope/run 1/a.txt"]])
def test_a_ledger_that_does_not_answer_is_named(labferry: Command, command: list[str]) -> None:
    url = f"redis://:secret@127.0.0.1:{silent_port()}/1"
    ended = labferry.run(*command, LABFERRY_LEDGER__URL=url)
    assert ended.code == 75
    assert ended.out == ""
    assert "the ledger at redis://:***@127.0.0.1" in ended.err
    assert "Check [ledger] url" in ended.err
    assert "secret" not in ended.err
    assert "Traceback" not in ended.err


def test_a_missing_bucket_is_named_and_never_created(labferry: Command, weed: Weed) -> None:
    ended = labferry.run("up", LABFERRY_STORE__BUCKET="never-made")
    assert ended.code == 2
    assert "store.bucket: there is no bucket 'never-made'" in ended.err
    assert "labferry creates none" in ended.err
    session = boto3.Session(weed.access_key, weed.secret_key, region_name="us-east-1")
    buckets = session.client("s3", endpoint_url=weed.endpoint).list_buckets()["Buckets"]
    assert [bucket["Name"] for bucket in buckets] == [weed.bucket]


@pytest.mark.parametrize("variable", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_wrong_credentials_are_named(labferry: Command, variable: str) -> None:
    ended = labferry.run("up", **{variable: "wrong"})
    assert ended.code == 2
    assert "credentials: " in ended.err
    assert "Set AWS_ACCESS_KEY_ID" in ended.err


def test_missing_credentials_are_named(labferry: Command, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del labferry.environment[name]
    ended = labferry.run("up", HOME=str(tmp_path))
    assert ended.code == 2
    assert "credentials: none are found" in ended.err


def test_an_endpoint_that_does_not_answer_is_named(labferry: Command) -> None:
    ended = labferry.run("up", LABFERRY_STORE__ENDPOINT_URL=f"http://127.0.0.1:{silent_port()}")
    assert ended.code == 75
    assert "Check [store] endpoint_url" in ended.err


def test_a_root_that_is_not_there_is_named_by_scan(labferry: Command, tmp_path: Path) -> None:
    ended = labferry.run("scan", LABFERRY_INSTRUMENTS__SCOPE__ROOT=str(tmp_path / "gone"))
    assert ended.code != 0
    assert str(tmp_path / "gone") in ended.err
    assert "Traceback" not in ended.err


def test_a_worker_that_sees_no_root_says_where_to_set_it(labferry: Command, tmp_path: Path) -> None:
    ended = labferry.run("worker", LABFERRY_INSTRUMENTS__SCOPE__ROOT=str(tmp_path / "gone"))
    assert ended.code == 2
    assert "instruments.scope.root" in ended.err
    assert "LABFERRY_INSTRUMENTS__SCOPE__ROOT" in ended.err


# -- look


def test_status_prints_the_fixed_json(labferry: Command, ledger_url: str) -> None:
    record_a_file(ledger_url)
    ended = labferry.run("status", "--json")
    assert (ended.code, ended.err) == (0, "")
    shown = json.loads(ended.out)
    (instrument,) = shown["instruments"]
    assert instrument["instrument"] == "scope"
    assert instrument["condition"] == "arriving"
    assert instrument["backlog"] == 1
    (run,) = shown["runs"]
    fixed = {
        "run": "scope/run 1",
        "state": "open",
        "generation": 1,
        "files": {**dict.fromkeys(map(str, State), 0), "discovered": 1},
        "bytes": {**dict.fromkeys(map(str, State), 0), "discovered": 4},
        "marker": None,
    }
    assert fixed.items() <= run.items()


def test_status_fits_80_columns(labferry: Command, ledger_url: str) -> None:
    record_a_file(ledger_url)
    ended = labferry.run("status")
    assert ended.code == 0
    assert max(map(len, ended.out.splitlines())) <= 80
    assert "arriving" in ended.out


def test_a_run_or_file_that_is_not_known_is_not_found(labferry: Command, ledger_url: str) -> None:
    record_a_file(ledger_url)
    assert labferry.run("status", "scope/other").code == 5
    assert labferry.run("explain", "scope/other/a.txt").code == 5
    ended = labferry.run("explain", "scope/run 1/b.txt")
    assert ended.code == 5
    assert ended.err.startswith("labferry: the file scope/run 1/b.txt is not known.")


def test_a_run_of_which_the_bucket_has_nothing_is_known_and_not_safe(
    labferry: Command, ledger_url: str
) -> None:
    record_a_file(ledger_url)
    ended = labferry.run("safe-to-delete", "scope/run 1", "--json")
    assert ended.code == 4
    (reason,) = json.loads(ended.out)["reasons"]
    assert reason["why"] == "the run is open, and the bucket has nothing of it"
    verified = labferry.run("verify", "scope/run 1")
    assert verified.code == 5
    assert verified.err.startswith("labferry: in the bucket, the run scope/run 1 is not known.")


@pytest.mark.parametrize("name", ["scope", "scope/", "scope//run"])
def test_what_is_no_run_to_verify_is_a_usage_error(labferry: Command, name: str) -> None:
    ended = labferry.run("verify", name)
    assert ended.code == 2
    assert ended.err.startswith(f"labferry: RUN: '{name}' is not INSTRUMENT/RUN.")


def test_a_cancel_of_no_batch_is_refused_and_not_put_on_record(
    labferry: Command, ledger_url: str
) -> None:
    assert labferry.run("replay", "--cancel", "7", "--reason", "wrong").code == 5
    assert list(open_ledger(LedgerSettings(url=ledger_url)).audit(None)) == []


def test_what_is_no_key_is_a_usage_error(labferry: Command) -> None:
    ended = labferry.run("explain", "scope")
    assert ended.code == 2
    assert "'scope' is not INSTRUMENT/RUN/PATH" in ended.err


def test_explain_prints_facts_for_people_and_programs(labferry: Command, ledger_url: str) -> None:
    record_a_file(ledger_url, State.QUARANTINED)
    ended = labferry.run("explain", "scope/run 1/a.txt")
    assert ended.code == 0
    assert "quarantined" in ended.out
    assert "a person" in ended.out
    shown = json.loads(labferry.run("explain", "scope/run 1/a.txt", "--json").out)
    assert shown["state"] == "quarantined"
    assert shown["object_key"] == f"{labferry.folder.name}/raw/scope/run 1/a.txt"


def test_watching_says_what_changes_until_ctrl_c(labferry: Command, ledger_url: str) -> None:
    record_a_file(ledger_url)
    watching = labferry.start("status", "scope/run 1", "--watch")
    assert watching.stdout is not None
    assert watching.stdout.readline() == "scope/run 1: open, 0/1 files 0 bytes\n"
    assert ctrl_c(watching) == ""
    assert watching.returncode == 130


def test_watching_one_run_ends_when_only_a_person_can_move_it(
    labferry: Command, ledger_url: str
) -> None:
    record_a_file(ledger_url)
    watching = labferry.start("status", "scope/run 1", "--watch")
    assert watching.stdout is not None
    watching.stdout.readline()
    ledger = open_ledger(LedgerSettings(url=ledger_url))
    ledger.move(RUN, Event.REFUSE, [Step(path="a.txt")])
    assert ledger.seal(RUN, [], 1)
    said, _ = watching.communicate(timeout=PATIENCE_S)
    assert watching.returncode == 3
    assert "scope/run 1: incomplete" in said


# -- programs


def consumers(broker_url: str) -> int:
    """Return how many Celery workers wait for a message."""
    with redis.Redis.from_url(broker_url) as client:
        database = client.connection_pool.connection_kwargs["db"]
        listed = client.client_list(_type="normal")
    return sum(one["cmd"] == "brpop" and one["db"] == str(database) for one in listed)


def test_a_worker_stops_in_good_order_and_leaves_no_process(
    labferry: Command, tmp_path: Path, broker_url: str
) -> None:
    worker = labferry.start("worker")
    eventually(lambda: consumers(broker_url) == 2)
    said = ctrl_c(worker)
    assert worker.returncode == 130
    assert "\nTraceback" not in said  # Celery may log one of its own when it is stopped early
    assert processes_below(tmp_path) == []


def test_sigterm_is_an_orderly_end(labferry: Command, tmp_path: Path, broker_url: str) -> None:
    worker = labferry.start("worker", "--lane", "small", "--no-sweep")
    eventually(lambda: consumers(broker_url) == 1)
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=PATIENCE_S)
    assert worker.returncode == 0
    assert processes_below(tmp_path) == []


def test_up_ferries_and_a_second_one_is_refused(
    labferry: Command, tmp_path: Path, weed: Weed
) -> None:
    """With a ledger of its own, which is still there the next time."""
    config = tmp_path / "labferry.toml"
    config.write_text(re.sub(r"(?m)^url = .*\n", "", config.read_text()))
    up = labferry.start("up", "--data", "kept")
    try:
        key = f"{tmp_path.name}/runs/scope/run 1/1/complete.json"
        eventually(lambda: marker(weed, key))
        others = {f"LABFERRY_{one}__PORT": str(silent_port()) for one in ("FLOWER", "MONITOR")}
        second = labferry.run("up", "--data", "kept", **others)
        assert second.code == 4
        assert "another `labferry up` runs with this folder" in second.err
    finally:
        said = ctrl_c(up)
    assert up.returncode == 130
    assert processes_below(tmp_path) == []
    valkey = re.search(r"redis://127.0.0.1:(\d+)/0, kept in", said)
    assert valkey is not None
    with Valkey(tmp_path / "kept" / "valkey") as ledger:
        shown = labferry.run("status", "--json", LABFERRY_LEDGER__URL=ledger.url(1))
        assert json.loads(shown.out)["runs"][0]["state"] == "complete"
        safe = labferry.run("safe-to-delete", "scope/run 1", LABFERRY_LEDGER__URL=ledger.url(1))
        assert (safe.code, "It is not signed" in safe.err) == (0, True)
        none = labferry.run("replay", "--all", "--reason", "r", LABFERRY_LEDGER__URL=ledger.url(1))
        assert (none.code, "dead-letters list" in none.out) == (0, True)
    assert labferry.run("verify", "scope/run 1").code == 0
    deep = labferry.run("verify", "scope/run 1", "--deep")
    assert (deep.code, "source read and hashed: " in deep.out) == (0, True), deep.out


def marker(weed: Weed, key: str) -> bool:
    session = boto3.Session(weed.access_key, weed.secret_key, region_name="us-east-1")
    client = session.client("s3", endpoint_url=weed.endpoint)
    return bool(client.list_objects_v2(Bucket=weed.bucket, Prefix=key)["KeyCount"] == 1)


# -- Flower


def test_the_doctor_s_exit_code_says_whether_labferry_can_work(labferry: Command) -> None:
    fit = labferry.run("doctor", "--json")
    facts = json.loads(fit.out)
    assert (fit.code, facts["exit"]) == (Exit.DONE, Exit.DONE), fit
    assert {one["area"] for one in facts["findings"]} == {
        "installation", "flower", "share", "ledger", "broker", "workers", "bucket",
    }  # fmt: skip
    bad = labferry.run("doctor", LABFERRY_FLOWER__ADDRESS="0.0.0.0")
    assert bad.code == Exit.FAILED
    assert "LABFERRY_FLOWER__BASIC_AUTH" in " ".join(bad.out.split())
    away = labferry.run("doctor", LABFERRY_LEDGER__URL=f"redis://127.0.0.1:{silent_port()}/1")
    assert away.code == Exit.UNAVAILABLE


def test_up_starts_nothing_where_a_promise_would_be_broken(labferry: Command) -> None:
    ended = labferry.run("up", LABFERRY_BROKER__URL=f"redis://127.0.0.1:{silent_port()}/0")
    assert ended.code == Exit.REFUSED
    assert "labferry doctor" in ended.err


def test_flower_is_refused_on_an_open_address_without_a_password(labferry: Command) -> None:
    ended = labferry.run("flower", LABFERRY_FLOWER__ADDRESS="0.0.0.0")
    assert ended.code == 4
    assert ended.out == ""
    assert "Set LABFERRY_FLOWER__BASIC_AUTH=user:password" in ended.err


@pytest.fixture
def flower(labferry: Command, request: pytest.FixtureRequest) -> Iterator[str]:
    """Flower with these variables; its address."""
    process = labferry.start("flower", **request.param)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("Flower: ").strip()
        eventually(lambda: answer(address) is not None)
        yield address
    finally:
        ctrl_c(process)


def answer(url: str, *, password: str = "", method: str = "GET") -> int | None:
    """Return the status, or None while nobody listens."""
    request = urllib.request.Request(url, method=method, data=b"" if method == "POST" else None)
    if password:
        coded = base64.b64encode(password.encode()).decode()
        request.add_header("Authorization", f"Basic {coded}")
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            status: int = response.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return None


@pytest.mark.parametrize("flower", [{"FLOWER_UNAUTHENTICATED_API": "true"}], indirect=True)
def test_flower_shows_pages_on_loopback_and_its_api_stays_shut(flower: str) -> None:
    assert answer(flower) == 200
    assert answer(f"{flower}tasks") == 200
    assert answer(f"{flower}api/tasks") == 401
    assert answer(f"{flower}api/worker/shutdown/any", method="POST") in (401, 403)


PROTECTED: dict[str, Any] = {
    "LABFERRY_FLOWER__BASIC_AUTH": "ada:with,comma",
    "LABFERRY_FLOWER__URL_PREFIX": "flower",
}


@pytest.mark.parametrize("flower", [PROTECTED], indirect=True)
def test_flower_behind_a_password_shows_and_never_acts(flower: str) -> None:
    assert flower.endswith("/flower/")
    for page in ("", "tasks", "api/tasks"):
        assert answer(f"{flower}{page}") == 401
        assert answer(f"{flower}{page}", password="ada:with") == 401
        assert answer(f"{flower}{page}", password="ada:with,comma") == 200
    for act in ("api/worker/shutdown/any", "api/task/revoke/any", "api/task/apply/labferry.upload"):
        assert answer(f"{flower}{act}", password="ada:with,comma", method="POST") == 403


@pytest.mark.parametrize("flower", [PROTECTED], indirect=True)
def test_no_password_is_to_be_seen_in_the_list_of_processes(flower: str, tmp_path: Path) -> None:
    assert flower
    listed = processes_below(tmp_path)
    assert listed
    assert not any("comma" in line for line in listed)
