"""How fast does a share fill, by looks at its room alone?"""

from pathlib import Path

import pytest

from labferry.passes import Space
from producer.space import SHORTEST_S, WINDOW_S, SpaceLooks

GB = 10**9


def test_the_rate_is_what_went_in_the_window(tmp_path: Path) -> None:
    looks = SpaceLooks(tmp_path)
    assert looks.observe(0, 100 * GB, 200 * GB).left_s is None
    seen = looks.observe(100, 90 * GB, 200 * GB)
    assert seen.fills_bytes_per_s == pytest.approx(GB / 10)
    assert seen.left_s == pytest.approx(900)


def test_no_rate_is_made_of_a_moment(tmp_path: Path) -> None:
    looks = SpaceLooks(tmp_path)
    looks.observe(0, 100 * GB, 200 * GB)
    assert looks.observe(SHORTEST_S - 1, 90 * GB, 200 * GB).left_s is None


def test_a_share_that_is_emptied_does_not_fill(tmp_path: Path) -> None:
    looks = SpaceLooks(tmp_path)
    looks.observe(0, 10 * GB, 200 * GB)
    assert looks.observe(SHORTEST_S, 150 * GB, 200 * GB).left_s is None


def test_what_was_long_ago_is_forgotten(tmp_path: Path) -> None:
    looks = SpaceLooks(tmp_path)
    for minute in range(120):
        full_rate = minute < 60
        looks.observe(minute * 60.0, (200 - minute if full_rate else 140) * GB, 200 * GB)
    seen = looks.observe(120 * 60.0, 140 * GB, 200 * GB)
    assert WINDOW_S < 3600
    assert seen.fills_bytes_per_s == 0


def test_a_new_agent_goes_on_with_the_rate_that_was_told(tmp_path: Path) -> None:
    known = Space(free_bytes=GB, total_bytes=GB, fills_bytes_per_s=7)
    assert SpaceLooks(tmp_path, known).observe(0, GB, GB).fills_bytes_per_s == 7


def test_the_room_is_that_of_the_share(tmp_path: Path) -> None:
    seen = SpaceLooks(tmp_path).look(0)
    assert seen is not None
    assert 0 < seen.free_bytes <= seen.total_bytes
    assert SpaceLooks(tmp_path / "gone").look(0) is None
