"""Does a terminal of 80 columns show everything, without relying on colour?"""

import io
import json
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from labferry.word import Word
from ops.overview import Overview, read_overview
from ops.pace import Pacer
from ops.run_view import overview_view, progress_view, progress_words, states_view, watch_view
from tests.unit.ops.run_facts import run_facts
from tests.unit.ops.test_overview import GONE, LACKING, SILENT, Known

LONG = "NovaSeqX-4-basement/20260312_LH00512_0042_A22KQ7LT4 (Müller, Überprüfung #2 + repeat)"


def shown(renderable: RenderableType) -> list[str]:
    shown = io.StringIO()
    console = Console(file=shown, width=80, color_system=None, highlight=False)
    console.print(renderable)
    return shown.getvalue().splitlines()


def overview() -> Overview:
    return read_overview(
        Known(
            run_facts(LONG, verified=190_000, failed=3, quarantined=1, sealed_ms=1, size=2**30),
            run_facts("scope/open", discovered=1, skipped=2),
            run_facts("scope/done", verified=1, sealed_ms=1, completed=2, generation=2),
        ),
        ["massspec"],
        None,
    )


def test_nothing_is_wider_than_80_columns_and_nothing_is_cut() -> None:
    lines = shown(overview_view(overview()))
    assert max(map(cell_len, lines)) <= 80
    # A name may be folded, so it is looked for without what folding puts in between.
    squeezed = "".join("".join(lines).split())
    assert "Überprüfung#2+repeat)" in squeezed
    assert "…" not in squeezed


def test_the_causes_of_dead_letters_stand_below_their_count() -> None:
    lines = [line.strip() for line in shown(overview_view(overview()))]
    at = next(n for n, line in enumerate(lines) if line.startswith("1 quarantined"))
    assert lines[at + 1].startswith("10 EACCES (")
    assert lines[at + 2].startswith("2 bad_name (")


def test_a_silent_instrument_and_a_waiting_run_say_why_below_their_names() -> None:
    told = [replace(SILENT, waiting=(LACKING,)), replace(GONE, instrument="massspec")]
    known = Known(replace(run_facts(verified=3), now_ms=2), passes=told)
    lines = shown(overview_view(read_overview(known, ["massspec"], None)))
    text = " ".join(" ".join(lines).split())
    assert max(map(cell_len, lines)) <= 80
    assert "unwatched" in text
    assert "2:00:00 ago" in text
    assert "away" in text
    assert "there is RTAComplete.txt" in text


def test_a_hold_on_an_instrument_stands_below_its_name_though_it_has_no_run() -> None:
    known = Known(run_facts("scope/open", verified=3))
    known.held = {
        "massspec": Word(actor="ada@lab", reason="a new <share>", at_ms=7),
        "scope/open": Word(actor="bob", reason="this run alone", at_ms=8),
    }
    found = read_overview(known, ["massspec", "scope"], None)
    lines = shown(overview_view(found))
    at = next(n for n, line in enumerate(lines) if line.startswith("massspec"))
    assert lines[at + 1].strip() == "held by ada@lab: a new <share>"
    assert sum("held by" in line for line in lines) == 1
    in_json = json.loads(json.dumps(found.to_json()))["instruments"]
    assert [(one["instrument"], one["hold"]) for one in in_json] == [
        ("massspec", {"actor": "ada@lab", "reason": "a new <share>", "at_ms": 7}),
        ("scope", None),
    ]


def test_every_state_and_condition_is_a_word() -> None:
    text = "\n".join(shown(overview_view(overview())))
    for word in ("attention", "arriving", "idle", "incomplete", "open", "complete"):
        assert word in text


def test_what_is_out_of_the_ordinary_is_said_below_the_run() -> None:
    text = "\n".join(shown(overview_view(overview())))
    assert "3 failed, tried again by itself" in text
    assert "1 quarantined, a person decides" in text
    assert "2 skipped" in text
    assert "generation 2" in text


def test_an_empty_ledger_says_what_to_do() -> None:
    assert "labferry scan" in "\n".join(shown(overview_view(read_overview(Known(), [], None))))


def test_a_bar_has_its_numbers_beside_it() -> None:
    facts = run_facts(LONG, verified=1, eligible=1, sealed_ms=1)
    pacer = Pacer()
    pacer.observe(run_facts(LONG, eligible=2, sealed_ms=1), 0, 0.0)
    lines = shown(progress_view([(facts, pacer.observe(facts, 0, 1.0))]))
    assert max(map(cell_len, lines)) <= 80
    assert "sealed" in lines[1]
    assert "1/2 files 1.0 kB 1.0 kB/s 0:01 left" in lines[1]


@pytest.mark.parametrize("sealed_ms", [0, 1])
def test_only_a_sealed_run_has_a_time_to_go(sealed_ms: int) -> None:
    pacer = Pacer()
    pacer.observe(run_facts(eligible=2, sealed_ms=sealed_ms), 0, 0.0)
    facts = run_facts(verified=1, eligible=1, sealed_ms=sealed_ms)
    words = progress_words(facts, pacer.observe(facts, 0, 1.0))
    assert ("left" in words) is bool(sealed_ms)


def test_watching_lists_what_rests_and_shows_bars_of_what_moves() -> None:
    done = run_facts("scope/done", verified=1, sealed_ms=1, completed=1)
    moving = run_facts("scope/open", verified=1, eligible=1)
    resting = read_overview(Known(done), [], None)
    pace = Pacer().observe(moving, 0, 0.0)
    lines = shown(watch_view(resting, [(moving, pace)]))
    assert any("scope/done" in line and "complete" in line for line in lines)
    assert any("open" in line and "1/2 files" in line for line in lines)
    nothing_rests = shown(watch_view(read_overview(Known(), ["scope"], None), [(moving, pace)]))
    assert not any("No run" in line for line in nothing_rests)


def test_of_one_run_each_state_that_occurs_has_its_line() -> None:
    lines = shown(states_view(run_facts(LONG, verified=1_200_000, held=3, size=2**20)))
    assert [line.split() for line in lines] == [
        ["FILES", "ARE", "COUNT", "SIZE"],
        ["verified", "1,200,000", "1.3", "TB"],
        ["held", "3", "3.1", "MB"],
    ]


def test_what_is_left_out_is_told() -> None:
    lines = shown(overview_view(replace(overview(), left_out=4950)))
    assert "4,950 older runs are over; --all shows them." in lines
    assert not any("--all" in line for line in shown(overview_view(overview())))
