"""What are the bytes of a file at its source now?"""

from collections.abc import Callable

from labferry.s3.checksum import crc64nvme
from labferry.source.claims import RunReader

_BLOCK_BYTES = 1024 * 1024


def source_checksum(
    reader: RunReader,
    path: str,
    *,
    most: int | None = None,
    check: Callable[[], None] = lambda: None,
) -> tuple[int, int]:
    """Return size and CRC64NVME of what is there; of what is larger than `most`, no more than shows
    that. `check` is called after each block and ends it by raising. Raises: OSError."""
    size = crc64 = 0
    with reader.open(path) as file:
        while (most is None or size <= most) and (block := file.read(_BLOCK_BYTES)):
            check()
            size += len(block)
            crc64 = crc64nvme(block, crc64)
    return size, crc64
