"""What do instruments write in the demo, and how does it grow while labferry watches?

Three runs of two instruments: two sequencer runs of hundreds of small files in a nested tree, with
the instrument's marker written last, and a microscope run with a file of several parts. The names
are the kind that break shell scripts.
"""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

MIB = 1024 * 1024
SEQUENCER, MICROSCOPE = "NovaSeqX", "Lightsheet"
MARKER = "CopyComplete.txt"
#: The sequencer's run of which something may be denied or missing.
SECOND = "20260313_LH00512_0043_B22KQ8LT4"
#: An instrument writes in blocks; between them the file is there and not finished.
BLOCK_BYTES = MIB
#: A file takes an instrument as long as so many bytes, besides its own.
FILE_COST_BYTES = MIB // 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRun:
    """One run: its files in the order they are written, and how long that takes."""

    instrument: str
    name: str
    files: tuple[tuple[str, int], ...]  # path below the run folder, bytes
    seconds: float = 8.0
    begun: int = 0  # so many are there before labferry has verified a first one

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(size for _, size in self.files)


class Injection(StrEnum):
    """What goes wrong on purpose (ops/demo_inject.py)."""

    DENIED = "denied"
    EXPIRED = "expired"
    DOWN = "down"
    STUCK = "stuck"


def demo_runs(injection: Injection | None = None) -> tuple[DemoRun, ...]:
    """Return the runs of the demo; a sequencer that is stuck writes no marker of its second."""
    stuck = injection is Injection.STUCK
    return (
        DemoRun(
            instrument=SEQUENCER,
            name="20260312_LH00512_0042_A22KQ7LT4",
            files=tuple(_sequencer(tiles=240, lanes=2)),
            begun=3,
        ),
        DemoRun(
            instrument=SEQUENCER,
            name=SECOND,
            files=tuple(_sequencer(tiles=140, lanes=1))[: -1 if stuck else None],
            seconds=6.0,
        ),
        DemoRun(
            instrument=MICROSCOPE,
            name="2026-03-12 Zebrafisch #7, DAPI+GFP, Müller",
            files=(
                ("Notizen.txt", 0),
                ("Einstellungen/Beleuchtung 488nm+561nm.xml", 6_214),
                ("Einstellungen/Objektiv #2 (20x).xml", 3_870),
                ("Vorschau/Übersicht 100%.tif", 412_000),
                ("Embryo #7 - Zeitreihe t000-t119.czi", 26 * MIB),
            ),
        ),
    )


def _sequencer(*, tiles: int, lanes: int) -> Iterator[tuple[str, int]]:
    yield "RunInfo.xml", 6_022
    yield "RunParameters.xml", 4_318
    yield "SampleSheet (final, v2).csv", 1_977
    for tile in range(tiles):
        lane, cycle = tile % lanes + 1, tile // lanes + 1
        path = f"Data/Intensities/BaseCalls/L{lane:03}/C{cycle}.1/L{lane:03}_{cycle}.cbcl"
        yield path, 2_000 + tile * 7_919 % 58_000
    for number, name in enumerate(("QMetrics", "TileMetrics", "CorrectedIntMetrics"), start=1):
        yield f"InterOp/{name}Out.bin", number * 23_456
    yield "Logs/Messgerät #1 + Pumpe.log", 18_400
    yield "Recipe/empty.placeholder", 0
    yield MARKER, 0


class Writers:
    """Threads that write runs as instruments do; `stop` ends them before the folder is removed.

    Programs take their time to start: what is begun waits for `go_on`, so that it is still being
    written when they work.
    """

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._going_on = threading.Event()
        self._stopping = threading.Event()

    def start(self, root: Path, run: DemoRun) -> None:
        """Begin to write a run below the instrument's root."""
        thread = threading.Thread(target=self._write, args=(root / run.name, run), daemon=True)
        self._threads.append(thread)
        thread.start()

    def go_on(self) -> None:
        """Write the rest."""
        self._going_on.set()

    def stop(self) -> None:
        """End the writing, finished or not."""
        self._stopping.set()
        self._going_on.set()
        for thread in self._threads:
            thread.join()

    def _write(self, folder: Path, run: DemoRun) -> None:
        pause_s = run.seconds / (run.size + len(run.files) * FILE_COST_BYTES)
        for number, (path, size) in enumerate(run.files):
            if number == run.begun:
                self._going_on.wait()
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb", buffering=0) as file:
                for written in range(0, size, BLOCK_BYTES):
                    block = min(BLOCK_BYTES, size - written)
                    file.write(os.urandom(block))
                    if self._stopping.wait(block * pause_s):
                        return
            if self._stopping.wait(FILE_COST_BYTES * pause_s):
                return
