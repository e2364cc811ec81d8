"""Is a tampered audit found, whichever line is changed, dropped or moved?"""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labferry.audit import Act, Entry, Head, extend, file_change, find_fault, read_line
from labferry.errors import MalformedMessage
from labferry.records import Evidence, Level
from labferry.states import State
from tests.unit.labferry.records_by_hand import record

ACT = Act(actor="ada@lab", reason="LIMS-7", what="discard", selector="--run seq/r1")
TEXTS = st.text(st.characters(codec=None), max_size=40)


def chain(length: int) -> tuple[list[str], Head]:
    head, lines = Head(), []
    for number in range(1, length + 1):
        act = replace(ACT, reason=f"reason {number}")
        head, line = extend(head, Entry(number=number, at_ms=number, run="seq/r1", act=act))
        lines.append(line)
    return lines, head


def test_an_untouched_chain_is_whole() -> None:
    assert find_fault([], Head()) is None
    lines, head = chain(5)
    assert find_fault(lines, head) is None
    assert Head.parse(str(head)) == head
    assert Head.parse("") == Head()


@pytest.mark.parametrize("position", range(5))
def test_a_changed_line_is_found(position: int) -> None:
    lines, head = chain(5)
    lines[position] = lines[position].replace("reason ", "Reason ")
    fault = find_fault(lines, head)
    assert fault is not None
    assert fault.number == position + 1
    assert "changed" in fault.why


@pytest.mark.parametrize("position", range(5))
def test_a_line_that_was_changed_and_hashed_again_is_found(position: int) -> None:
    """All that come after it do not fit any more, or the head does not."""
    lines, head = chain(5)
    before = Head(position, lines[position - 1][:64]) if position else Head()
    entry = replace(read_line(lines[position]), at_ms=99)
    _, lines[position] = extend(before, entry)
    fault = find_fault(lines, head)
    assert fault is not None
    assert fault.number == min(position + 2, 5)


@pytest.mark.parametrize("position", range(5))
def test_a_dropped_line_is_found(position: int) -> None:
    lines, head = chain(5)
    del lines[position]
    fault = find_fault(lines, head)
    assert fault is not None
    assert fault.number == position + 1
    assert ("missing" if position == 4 else "left out") in fault.why


@pytest.mark.parametrize("position", range(4))
def test_two_lines_in_the_wrong_order_are_found(position: int) -> None:
    lines, head = chain(5)
    lines[position], lines[position + 1] = lines[position + 1], lines[position]
    fault = find_fault(lines, head)
    assert fault is not None
    assert fault.number == position + 1


def test_an_added_line_is_found() -> None:
    lines, head = chain(3)
    _, extra = extend(head, Entry(number=4, at_ms=1, run="", act=ACT))
    fault = find_fault([*lines, extra], head)
    assert fault is not None
    assert fault.number == 4


def test_an_audit_that_is_gone_is_found() -> None:
    _, head = chain(3)
    fault = find_fault([], head)
    assert fault is not None
    assert fault.number == 1


@given(actor=TEXTS, reason=TEXTS, what=TEXTS, selector=TEXTS, path=TEXTS)
def test_a_line_reads_back_as_it_was_written(
    actor: str, reason: str, what: str, selector: str, path: str
) -> None:
    act = Act(actor=actor, reason=reason, what=what, selector=selector)
    files = (file_change(path, record(State.QUARANTINED), State.ELIGIBLE, new_series=True),)
    entry = Entry(number=1, at_ms=2, run="seq/r1", act=act, files=files)
    head, line = extend(Head(), entry)
    assert line.isascii()
    assert "\n" not in line
    assert read_line(line) == entry
    assert find_fault([line], head) is None
    assert json.loads(line[65:])["count"] == 1


def test_a_line_that_is_none_is_refused() -> None:
    for line in ("", "x", "x {}", "x []", 'x {"version": 1}'):
        with pytest.raises(MalformedMessage):
            read_line(line)
        fault = find_fault([line], Head(1, "x"))
        assert fault is not None
        assert fault.why == "it cannot be read"


def test_what_a_file_was_keeps_its_checksum() -> None:
    evidence = Evidence(level=Level.A, crc64=255, etag="e")
    change = file_change(
        "a", record(State.QUARANTINED, evidence=evidence), State.DISCARDED, new_series=False
    )
    assert change["before"]["crc64nvme"] == "00000000000000ff"
    assert change["after"] == {"state": "discarded", "series": 0}
