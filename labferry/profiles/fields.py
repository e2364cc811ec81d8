"""What does a profile say, field by field?

A pattern without `/` is matched against names, one with `/` against paths below the run, folder by
folder; both without regard to case. docs/profiles.md explains each field.
"""

from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from labferry.profiles.patterns import NamePatterns, PathPatterns
from labferry.sidecars import Form

GIB = 1024**3
DAY_S = 86_400


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Companion(_Table):
    """Each file that `of` matches needs another one beside it."""

    of: str = Field(description="names of the files")
    needs: str = Field(description="the other's name: {stem}.xml, or {name}.scan")

    @model_validator(mode="after")
    def _names_one(self) -> "Companion":
        if "{stem}" not in self.needs and "{name}" not in self.needs:
            raise ValueError("needs must hold {stem} or {name}")
        return self


class LeastSize(_Table):
    """A smaller file is not whole."""

    of: str = Field(description="names of the files")
    size_bytes: int = Field(ge=1, description="the least size")


class NextFile(_Table):
    """A file is over once the next one like it has appeared: an acquisition follows another."""

    of: str = Field(description="names of the files")
    settle_window_s: float = Field(
        ge=0, description="instead of the profile's, once the next one has appeared"
    )


class Count(_Table):
    """A number that a summary of the instrument states: of files there, or one that must be so."""

    file: str = Field(description="path pattern of the summary, lines `field=number`")
    field: str = Field(description="the number's name")
    of: tuple[str, ...] = Field((), description="at least so many files with these names are there")
    equals: int | None = Field(None, description="the number must be this")

    @model_validator(mode="after")
    def _asks_one(self) -> "Count":
        if bool(self.of) == (self.equals is not None):
            raise ValueError("a count has either `of` or `equals`")
        return self


class Manifest(_Table):
    """A list of files that the instrument writes; every file it names must be there."""

    file: str = Field(description="path pattern of the list")
    form: Form = Field(description="how it is written")
    required: bool = Field(False, description="a run without a readable list is not done")
    base: Literal["list", "run", "name"] = Field(
        "list",
        description="what its paths are relative to; `name`: list and files may lie anywhere",
    )

    def match(self, path: str) -> bool:
        """Whether there is such a list at this path."""
        if self.base == "name":
            return self._names.match(path.rpartition("/")[2])
        return self._paths.match(path)

    @cached_property
    def _names(self) -> NamePatterns:
        return NamePatterns((self.file,))

    @cached_property
    def _paths(self) -> PathPatterns:
        return PathPatterns((self.file,))


class Verdict(_Table):
    """A file in which the instrument says how a run ended."""

    file: str = Field(description="path pattern of the file")
    well: tuple[str, ...] = Field(
        min_length=1, description="words; it holds one of them when the run ended well"
    )

    def match(self, path: str) -> bool:
        """Whether there is such a file at this path."""
        return self._paths.match(path)

    @cached_property
    def _paths(self) -> PathPatterns:
        return PathPatterns((self.file,))


class Sidecars(_Table):
    """Checksums that lie beside the files; a file with another one is never uploaded."""

    file: str = Field(description="name or path pattern of the list")
    form: Form = Field(Form.CHECKSUMS, description="how it is written")
    base: Literal["list", "run"] = Field("list", description="what its paths are relative to")


class Detect(_Table):
    """What speaks for this profile when a folder is given without one."""

    runs: tuple[str, ...] = Field((), description="names that such a run folder has")
    has: tuple[str, ...] = Field((), description="path patterns; each must be found in the run")


class Profile(BaseModel):
    """The fields of a profile."""

    # A marker of digits comes from the environment as a number.
    model_config = ConfigDict(
        extra="forbid", frozen=True, coerce_numbers_to_str=True, allow_inf_nan=False
    )

    version: int = Field(1, ge=1, le=1, description="version of the profile's form")
    name: str = Field(description="the profile's name")
    title: str = Field("", description="one line for people")
    extends: str = Field("", description="profile whose fields hold where this one sets none")
    runs: tuple[str, ...] = Field(
        ("*",),
        min_length=1,
        description="folders below the root that are runs; `*/*` is one deeper",
    )
    marker: str = Field(
        "", description="name, or path pattern, of the file that ends a run; at its top without /"
    )
    last: tuple[str, ...] = Field(
        (), description="other files that go up after the rest, as `marker` is written"
    )
    quiet_s: float = Field(300, ge=0, description="nothing in the run changed for this long")
    quiet_after_next_s: float | None = Field(
        None, ge=0, description="instead of quiet_s, once the next run has begun"
    )
    settle_window_s: float = Field(60, ge=0, description="a file did not change for this long")
    settle_s_per_gib: float = Field(0, ge=0, description="and longer by this for each GiB of it")
    next_file: NextFile | None = Field(
        None, description="files that follow one another: one is over once the next has begun"
    )
    scan_interval_s: float = Field(15, gt=0, description="time between two scans of the root")
    rescan_s: float = Field(
        3600, gt=0, description="a run that is over is looked at in full so often, at the latest"
    )
    stale_s: float = Field(
        2 * DAY_S, gt=0, description="a run without change for this long will not end by itself"
    )
    min_files: int = Field(
        1, ge=1, description="a run with fewer files, markers apart, is never done"
    )
    aside: tuple[str, ...] = Field(
        (), description="names that go up and do not count as content of a run"
    )
    required: tuple[tuple[str, ...], ...] = Field(
        (), description="path patterns; all those of one of these lists must be there"
    )
    companions: tuple[Companion, ...] = Field((), description="files that come in pairs")
    least_size: tuple[LeastSize, ...] = Field((), description="sizes below which none is whole")
    failed: tuple[str, ...] = Field(
        (), description="names that say that an acquisition failed: a person is told, once"
    )
    verdicts: tuple[Verdict, ...] = Field(
        (), description="files that say how a run ended: where badly, a person is told, once"
    )
    counts: tuple[Count, ...] = Field((), description="numbers that a summary states")
    manifests: tuple[Manifest, ...] = Field((), description="lists of files that must be there")
    sidecars: tuple[Sidecars, ...] = Field((), description="lists of checksums")
    temporary: tuple[str, ...] = Field(
        (), description="names of files and folders that hold back the run"
    )
    stuck_s: float = Field(
        DAY_S,
        gt=0,
        description="a temporary name that stays so long, or no file at rest, is reported as stuck",
    )
    litter: tuple[str, ...] = Field((), description="file names that are left out, on record")
    litter_folders: tuple[str, ...] = Field((), description="folder names that are left out")
    apart: tuple[str, ...] = Field(
        (), description="folders that are runs of their own, of another section with this root"
    )
    late: Literal["quarantine", "generation"] = Field(
        "quarantine", description="what a file that changed after it was verified becomes"
    )
    changing: tuple[str, ...] = Field(
        (), description="names that change by design: always a new generation"
    )
    identity: Literal["inode", "size_mtime"] = Field(
        "inode", description="size_mtime where a share gives files new inodes"
    )
    detect: Detect = Field(Detect(), description="what speaks for this profile")

    def is_marker(self, path: str) -> bool:
        """Whether this path, relative to the run, is the instrument's own end marker."""
        return bool(self.marker) and self._marker.match(path)

    def is_last(self, path: str) -> bool:
        """Whether this path goes up after all others."""
        return self.lasts.match(path)

    def is_temporary(self, name: str) -> bool:
        """Whether this base name, of a file or folder, says that something is not finished."""
        return self._temporary.match(name)

    def is_litter(self, name: str) -> bool:
        """Whether this base name is never part of a run."""
        return self._litter.match(name)

    def is_litter_folder(self, name: str) -> bool:
        """Whether a folder of this name is never part of a run."""
        return self._litter_folders.match(name)

    def is_apart(self, path: str) -> bool:
        """Whether a folder of this path, relative to the run, is a run of its own."""
        return bool(self.apart) and self._apart.match(path)

    def is_changing(self, name: str) -> bool:
        """Whether a file of this base name may change after it was verified."""
        return self.late == "generation" or self._changing.match(name)

    def is_whole(self, name: str, size: int) -> bool:
        """Whether a file of this base name has the least size of its kind."""
        return not any(size < least and of.match(name) for of, least in self._least)

    def settle_s(self, size: int) -> float:
        """Return how long a file of this size must not change."""
        return self.settle_window_s + self.settle_s_per_gib * size / GIB

    @cached_property
    def run_folders(self) -> PathPatterns:
        """Folders below the root that are runs."""
        return PathPatterns(self.runs)

    @cached_property
    def lasts(self) -> PathPatterns:
        """What goes up after all others, the marker among it."""
        return PathPatterns(tuple(one for one in (self.marker, *self.last) if one))

    @cached_property
    def _least(self) -> tuple[tuple[NamePatterns, int], ...]:
        return tuple((NamePatterns((one.of,)), one.size_bytes) for one in self.least_size)

    @cached_property
    def _marker(self) -> PathPatterns:
        return PathPatterns((self.marker,))

    @cached_property
    def _temporary(self) -> NamePatterns:
        return NamePatterns(self.temporary)

    @cached_property
    def _litter(self) -> NamePatterns:
        return NamePatterns(self.litter)

    @cached_property
    def _litter_folders(self) -> NamePatterns:
        return NamePatterns(self.litter_folders)

    @cached_property
    def _apart(self) -> PathPatterns:
        return PathPatterns(self.apart)

    @cached_property
    def _changing(self) -> NamePatterns:
        return NamePatterns(self.changing)
