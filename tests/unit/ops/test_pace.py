"""Are rate and time to go what a person would reckon?"""

import pytest

from labferry.records import RunFacts
from ops.pace import WINDOW_S, Pacer
from tests.unit.ops.run_facts import run_facts


def facts(*, verified: int, files: int, size: int = 1000, skipped: int = 0) -> RunFacts:
    return run_facts(size=size, verified=verified, eligible=files - verified, skipped=skipped)


def test_a_rate_is_taken_over_the_window() -> None:
    pacer = Pacer()
    pacer.observe(facts(verified=0, files=100), 0, 0.0)
    pace = pacer.observe(facts(verified=20, files=100), 0, 4.0)
    assert pace.files_per_s == 5
    assert pace.bytes_per_s == 5000
    assert pace.eta_s == 16


def test_what_is_long_past_does_not_count() -> None:
    pacer = Pacer()
    pacer.observe(facts(verified=0, files=100), 0, 0.0)
    pacer.observe(facts(verified=90, files=100), 0, 1.0)
    pace = pacer.observe(facts(verified=90, files=100), 0, 2.0 + WINDOW_S)
    assert pace.bytes_per_s == 0
    assert pace.eta_s is None


def test_bytes_of_a_large_file_count_before_it_is_verified() -> None:
    pacer = Pacer()
    pacer.observe(facts(verified=0, files=1, size=100), 0, 0.0)
    pace = pacer.observe(facts(verified=0, files=1, size=100), 50, 2.0)
    assert pace.bytes_done == 50
    assert pace.bytes_per_s == 25


def test_what_is_left_out_is_no_work() -> None:
    pace = Pacer().observe(facts(verified=1, files=2, skipped=5), 0, 0.0)
    assert (pace.files_done, pace.files_total) == (1, 2)
    assert pace.share == 0.5


@pytest.mark.parametrize(("verified", "share"), [(0, 0.0), (1, 1.0)])
def test_a_run_of_empty_files_is_measured_in_files(verified: int, share: float) -> None:
    assert Pacer().observe(facts(verified=verified, files=1, size=0), 0, 0.0).share == share


def test_a_run_without_files_is_not_begun() -> None:
    assert Pacer().observe(facts(verified=0, files=0), 0, 0.0).share == 0
