"""Is a drill asked for something that it has not refused, before anything is started?"""

from pathlib import Path

import pytest

from labferry.errors import NotFound, SettingsError
from labferry.settings import InstrumentSettings, Settings, StoreSettings
from ops.drill import cases, run_case, run_drill
from ops.drill.cases import Check
from ops.drill.door import Asked, Door, Refusal, Rule

SETTINGS = Settings.model_construct(
    store=StoreSettings(bucket="bucket"), instruments={"a": InstrumentSettings(root=Path("/x"))}
)
ASKED = Asked("PUT", "k", 0, begins_upload=False)


def test_a_case_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="kill, deny"):
        run_drill(SETTINGS, ["nothing"], tmp_path / "report.json", as_json=False)
    assert list(tmp_path.iterdir()) == []


def test_a_rule_acts_as_often_as_it_says_and_the_first_that_fits_decides() -> None:
    door = Door(StoreSettings(bucket="bucket"))
    door.rules += [
        Rule(lambda asked: asked.key == "other", lambda: Refusal(500, "Other")),
        Rule(lambda asked: asked.key == "k", lambda: Refusal(403, "AccessDenied"), times=2),
    ]
    assert [door.judge(ASKED) for _ in range(3)] == [(403, "AccessDenied")] * 2 + [None]
    assert door.count(lambda asked: asked.key == "k") == 3


class Stage:
    """As much of a stage as running a case takes."""

    def __init__(self) -> None:
        self.door = Door(StoreSettings(bucket="bucket"))
        self.clock = self

    def mono_s(self) -> float:
        return 0.0


@pytest.mark.parametrize("holds", [True, False])
def test_a_case_passes_when_all_that_it_looks_at_holds(
    holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        cases.CASES, "kill", lambda _: iter([Check("one", True), Check("two", holds)])
    )
    assert run_case(Stage(), "kill").passed is holds  # type: ignore[arg-type]


def test_what_ends_a_case_early_fails_it_and_what_was_looked_at_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def case(stage: Stage):  # type: ignore[no-untyped-def]
        stage.door.rules.append(Rule(lambda _: True, lambda: None))
        yield Check("one", True)
        raise NotFound(what="it", step="Look.")

    monkeypatch.setitem(cases.CASES, "kill", case)
    stage = Stage()
    result = run_case(stage, "kill")  # type: ignore[arg-type]
    assert (result.passed, [check.what for check in result.checks]) == (False, ["one"])
    assert result.error
    assert stage.door.rules == []
