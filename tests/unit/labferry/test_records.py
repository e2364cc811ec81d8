"""Do records keep what they were made of?"""

from dataclasses import FrozenInstanceError, fields, is_dataclass
from typing import Any

import pytest

from labferry import records
from labferry.identity import RunKey
from labferry.records import Bundle, Fingerprint, Lane, Level, Step, Upload

CLASSES = [
    one
    for one in vars(records).values()
    if is_dataclass(one) and isinstance(one, type) and one.__module__ == records.__name__
]


def test_a_file_is_the_same_while_size_mtime_and_inode_agree() -> None:
    seen = Fingerprint(size=1, mtime_ns=2, inode=3, ctime_ns=4)
    assert seen.same_file(seen._replace(ctime_ns=9)), "a link or chmod alone"
    for change in ({"size": 9}, {"mtime_ns": 9}, {"inode": 9}):
        assert not seen.same_file(seen._replace(**change))


@pytest.mark.parametrize("one", CLASSES, ids=lambda one: one.__name__)
def test_a_record_is_frozen_and_made_by_names(one: Any) -> None:
    assert one.__dataclass_params__.frozen
    assert hasattr(one, "__slots__")
    assert all(field.kw_only for field in fields(one))


def test_a_record_cannot_be_changed() -> None:
    step = Step(path="a")
    with pytest.raises(FrozenInstanceError):
        step.path = "b"  # type: ignore[misc]


def test_two_plans_do_not_share_their_parts() -> None:
    one, two = (
        Upload(attempt_token="t", part_size=1, fingerprint=Fingerprint(1, 2, 3, 4)) for _ in "ab"
    )
    assert one == two
    assert one.parts is not two.parts


def test_a_new_bundle_was_never_tried() -> None:
    bundle = Bundle(run=RunKey("a", "b"), number=1, lane=Lane.SMALL, paths=("x",))
    assert (bundle.tries, bundle.attempt, bundle.series) == (0, 0, 0)


def test_levels_of_evidence_sort_strongest_first() -> None:
    assert sorted(Level, reverse=True)[-1] is Level.A
    assert sorted(Level) == [Level.A, Level.B, Level.C, Level.D]
