"""Does a selector choose what it names, and refuse what it cannot read?"""

from typing import Any

import pytest

from labferry.dead_letter import DeadLetter
from labferry.errors import SettingsError
from labferry.identity import FileKey
from labferry.records import Fingerprint, Note
from labferry.selector import Selector, read_selector
from labferry.states import Event, State
from tests.unit.labferry.records_by_hand import record

NOW_MS = 1_800_000_000_000


def letter(
    file: str = "seq/r1/a/b.txt", *, code: str = "AccessDenied", age_s: float = 100, size: int = 10
) -> DeadLetter:
    note = Note(event=Event.QUARANTINE, kind="permanent", code=code, message="no")
    return DeadLetter(
        file=FileKey.parse(file),
        at_ms=int(NOW_MS - age_s * 1000),
        record=record(State.QUARANTINED, fingerprint=Fingerprint(size, 1, 2, 3)),
        notes=(note,),
    )


PRINT = letter().fingerprint
CHOSEN: list[dict[str, Any]] = [
    {"run": "seq/r1"},
    {"instrument": "seq"},
    {"code": "AccessDenied"},
    {"fingerprint": PRINT},
    {"fingerprint": PRINT[:4]},
    {"file": "seq/r1/a/b.txt"},
    {"older_than": "99s"},
    {"larger_than": "9"},
    {"all": True},
]
NOT_CHOSEN: list[dict[str, Any]] = [
    {"run": "seq/r2"},
    {"run": "ms/r1"},
    {"instrument": "ms"},
    {"code": "AccessDenie"},
    {"fingerprint": "00000000" if PRINT != "00000000" else "1"},
    {"file": "seq/r1/a/b"},
    {"older_than": "100s"},
    {"larger_than": "10B"},
]


@pytest.mark.parametrize("named", CHOSEN, ids=str)
def test_what_is_named_chooses(named: dict[str, Any]) -> None:
    assert read_selector(**named).matches(letter(), NOW_MS)


@pytest.mark.parametrize("named", NOT_CHOSEN, ids=str)
def test_what_is_named_leaves_out_the_rest(named: dict[str, Any]) -> None:
    assert not read_selector(**named).matches(letter(), NOW_MS)


@pytest.mark.parametrize("named", NOT_CHOSEN, ids=str)
def test_everything_named_must_hold(named: dict[str, Any]) -> None:
    whole: dict[str, Any] = {}
    for one in CHOSEN:
        whole |= one
    assert read_selector(**whole).matches(letter(), NOW_MS)
    assert not read_selector(**{**whole, **named}).matches(letter(), NOW_MS)


def test_a_run_that_cannot_be_meant_need_not_be_looked_at() -> None:
    run = letter().file.run
    assert read_selector(all=True).may_be_in(run)
    assert read_selector(code="x").may_be_in(run)
    for named in ({"run": "seq/r2"}, {"instrument": "ms"}, {"file": "seq/r2/a"}):
        assert not read_selector(**named).may_be_in(run)  # type: ignore[arg-type]


def test_nothing_named_is_refused() -> None:
    with pytest.raises(SettingsError, match="nothing is chosen"):
        Selector().require()
    for named in CHOSEN:
        read_selector(**named).require()
    read_selector(older_than="0s").require()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("2m", 120), ("2h", 7200), ("3d", 259_200), ("1.5H", 5400), ("1w", 604_800)],
)
def test_ages_are_read(text: str, seconds: float) -> None:
    assert read_selector(older_than=text).older_than_s == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10GB", 10**10),
        ("1 gib", 2**30),
        ("1.5MB", 1_500_000),
        ("7", 7),
        ("0B", 0),
        ("2k", 2000),
        ("1TiB", 2**40),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert read_selector(larger_than=text).larger_than_bytes == size


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("--older-than", {"older_than": "2"}),
        ("--older-than", {"older_than": "2y"}),
        ("--older-than", {"older_than": "-2h"}),
        ("--older-than", {"older_than": ""}),
        ("--larger-than", {"larger_than": "10PB"}),
        ("--larger-than", {"larger_than": "large"}),
        ("--run", {"run": "seq"}),
        ("--run", {"run": "seq/r1/a"}),
        ("--file", {"file": "seq/r1"}),
        ("--file", {"file": "seq/r1/"}),
        ("--fingerprint", {"fingerprint": "xyz"}),
        ("--fingerprint", {"fingerprint": ""}),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_name(option: str, named: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as refusal:
        read_selector(**named)
    assert refusal.value.field == option


@pytest.mark.parametrize("named", CHOSEN, ids=str)
def test_a_selector_is_written_as_it_is_typed(named: dict[str, Any]) -> None:
    [(name, value)] = named.items()
    option = f"--{name.replace('_', '-')}"
    assert str(read_selector(**named)).split(" ")[0] == option
    if value is not True:
        again = {name: str(read_selector(**named)).split(" ", 1)[1]}
        assert read_selector(**again) == read_selector(**named)  # type: ignore[arg-type]


def test_a_name_that_no_key_can_hold_can_be_chosen() -> None:
    path = "x" * 300
    chosen = read_selector(file=f"seq/r1/{path}").file
    assert chosen is not None
    assert (str(chosen.run), chosen.path) == ("seq/r1", path)
