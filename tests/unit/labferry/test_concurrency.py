"""Is a far endpoint filled, and a slow one not flooded?"""

from collections.abc import Callable

import pytest

from labferry.concurrency import Concurrency


def after(seconds: float, rate: Callable[[int], float], *, least: int = 16) -> Concurrency:
    """Return what came of an endpoint that answers at a rate, by how many are under way."""
    return went_on(Concurrency(least, 256), 0.0, seconds, rate)


def went_on(
    concurrency: Concurrency, now_s: float, until_s: float, rate: Callable[[int], float]
) -> Concurrency:
    while now_s < until_s:
        now_s += 1 / rate(concurrency.limit)
        concurrency.answered(now_s)
    return concurrency


def parts() -> Concurrency:
    """Of large files: two at first, and no longer gap than the wait for an answer."""
    return Concurrency(2, 8, gap_s=60.0)


def test_a_far_endpoint_is_filled_within_seconds() -> None:
    assert after(5, lambda limit: limit / 0.025).limit == 256


def test_an_endpoint_that_is_at_its_limit_is_asked_for_no_more() -> None:
    assert after(5, lambda _: 1000.0).limit == 16


@pytest.mark.parametrize("best", [32, 64, 128])
def test_as_many_as_make_it_faster_are_under_way(best: int) -> None:
    found = after(30, lambda limit: min(limit, best) * 40.0).limit
    assert found == best


def test_an_endpoint_that_became_slow_is_relieved() -> None:
    concurrency, now_s = after(5, lambda limit: limit * 40.0), 5.0
    assert concurrency.limit == 256
    while now_s < 200:
        now_s += 1 / 2000
        concurrency.answered(now_s)
    assert concurrency.limit <= 32


def test_a_pause_between_bundles_is_none_of_the_endpoints() -> None:
    concurrency, now_s = Concurrency(16, 256), 0.0
    for _ in range(200):
        for _ in range(20):
            now_s += 0.025 / concurrency.limit
            concurrency.answered(now_s)
        now_s += 5
    assert concurrency.limit > 16


def test_nobody_sends_less_than_the_settings_say() -> None:
    assert after(60, lambda limit: 1000.0 / limit).limit == 16


def test_parts_fill_an_endpoint_that_takes_each_slowly() -> None:
    # 16 MiB at 60 MB/s a connection, as S3 takes them.
    assert went_on(parts(), 0.0, 10, lambda limit: limit / 0.28).limit == 8


def test_parts_do_not_flood_a_slow_link() -> None:
    # 16 MiB at 10 MB/s for all together: seconds between two answers.
    limits: list[int] = []

    def rate(limit: int) -> float:
        limits.append(limit)
        return 0.6

    went_on(parts(), 0.0, 3600, rate)
    assert max(limits) == 4
    assert limits.count(2) > len(limits) / 2


def test_parts_are_fewer_again_on_a_link_that_became_slow() -> None:
    fast = went_on(parts(), 0.0, 10, lambda limit: limit / 0.28)
    assert fast.limit == 8
    assert went_on(fast, 10.0, 600, lambda _: 0.6).limit <= 4


def test_what_lies_between_two_files_is_none_of_the_endpoints() -> None:
    concurrency, now_s, limits = parts(), 0.0, []
    for _ in range(3):
        for _ in range(12):
            now_s += 0.28 / concurrency.limit
            concurrency.answered(now_s)
            limits.append(concurrency.limit)
        now_s += 30.0
        concurrency.pause()
    assert limits == sorted(limits)
    assert limits[-1] == 8
