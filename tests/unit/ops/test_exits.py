"""Does every error end in its exit code and one sentence?"""

import subprocess
import sys
from pathlib import Path

import pytest

from labferry.errors import (
    BadName,
    BrokerUnavailable,
    LabferryError,
    LedgerUnavailable,
    NotFound,
    Refused,
    SettingsError,
    StoreError,
)
from ops.cli import run_command
from ops.exits import Exit, end_with_code, exit_of
from ops.interrupts import Interrupted

ERRORS = [
    (SettingsError(field="a", why="b", step="c"), 2),
    (BadName(name="a", why="b"), 2),
    (Refused(what="a", why="b", step="c"), 4),
    (NotFound(what="a", step="b"), 5),
    (LedgerUnavailable(url="a", why="b"), 75),
    (BrokerUnavailable(why="b"), 75),
    (StoreError(operation="Put", key="k", code="ReadTimeoutError"), 75),
    (StoreError(operation="Put", key="k", code="SlowDown", status=503), 75),
    (StoreError(operation="Put", key="k", code="AccessDenied", status=403), 1),
    (LabferryError("other"), 1),
]


@pytest.mark.parametrize(("error", "code"), ERRORS, ids=lambda one: type(one).__name__)
def test_an_error_has_its_exit_code(error: LabferryError, code: int) -> None:
    assert exit_of(error) == code


def test_an_error_is_one_sentence_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        raise NotFound(what="the run A/b", step="Look again.")

    assert end_with_code(command) == Exit.NOT_FOUND
    assert capsys.readouterr().err == "labferry: the run A/b is not known. Look again.\n"


def test_a_fault_of_our_own_shows_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        raise KeyError("ours")

    assert end_with_code(command) == Exit.FAILED
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.endswith(
        "labferry: this is a fault of labferry's; please report it with the above.\n"
    )


def test_a_full_disk_is_no_fault_of_our_own() -> None:
    command = [sys.executable, "-m", "ops", "profile", "list"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == Exit.FAILED
    assert ended.stderr.startswith("labferry: No space left on device. Make room where its output")
    assert ended.stderr.count("\n") == 1


def test_ctrl_c_ends_with_130() -> None:
    def command() -> None:
        raise Interrupted(2)

    assert end_with_code(command) == 130


def test_a_command_that_returns_a_code_ends_with_it() -> None:
    assert end_with_code(lambda: Exit.PARTIAL) == 3
    assert end_with_code(lambda: None) == 0


def test_each_code_has_a_meaning() -> None:
    assert [code.value for code in Exit] == [0, 1, 2, 3, 4, 5, 75, 130]
    assert all(code.meaning for code in Exit)


def test_wrong_usage_names_the_help_of_the_command_it_is_about(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["verify"]) == Exit.USAGE
    assert capsys.readouterr().err.endswith(
        "Missing argument 'RUN'. See `labferry verify --help`.\n"
    )


def test_a_group_of_commands_alone_shows_its_help_and_no_empty_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(["dead-letters"]) == Exit.USAGE
    assert capsys.readouterr().err == ""
