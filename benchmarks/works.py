"""What is measured? The one table of works."""

from benchmarks.copies import TOOLS, copy
from benchmarks.fairness import measure_fairness, measure_latency
from benchmarks.job import Point, Shape, Work
from benchmarks.letters import measure_letters
from benchmarks.loads import GIB, KIB, MIB, Sizes, microscope, sequencer, tiny
from benchmarks.moves import measure_memory, measure_moves
from benchmarks.poison import measure_poison
from benchmarks.rescan import measure_finished, measure_rescan

#: For works where the other tools would take hours, or have nothing of the like.
QUICK_TOOLS = ("labferry", "s5cmd")
FAST_TOOLS = ("labferry", "s5cmd", "rclone", "awscrt")


def _files(*counts: int) -> tuple[Point, ...]:
    return tuple(Point(label=f"{count:,}", sizes=tiny(count)) for count in counts)


def _empty(*counts: int) -> tuple[Point, ...]:
    return tuple(Point(label=f"{count:,}", sizes=(0,) * count) for count in counts)


def _one(*gib: float) -> tuple[Point, ...]:
    return tuple(Point(label=f"{one:g} GiB", sizes=(int(one * GIB),)) for one in gib)


def _load(sizes: Sizes, **environment: str) -> tuple[Point, ...]:
    return (Point(sizes=sizes, environment=environment),)


def _processes(sizes: Sizes, *counts: int) -> tuple[Point, ...]:
    setting = "LABFERRY_WORKER__SMALL_PROCESSES"
    return tuple(
        Point(label=str(count), sizes=sizes, environment={setting: str(count)}) for count in counts
    )


_ONE_A_MESSAGE = {"LABFERRY_BROKER__BUNDLE_MAX_FILES": "1"}
#: A budget of about a minute, all of it spent on attempts.
_SOON_GIVEN_UP = {
    "LABFERRY_RETRY__ATTEMPTS": "60",
    "LABFERRY_RETRY__BASE_S": "0.5",
    "LABFERRY_RETRY__CAP_S": "1.5",
}
_LARGE = (2 * GIB, *(256 * MIB,) * 8)
_LARGE_QUICK = (320 * MIB, *(40 * MIB,) * 8)

_COPIES = (
    Work(
        name="small-10k",
        title="files of 4 KiB",
        measure=copy,
        servers=("seaweedfs",),
        tools=TOOLS,
        points=_load((4 * KIB,) * 10_000),
        quick=_load((4 * KIB,) * 1_000),
    ),
    Work(
        name="small-200k",
        title="files of 0 to 4 KiB",
        measure=copy,
        servers=("sink",),
        tools=FAST_TOOLS,
        points=_load(tiny(200_000)),
        quick=_load(tiny(5_000)),
    ),
    Work(
        name="large-4g",
        title="one large file and eight of an eighth of it",
        measure=copy,
        servers=("seaweedfs", "sink"),
        tools=TOOLS,
        points=_load(_LARGE),
        quick=_load(_LARGE_QUICK),
    ),
    Work(
        name="large-4g-tls",
        title="one large file and eight of an eighth of it",
        measure=copy,
        servers=("sink",),
        tools=TOOLS,
        tls=True,
        points=_load(_LARGE),
        quick=_load(_LARGE_QUICK),
    ),
    Work(
        name="unbundled-10k",
        title="files of 4 KiB, one message a file",
        measure=copy,
        servers=("sink",),
        points=_load((4 * KIB,) * 10_000, **_ONE_A_MESSAGE),
        quick=_load((4 * KIB,) * 1_000, **_ONE_A_MESSAGE),
    ),
    Work(
        name="sequencer",
        title="a sequencer's run: files of 0 to 20 KiB, and some of 256 MiB",
        measure=copy,
        servers=("sink",),
        tools=FAST_TOOLS,
        points=_load(sequencer(19_000, 4)),
        quick=_load(sequencer(1_000, 1)),
        full=_load(sequencer(190_000, 24)),
        runs=3,
    ),
    Work(
        name="microscope",
        title="a microscope's run: movies of 0.5 GiB, each with two small files",
        measure=copy,
        servers=("sink",),
        tools=FAST_TOOLS,
        points=_load(microscope(8)),
        quick=_load(microscope(1)),
        full=_load(microscope(40)),
        runs=3,
    ),
    Work(
        name="delay-small",
        title="files of 4 KiB, 25 ms away",
        measure=copy,
        servers=("sink",),
        tools=FAST_TOOLS,
        delay_ms=25,
        points=_load((4 * KIB,) * 10_000),
        quick=_load((4 * KIB,) * 1_000),
        runs=3,
    ),
    Work(
        name="delay-large",
        title="one large file and eight of an eighth of it, 25 ms away",
        measure=copy,
        servers=("sink",),
        tools=FAST_TOOLS,
        delay_ms=25,
        points=_load(_LARGE),
        quick=_load(_LARGE_QUICK),
        runs=3,
    ),
    Work(
        name="curve-small",
        title="files of 0 to 4 KiB: how the cost grows with their number",
        measure=copy,
        shape=Shape.CURVE,
        servers=("sink",),
        tools=QUICK_TOOLS,
        points=_files(1_000, 10_000, 50_000, 200_000),
        quick=_files(200, 500, 1_000, 2_000),
        full=_files(1_000, 10_000, 50_000, 200_000, 1_000_000),
        runs=3,
    ),
    Work(
        name="curve-large",
        title="one file: how the cost grows with its size",
        measure=copy,
        shape=Shape.CURVE,
        servers=("sink",),
        tools=QUICK_TOOLS,
        points=_one(1, 4),
        quick=_one(0.0625, 0.125),
        full=_one(1, 4, 16),
        runs=3,
    ),
    Work(
        name="workers",
        title="files of 0 to 4 KiB, by worker processes of the small lane",
        measure=copy,
        shape=Shape.CURVE,
        servers=("sink",),
        points=_processes(tiny(50_000), 1, 2, 3, 4),
        quick=_processes(tiny(1_000), 1, 2),
        runs=3,
    ),
)

_ALONE = (
    Work(
        name="rescan-200k",
        title="a look at a run whose files are all known",
        measure=measure_rescan,
        shape=Shape.FIGURES,
        servers=("nowhere",),
        points=_empty(200_000),
        quick=_empty(5_000),
    ),
    Work(
        name="ledger-moves",
        title="moves of files on one Valkey, append-only file synced every second",
        measure=measure_moves,
        shape=Shape.FIGURES,
        servers=("nowhere",),
        points=_empty(200_000),
        quick=_empty(5_000),
        needs_files=False,
    ),
    Work(
        name="ledger-memory",
        title="memory of Valkey for each file in flight",
        measure=measure_memory,
        shape=Shape.FIGURES,
        servers=("nowhere",),
        points=_empty(200_000),
        quick=_empty(5_000),
        full=_empty(1_000_000),
        needs_files=False,
        runs=1,
    ),
    Work(
        name="dead-letters",
        title="dead letters of three causes: listed, exported, previewed, sent in again",
        measure=measure_letters,
        shape=Shape.FIGURES_BY_POINT,
        servers=("sink",),
        points=_files(2_500, 10_000),
        quick=_files(150, 600),
        runs=3,
    ),
    Work(
        name="latency",
        title="one file of 4 KiB after the other on an idle system, from settled to verified",
        measure=measure_latency,
        shape=Shape.FIGURES,
        servers=("seaweedfs", "sink"),
        points=_load((4 * KIB,) * 200),
        quick=_load((4 * KIB,) * 20),
        needs_files=False,
        runs=1,
    ),
    Work(
        name="fairness",
        title="50 files that arrive beside a flood of another instrument",
        measure=measure_fairness,
        shape=Shape.FIGURES,
        servers=("sink",),
        points=_load((4 * KIB,) * 200_000),
        quick=_load((4 * KIB,) * 12_000, LABFERRY_BROKER__WINDOW_MESSAGES="24"),
        runs=1,
    ),
    Work(
        name="poison",
        title="files of an instrument, alone and beside files of another that fail every attempt",
        measure=measure_poison,
        shape=Shape.FIGURES,
        servers=("sink",),
        points=_load((4 * KIB,) * 20_000, **_SOON_GIVEN_UP),
        quick=_load((4 * KIB,) * 1_000, **_SOON_GIVEN_UP),
        needs_files=False,
        runs=1,
    ),
    Work(
        name="finished",
        title="a run that is over, on the ledger and put away",
        measure=measure_finished,
        shape=Shape.FIGURES_BY_POINT,
        servers=("seaweedfs",),
        points=_empty(1_000, 10_000, 200_000),
        quick=_empty(1_000),
        runs=1,
    ),
)

WORKS = {work.name: work for work in (*_COPIES, *_ALONE)}
