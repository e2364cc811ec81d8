"""Is every message read as it was sent, and refused when it is malformed?"""

import json
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from labferry.errors import MalformedMessage
from labferry.identity import RunKey, encode_path
from labferry.messages import (
    COMPLETE,
    MAX_TASK_ID,
    UPLOAD,
    UploadMessage,
    describe,
    read_run,
    run_payload,
    task_id,
    upload_queue,
)
from labferry.records import Bundle, Lane

RUN = RunKey("NovaSeq1", "run 1")
SOUND = {"version": 1, "run": "NovaSeq1/run 1", "bundle": 7, "paths": ["a/b"]}

names = (
    st.binary(min_size=1, max_size=12)
    .filter(lambda raw: b"/" not in raw and raw not in (b".", b".."))
    .map(encode_path)
)
runs = st.builds(RunKey, st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True), names)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
bundles = st.builds(
    Bundle,
    run=runs,
    number=st.integers(1, 9),
    lane=st.sampled_from(Lane),
    paths=st.lists(paths, min_size=1, max_size=3).map(tuple),
    series=st.integers(0, 9),
)


def bundle(*paths: str, number: int = 7, series: int = 0, attempt: int = 0) -> Bundle:
    return Bundle(
        run=RUN, number=number, lane=Lane.SMALL, paths=paths, series=series, attempt=attempt
    )


@settings(deadline=None, max_examples=200)
@given(runs, st.integers(0, 2**53), st.lists(paths, min_size=1, max_size=5))
def test_an_upload_is_read_as_it_was_sent(run: RunKey, number: int, names: list[str]) -> None:
    message = UploadMessage(run=run, bundle=number, paths=tuple(names))
    assert UploadMessage.from_payload(json.loads(json.dumps(message.to_payload()))) == message


@settings(deadline=None)
@given(runs)
def test_a_completion_is_read_as_it_was_sent(run: RunKey) -> None:
    assert read_run(COMPLETE, json.loads(json.dumps(run_payload(run)))) == run


def test_fields_of_a_later_version_of_the_same_form_are_tolerated() -> None:
    assert UploadMessage.from_payload({**SOUND, "mood": "calm"}).bundle == 7
    assert read_run(COMPLETE, {**run_payload(RUN), "mood": "calm"}) == RUN


MALFORMED = [
    ({"version": 2}, "version"),
    ({"version": None}, "version"),
    ({"version": "1"}, "version"),
    ({"run": None}, "'run'"),
    ({"run": 5}, "'run'"),
    ({"run": ""}, "instrument name"),
    ({"run": "NovaSeq1"}, "segment"),
    ({"run": "NovaSeq1/.."}, "segment"),
    ({"run": "NovaSeq1/a/b"}, "one folder"),
    ({"run": "NovaSeq1/\udcff"}, "Unicode"),
]
MALFORMED_UPLOADS = [
    ({"bundle": "7"}, "'bundle'"),
    ({"bundle": True}, "'bundle'"),
    ({"bundle": 7.0}, "'bundle'"),
    ({"bundle": None}, "'bundle'"),
    ({"paths": []}, "'paths'"),
    ({"paths": "a"}, "'paths'"),
    ({"paths": None}, "'paths'"),
    ({"paths": ["a", 5]}, "'paths'"),
    ({"paths": ["a", ""]}, "segment"),
    ({"paths": ["../other/run"]}, "segment"),
    ({"paths": ["/etc/passwd"]}, "segment"),
    ({"paths": ["x" * 256]}, "longer"),
    ({"paths": ["\udcff"]}, "Unicode"),
]


@pytest.mark.parametrize(("change", "why"), MALFORMED + MALFORMED_UPLOADS)
def test_a_malformed_upload_is_refused_and_says_why(change: dict[str, object], why: str) -> None:
    with pytest.raises(MalformedMessage, match=f"(?s){UPLOAD}.*{why}"):
        UploadMessage.from_payload({**SOUND, **change})


@pytest.mark.parametrize(("change", "why"), MALFORMED)
def test_a_malformed_completion_is_refused_and_says_why(
    change: dict[str, object], why: str
) -> None:
    with pytest.raises(MalformedMessage, match=f"(?s){COMPLETE}.*{why}"):
        read_run(COMPLETE, {**run_payload(RUN), **change})


@pytest.mark.parametrize("payload", [None, 5, "x", [], [SOUND], {}])
def test_what_is_no_object_is_refused(payload: object) -> None:
    with pytest.raises(MalformedMessage):
        UploadMessage.from_payload(payload)
    with pytest.raises(MalformedMessage):
        read_run(COMPLETE, payload)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None, max_examples=300)
@given(st.dictionaries(st.sampled_from(sorted(SOUND)), json_values))
def test_any_other_payload_is_refused_and_nothing_else_is_raised(change: dict[str, object]) -> None:
    try:
        message = UploadMessage.from_payload({**SOUND, **change})
    except MalformedMessage:
        return
    assert message.paths


@pytest.mark.parametrize("lane", list(Lane))
def test_each_instrument_has_a_queue_a_lane(lane: Lane) -> None:
    assert upload_queue("NovaSeq1", lane) == f"upload.NovaSeq1.{lane}"


def test_a_task_is_named_by_its_file_and_keeps_its_name_in_a_retry() -> None:
    assert task_id(bundle("d/a.txt")) == "NovaSeq1/run=201/d/a.txt~0"
    assert task_id(bundle("d/a.txt", number=8, attempt=3)) == task_id(bundle("d/a.txt"))
    assert task_id(bundle("d/a.txt", series=1)) != task_id(bundle("d/a.txt"))
    assert task_id(bundle("a", "b")) == "NovaSeq1/run=201~bundle-7"


@settings(deadline=None, max_examples=300)
@given(bundles)
def test_a_task_id_has_no_character_that_breaks_an_address(one: Bundle) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._/~=-]+", task_id(one))


@settings(deadline=None, max_examples=300)
@given(bundles, bundles)
def test_two_pieces_of_work_never_share_a_task_id(one: Bundle, other: Bundle) -> None:
    assume(_work(one) != _work(other))
    assert task_id(one) != task_id(other)


def _work(one: Bundle) -> object:
    return (one.run, one.paths[0], one.series) if len(one.paths) == 1 else (one.run, one.number)


def test_a_long_task_id_is_cut_and_stays_unlike_others() -> None:
    long = ["ü" * 100 + "/" + "x" * 200 + end for end in "ab"]
    ids = [task_id(bundle(path)) for path in long]
    assert [len(one) for one in ids] == [MAX_TASK_ID, MAX_TASK_ID]
    assert ids[0] != ids[1]
    assert ids[0] == task_id(bundle(long[0], attempt=4))
    edge = MAX_TASK_ID - len(task_id(bundle("")))
    assert len(task_id(bundle("x" * edge))) == MAX_TASK_ID
    assert task_id(bundle("x" * edge)).endswith("x~0")


def test_arguments_are_shown_readably() -> None:
    assert describe(bundle("d/ä b.txt")) == "NovaSeq1/run 1/d/ä b.txt"
    assert describe(bundle("a", "b", "c")) == "NovaSeq1/run 1/a and 2 more"
