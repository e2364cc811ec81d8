"""Does a list of checksums that comes after its files hold the run until they were held to it?"""

import hashlib
from pathlib import Path

import pytest

from labferry.completion import RunState
from labferry.source.done import Holds, Part
from labferry.states import State
from producer.report import RunReport
from tests.integration.test_producer import Lab, once, run_report

DIGEST = hashlib.md5(b"x").hexdigest().encode()


@pytest.fixture
def lab(tmp_path: Path, ledger_url: str) -> Lab:
    root = tmp_path / "root"
    root.mkdir()
    return Lab(root, ledger_url)


def part(report: RunReport) -> Part:
    (found,) = [one for one in report.done if one.name == "sidecars"]
    return found


def arrived(lab: Lab, **lists: bytes) -> RunReport:
    """A file that was verified before these lists and the marker came."""
    agent = lab.agent(profile="generic-marker", marker="done")
    lab.write("a")
    once(agent)
    once(agent)
    lab.verify("a")
    for name, content in lists.items():
        lab.write(name, content)
    lab.write("done")
    once(agent)
    return run_report(once(agent))


def test_a_file_verified_before_its_list_came_is_sent_in_again_before_the_seal(lab: Lab) -> None:
    report = arrived(lab, **{"a.md5": DIGEST})
    assert report.state == RunState.OPEN
    assert part(report).holds is Holds.FAIL
    assert "1 files are to be checked yet, such as a" in part(report).looked_at
    assert lab.state("a") is State.ELIGIBLE
    assert lab.codes("a") == ["list_came_later"]
    agent = lab.agent(profile="generic-marker", marker="done")
    report = run_report(once(agent))
    assert report.state == RunState.SEALED  # whoever reads it now finds the list
    assert part(report).looked_at == "1 lists name 1 files"
    lab.verify("a", "a.md5")
    once(agent)
    assert lab.codes("a") == ["list_came_later"]


def test_a_list_of_files_that_are_not_there_holds_the_run(lab: Lab) -> None:
    report = arrived(lab, **{"gone.md5": DIGEST})
    assert report.state == RunState.OPEN
    assert "gone (in gone.md5)" in part(report).looked_at


@pytest.mark.parametrize("content", [b"", b"\r\n", b"no digest here\n", DIGEST + b"  ../a\n"])
def test_a_list_from_which_nothing_could_be_read_never_passes(lab: Lab, content: bytes) -> None:
    report = arrived(lab, MD5SUMS=content)
    assert report.state == RunState.OPEN
    assert part(report).holds is Holds.FAIL


def test_a_run_without_lists_needs_none(lab: Lab) -> None:
    report = arrived(lab)
    assert report.state == RunState.SEALED
    assert (part(report).holds, part(report).needed) == (Holds.NOT_POSSIBLE, False)
