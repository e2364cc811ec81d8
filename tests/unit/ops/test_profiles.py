"""What does `labferry profile` print, and with which code does it end?"""

import json
from pathlib import Path
from typing import Any

import pytest

from ops.cli import run_command
from ops.exits import Exit
from tests.manual_clock import ManualClock
from tests.trees import make_tree

NOVASEQ = "240101_A01234_0001_AHXXXXDRXY"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings, no servers, and no waiting between two looks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABFERRY_CONFIG", raising=False)
    monkeypatch.setattr("ops.profiles.SystemClock", ManualClock)


def facts(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = run_command(["profile", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_list_names_shipped_profiles_and_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/ours.toml").write_text('extends = "generic"\ntitle = "our own"\n')
    (tmp_path / "labferry.toml").write_text("")
    code, shown = facts(capsys, "list")
    by_name = {one["name"]: one for one in shown["profiles"]}
    assert code == Exit.DONE
    assert by_name["ours"] == {"name": "ours", "title": "our own", "extends": "generic"}
    assert "ont-minknow" in by_name
    assert run_command(["profile", "list"]) == Exit.DONE
    assert "our own" in capsys.readouterr().out


def test_a_profile_is_shown_with_what_it_has_from_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, shown = facts(capsys, "show", "illumina-novaseq")
    assert code == Exit.DONE
    assert (shown["marker"], shown["quiet_s"]) == ("CopyComplete.txt", 600)
    assert "*.part" in shown["temporary"]
    assert run_command(["profile", "show", "illumina-novaseq"]) == Exit.DONE
    assert 'marker = "CopyComplete.txt"' in capsys.readouterr().out


def test_an_unknown_profile_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["profile", "show", "novaseq9000"]) == Exit.NOT_FOUND
    assert "profile list" in capsys.readouterr().err


def test_a_folder_is_detected_with_the_clues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_tree(tmp_path, f"{NOVASEQ}/RunInfo.xml", "holiday/beach.jpg")
    code, shown = facts(capsys, "detect", str(tmp_path / NOVASEQ))
    assert code == Exit.DONE
    assert shown["fits"][0]["profile"] == "illumina-novaseq"
    assert "RunInfo.xml" in shown["fits"][0]["clues"]
    assert run_command(["profile", "detect", str(tmp_path / "holiday")]) == Exit.NOT_FOUND
    assert "--profile" in capsys.readouterr().out


@pytest.mark.parametrize(("names", "code"), [((), 3), (("CopyComplete.txt",), 0)])
def test_a_folder_is_tested_by_the_profile_that_fits_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: tuple[str, ...], code: int
) -> None:
    make_tree(tmp_path, f"{NOVASEQ}/RunInfo.xml", *(f"{NOVASEQ}/{name}" for name in names))
    ended, shown = facts(capsys, "test", str(tmp_path / NOVASEQ))
    assert ended == code
    assert shown["profile"] == "illumina-novaseq"
    assert shown["done"] is (code == 0)
    parts = {part["name"]: part for part in shown["runs"][0]["parts"]}
    assert parts["marker"]["holds"] == ("pass" if names else "fail")
    assert parts["quiet"]["holds"] == "assumed"
    assert run_command(["profile", "test", str(tmp_path / NOVASEQ)]) == code
    assert f"{'+' if names else '-'} marker" in capsys.readouterr().out


def test_a_profile_can_be_named(tmp_path: Path) -> None:
    make_tree(tmp_path, "queue/a.raw", "queue/b.RAW")
    (tmp_path / "queue/a.raw").write_bytes(b"x")
    assert run_command(["profile", "test", "queue", "--profile", "ms-thermo"]) == Exit.DONE
    assert run_command(["profile", "test", "queue", "--profile", "ms-sciex"]) == Exit.PARTIAL


@pytest.mark.parametrize("command", ["test", "detect"])
def test_a_folder_that_is_not_there_is_not_found(command: str) -> None:
    assert run_command(["profile", command, "absent"]) == Exit.NOT_FOUND
