"""How is the CRC64NVME of bytes computed, combined and written down?

S3 writes it as base64 of eight big-endian bytes; records hold it as an integer.
"""

import base64
import binascii

from awscrt import checksums


def crc64nvme(data: bytes | bytearray | memoryview, previous: int = 0) -> int:
    """Return the checksum of data, following on that of what came before it."""
    return checksums.crc64nvme(data, previous)  # type: ignore[arg-type]  # any buffer


def combine(first: int, second: int, second_size: int) -> int:
    """Return the checksum of two blocks one after the other, from theirs and the second's size."""
    return checksums.combine_crc64nvme(first, second, second_size)


def to_base64(crc64: int) -> str:
    """Return the checksum as S3 headers carry it."""
    return base64.b64encode(crc64.to_bytes(8)).decode()


def from_base64(text: str) -> int | None:
    """Read a checksum header, or return None when it is not a full-object CRC64NVME.

    A composite value ends in `-N` and says nothing about the whole.
    """
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    return int.from_bytes(raw) if len(raw) == 8 else None  # noqa: PLR2004  a CRC64's bytes
