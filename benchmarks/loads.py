"""Which files make up a load? Made anew in a temporary folder, shaped as instruments write them."""

import os
from collections.abc import Iterator
from pathlib import Path

KIB, MIB, GIB = 1024, 1024**2, 1024**3
#: Files of one folder.
FOLDER_FILES = 1000
BLOCK_BYTES = 16 * MIB

Sizes = tuple[int, ...]


def tiny(count: int) -> Sizes:
    """Return sizes of 0 to 4 KiB that neither repeat soon nor favour a boundary."""
    return tuple(number * 1237 % (4 * KIB + 1) for number in range(count))


def sequencer(count: int, large: int) -> Sizes:
    """Return a run's many images, tables and logs of 0 to 20 KiB, and a few base call files."""
    small = (number * 6173 % (20 * KIB + 1) for number in range(count))
    return (*small, *(256 * MIB,) * large)


def microscope(movies: int) -> Sizes:
    """Return movies of 0.5 GiB, each with a table and a thumbnail."""
    return (512 * MIB, 3 * KIB, 180 * KIB) * movies


def make_files(folder: Path, sizes: Sizes) -> None:
    """Write the files of a load; they are in the page cache afterwards."""
    block = os.urandom(BLOCK_BYTES)
    for start in range(0, len(sizes), FOLDER_FILES):
        inner = folder / f"part-{start // FOLDER_FILES:04}"
        inner.mkdir(parents=True)
        for number in range(start, min(start + FOLDER_FILES, len(sizes))):
            with (inner / f"file-{number:06}.dat").open("wb") as file:
                file.writelines(_content(block, number, sizes[number]))


def paths(count: int) -> list[str]:
    """Return where the files of a load are below its folder."""
    return [f"part-{n // FOLDER_FILES:04}/file-{n:06}.dat" for n in range(count)]


def _content(block: bytes, number: int, size: int) -> Iterator[bytes]:
    """Yield a file's bytes: no two files and no two blocks are the same."""
    for offset in range(0, size, BLOCK_BYTES):
        head = number.to_bytes(8, "big") + offset.to_bytes(8, "big")
        yield (head + block[16 : size - offset])[: size - offset]
