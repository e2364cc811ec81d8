"""Is the CRC64NVME the standard one, and does it survive being combined and written down?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry.s3.checksum import combine, crc64nvme, from_base64, to_base64


def test_the_check_value_of_the_standard() -> None:
    assert crc64nvme(b"123456789") == 0xAE8B14860A799888
    assert crc64nvme(b"") == 0


def test_it_is_written_as_s3_writes_it() -> None:
    assert to_base64(0xAE8B14860A799888) == "rosUhgp5mIg="
    assert to_base64(0) == "AAAAAAAAAAA="


@given(first=st.binary(), second=st.binary())
def test_two_blocks_combine_to_the_whole(first: bytes, second: bytes) -> None:
    whole = crc64nvme(first + second)
    assert combine(crc64nvme(first), crc64nvme(second), len(second)) == whole
    assert crc64nvme(second, crc64nvme(first)) == whole


@given(st.integers(0, 2**64 - 1))
def test_it_can_be_read_back(crc64: int) -> None:
    assert from_base64(to_base64(crc64)) == crc64


@pytest.mark.parametrize("text", ["", "rosUhgp5mIg=-3", "AAAA", "no base64!"])
def test_what_is_not_the_checksum_of_a_whole_is_none(text: str) -> None:
    assert from_base64(text) is None
