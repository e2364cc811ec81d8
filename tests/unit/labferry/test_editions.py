"""Which object holds a file's newest edition, and in which order are they compared?"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry.editions import edition, object_key
from labferry.errors import BadName
from labferry.identity import FileKey, Layout, RunKey
from labferry.records import FileRecord, Fingerprint, Lane, Note
from labferry.states import Event, State
from tests.memory_ledger import MemoryLedger
from workers.draft import object_name, path_of

FILE = RunKey("scope", "run 1").file("a/b")
RECORD = FileRecord(
    state=State.VERIFIED,
    attempt=0,
    lost=0,
    rounds=0,
    series=0,
    token=1,
    holder=1,
    fingerprint=Fingerprint(1, 1, 1, 1),
    lane=Lane.SMALL,
    discovered_ms=1,
    changed_ms=1,
    settled_ms=1,
    claimed_ms=1,
    verified_ms=1,
)


class History(MemoryLedger):
    """A ledger that knows what happened to one file."""

    def __init__(self, *events: Event) -> None:
        super().__init__()
        self.events = events

    def history(self, file: FileKey) -> list[Note]:
        return [Note(event=event, kind="source", code="-", message="-") for event in self.events]


@pytest.mark.parametrize(
    ("events", "number"),
    [
        ((), 1),
        ((Event.FAIL, Event.QUARANTINE, Event.REPLAY), 1),
        ((Event.LOSE, Event.REPLAY), 1),
        ((Event.SUPERSEDE,), 2),
        ((Event.SUPERSEDE, Event.FAIL, Event.SUPERSEDE), 3),
        # An operator sent in again what changed: the verified object stays where it is.
        ((Event.CONFLICT, Event.REVISE), 2),
    ],
)
def test_each_verified_object_that_is_left_behind_counts(
    events: tuple[Event, ...], number: int
) -> None:
    ledger, record = History(*events), replace(RECORD, series=1)
    assert edition(ledger, FILE, record) == number


def test_a_file_in_its_first_series_costs_no_question() -> None:
    assert object_key(None, Layout("p"), FILE, RECORD) == "p/raw/scope/run 1/a/b"  # type: ignore[arg-type]


def test_a_later_edition_has_a_key_of_its_own() -> None:
    key = object_key(History(Event.SUPERSEDE), Layout(), FILE, replace(RECORD, series=1))
    assert key == "editions/scope/run 1/2/a/b"
    assert key.startswith(Layout().editions_prefix(FILE.run))


def test_a_key_that_is_too_long_is_refused() -> None:
    with pytest.raises(BadName):
        Layout("x" * 800).edition(FILE.run.file("/".join(["y" * 50] * 5)), 2)


NAMES = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), min_size=1, max_size=6)


@given(st.lists(st.tuples(NAMES, st.integers(1, 300)), max_size=20))
def test_names_of_editions_sort_as_their_paths_do(files: list[tuple[str, int]]) -> None:
    by_path = sorted(files, key=lambda one: (one[0].encode() + b"\0", one[1]))
    names = [object_name(*one) for one in by_path]
    assert names == sorted(names, key=str.encode)
    assert [path_of(name) for name in names] == [path for path, _ in by_path]
