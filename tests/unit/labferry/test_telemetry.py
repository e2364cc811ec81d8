"""Are log lines events with fields, for machines and on a terminal?"""

import json
import logging
import os
import socket
import sys
from collections.abc import Iterator

import pytest

from labferry.settings_watching import LogSettings
from labferry.telemetry import configure, emit, is_told


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """Leave the loggers as they were."""
    root, ours = logging.getLogger(), logging.getLogger("labferry")
    handlers, level, own = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(own)


Said = pytest.CaptureFixture[str]


def test_a_line_is_one_event_with_its_fields(capsys: Said) -> None:
    configure("worker")
    emit("file.failed", run="seq/r1", file="Überschrift\n.txt", token=7, code="SlowDown")
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert found.pop("at_ms") > 0
    assert found == {
        "level": "info",
        "program": "worker",
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "event": "file.failed",
        "run": "seq/r1",
        "file": "Überschrift\n.txt",
        "token": 7,
        "code": "SlowDown",
    }


def test_what_others_log_is_a_line_of_the_same_form(capsys: Said) -> None:
    configure("worker")
    try:
        int("no")
    except ValueError:
        logging.getLogger("celery").exception("it went %s", "wrong")
    found = json.loads(capsys.readouterr().err)
    assert (found["event"], found["level"]) == ("it went wrong", "error")
    assert "ValueError: invalid literal" in found["traceback"]


def test_on_a_terminal_a_line_is_for_reading(capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    configure("worker")
    emit("file.failed", level=logging.WARNING, run="seq/r1", token=7)
    assert (
        capsys.readouterr().err.split(maxsplit=1)[1] == "warning file.failed run=seq/r1 token=7\n"
    )


@pytest.mark.parametrize(("form", "is_json"), [("json", True), ("plain", False)])
def test_the_form_can_be_chosen(
    capsys: Said, monkeypatch: pytest.MonkeyPatch, form: str, is_json: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_json)
    LogSettings.model_validate({"format": form}).apply("worker")
    emit("x.happened")
    assert capsys.readouterr().err.startswith("{") is is_json


@pytest.mark.parametrize(
    ("level", "told"), [("debug", ["a", "b", "c"]), ("info", ["b", "c"]), ("warning", ["c"])]
)
def test_the_level_can_be_chosen(capsys: Said, level: str, told: list[str]) -> None:
    LogSettings.model_validate({"level": level}).apply("worker")
    for event, at in (("a", logging.DEBUG), ("b", logging.INFO), ("c", logging.WARNING)):
        emit(event, level=at)
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == told
    assert is_told(logging.DEBUG) is (level == "debug")
