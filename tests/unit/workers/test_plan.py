"""Into which parts is a file cut?"""

from hypothesis import given
from hypothesis import strategies as st

from labferry.settings import MIB, StoreSettings
from workers.plan import part_size_of

SETTINGS = StoreSettings(bucket="bucket", part_size_bytes=5 * MIB, max_parts=1000)


def test_a_part_has_the_size_of_the_settings() -> None:
    assert part_size_of(1, SETTINGS) == 5 * MIB
    assert part_size_of(5000 * MIB, SETTINGS) == 5 * MIB


def test_a_part_grows_when_there_would_be_too_many() -> None:
    assert part_size_of(5000 * MIB + 1, SETTINGS) == 6 * MIB


@given(st.integers(1, 50 * 1024**4), st.integers(5 * MIB, 512 * MIB), st.integers(1, 10_000))
def test_parts_are_whole_mebibytes_and_never_too_many(size: int, part: int, most: int) -> None:
    settings = StoreSettings(bucket="bucket", part_size_bytes=part, max_parts=most)
    part_size = part_size_of(size, settings)
    assert part_size >= part
    assert part_size % MIB == 0
    assert -(-size // part_size) <= most
