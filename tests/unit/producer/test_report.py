"""What do people, programs and the log learn of a pass?"""

import json
import logging
from dataclasses import replace

import pytest

from labferry.source.done import Holds, Part
from producer.__main__ import exit_code
from producer.notices import Notices
from producer.report import Condition, InstrumentReport, RunReport
from producer.shown import lines

RUN = RunReport(run="inst/run1", state="open", files=3)
REPORT = InstrumentReport(instrument="inst", condition=Condition.SCANNED, runs=(RUN,))


def of(**fields: object) -> InstrumentReport:
    return replace(REPORT, **fields)  # type: ignore[arg-type]


def with_run(**fields: object) -> InstrumentReport:
    return of(runs=(replace(RUN, **fields),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (REPORT, 0),
        (of(condition=Condition.NOTHING_YET), 0),
        (with_run(held_back=1, waiting=2, vanished=1, refused=1), 0),
        (of(condition=Condition.SHARE_UNAVAILABLE), 3),
        (with_run(errors=1), 3),
        (of(unusable=("a name",)), 3),
        (of(unreadable=("a folder",)), 3),
        (of(condition=Condition.FAILED), 1),
        (with_run(failure="KeyError: 'x'"), 1),
        (of(condition=Condition.LEDGER_UNAVAILABLE), 75),
        (of(broker="down"), 75),
        (of(condition=Condition.STOPPED), 130),
    ],
)
def test_the_exit_code_says_how_a_pass_went(report: InstrumentReport, code: int) -> None:
    assert exit_code([REPORT, report]) == code


def test_a_person_reads_counts_names_and_what_is_not_done() -> None:
    report = with_run(
        new=2,
        settled=1,
        held_back=1,
        temporary=("x.tmp",),
        errors=1,
        unreadable=("sub: EACCES",),
        done=(
            Part(name="quiet", holds=Holds.FAIL, looked_at="nothing changed for 3 s"),
            Part(name="settled", holds=Holds.PASS, looked_at="files not at rest: 0"),
        ),
    )
    text = "\n".join(lines([report]))
    for expected in (
        "inst/run1: open, 3 files, 2 new, 1 settled, 1 held back, 1 unreadable",
        "held back: x.tmp",
        "unreadable: sub: EACCES",
        "not done: quiet (fail): nothing changed for 3 s",
    ):
        assert expected in text
    assert "not done: settled" not in text


def test_a_person_reads_why_nothing_was_concluded() -> None:
    report = of(condition=Condition.SHARE_UNAVAILABLE, why="/mnt/x: ENOENT.", runs=())
    assert list(lines([report])) == ["inst: share unavailable, /mnt/x: ENOENT."]


def test_the_report_is_json() -> None:
    report = with_run(done=(Part(name="quiet", holds=Holds.FAIL, looked_at="-"),))
    facts = json.loads(json.dumps(report.to_json()))
    assert facts["instrument"] == "inst"
    assert facts["runs"][0]["files"] == 3
    assert facts["runs"][0]["done"][0] == {
        "name": "quiet",
        "holds": "fail",
        "looked_at": "-",
        "needed": True,
    }


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


def test_a_trouble_is_logged_when_it_begins_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="labferry")
    notices = Notices("inst")
    away = of(condition=Condition.SHARE_UNAVAILABLE, runs=())
    expected = [
        (REPORT, []),
        (away, ["scan.trouble"]),
        (away, []),
        (of(condition=Condition.STOPPED), []),
        (away, []),
        (REPORT, ["scan.trouble.over"]),
        (with_run(errors=1, unreadable=("a: EACCES",)), ["run.unreadable"]),
        (with_run(errors=1, unreadable=("a: EACCES",)), []),
        (REPORT, ["run.unreadable.over"]),
        (of(broker="down"), ["scan.broker_unavailable"]),
        (REPORT, ["scan.broker_unavailable.over"]),
    ]
    for report, logged in expected:
        notices.give(report)
        assert events(caplog) == logged


def test_a_pass_that_did_nothing_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="labferry")
    notices = Notices("inst")
    notices.give(with_run(waiting=3, left_out=2))
    assert events(caplog) == []
    notices.give(
        with_run(settled=3, state="sealed", done=(Part(name="-", holds=Holds.PASS, looked_at="-"),))
    )
    assert events(caplog) == ["run.scanned", "run.sealed"]
