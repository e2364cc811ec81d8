"""Which programs does a worker host run, with which options?"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labferry.errors import SettingsError
from labferry.records import Lane
from labferry.settings import Settings, load_settings
from ops.processes import Program
from ops.worker import visible_instruments, worker_programs


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.chdir(tmp_path)
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    Path("labferry.toml").write_text(
        f"""
[store]
bucket = "lab-runs"
[instruments.A]
root = "{tmp_path}/here"
[instruments.B]
root = "{tmp_path}/gone"
[instruments.C]
root = "{tmp_path}/there"
[worker]
small_processes = 3
large_processes = 5
soft_shutdown_s = 7
"""
    )
    return load_settings()


@pytest.fixture
def events() -> Iterator[list[dict[str, Any]]]:
    """Fields of the log events, as they come."""
    seen: list[dict[str, Any]] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append({"event": record.getMessage(), **record.labferry_fields})  # type: ignore[attr-defined]

    handler, logger = Keep(), logging.getLogger("labferry")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield seen
    logger.removeHandler(handler)
    logger.setLevel(before)


def options(program: Program) -> dict[str, str]:
    pairs = (one.partition("=") for one in program.arguments if one.startswith("--"))
    return {name: value for name, _, value in pairs}


def test_an_instrument_whose_root_is_not_there_is_left_out_and_logged(
    settings: Settings, events: list[dict[str, Any]], tmp_path: Path
) -> None:
    assert visible_instruments(settings) == ["A", "C"]
    (event,) = events
    assert event["event"] == "instrument.left_out"
    assert event["instrument"] == "B"
    assert event["root"] == f"{tmp_path}/gone"
    assert event["why"] == "No such file or directory"


def test_a_host_that_sees_no_instrument_says_so(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "here").rmdir()
    (tmp_path / "there").rmdir()
    with pytest.raises(SettingsError) as caught:
        visible_instruments(settings)
    assert "instruments.A.root" in str(caught.value)
    assert "LABFERRY_INSTRUMENTS__A__ROOT" in str(caught.value)


def test_each_lane_is_a_worker_of_its_own_with_a_sweep_beside(settings: Settings) -> None:
    small, large, sweep = worker_programs(settings, list(Lane), None, sweep=True)
    assert options(small)["--queues"] == "upload.A.small,upload.C.small,labferry.control"
    assert options(large)["--queues"] == "upload.A.large,upload.C.large"
    assert options(small)["--concurrency"] == "3"
    assert options(large)["--concurrency"] == "5"
    assert options(small)["--hostname"] != options(large)["--hostname"]
    assert sweep.arguments == ("workers.sweep",)


def test_the_options_are_those_that_held_in_every_trial(settings: Settings) -> None:
    for program in worker_programs(settings, list(Lane), None, sweep=False):
        assert {
            "--disable-prefetch",
            "--task-events",
            "--without-gossip",
            "--without-mingle",
        } <= set(program.arguments)
        assert options(program)["--pool"] == "prefork"
        assert options(program)["--optimization"] == "fair"
        assert program.environment["REMAP_SIGTERM"] == "SIGQUIT"
        assert program.grace_s == 7 + 15


def test_processes_can_be_given(settings: Settings) -> None:
    (small,) = worker_programs(settings, [Lane.SMALL], 9, sweep=False)
    assert options(small)["--concurrency"] == "9"


def test_events_are_plain_data(settings: Settings, events: list[dict[str, Any]]) -> None:
    visible_instruments(settings)
    json.dumps(events)
