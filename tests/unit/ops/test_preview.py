"""Does a preview say what would become of files before they are sent in again?"""

from pathlib import Path

import pytest

from labferry.chosen import get_letter
from labferry.settings import InstrumentSettings, Settings, StoreSettings
from ops.preview import Chosen, Prediction, Preview
from tests.ledger_world import ACT
from tests.memory_ledger import MemoryLedger
from tests.memory_store import MemoryStore
from tests.unit.ops.letters import RUN, ledger_of_letters


@pytest.fixture
def ledger() -> MemoryLedger:
    return ledger_of_letters()


@pytest.fixture
def preview(ledger: MemoryLedger, tmp_path: Path) -> Preview:
    settings = Settings.model_construct(
        store=StoreSettings(bucket="bucket"),
        instruments={RUN.instrument: InstrumentSettings(root=tmp_path)},
    )
    (tmp_path / RUN.run).mkdir()
    return Preview(settings, ledger, MemoryStore())


@pytest.mark.parametrize("name", [RUN, RUN.instrument])
def test_a_hold_stands_in_the_way(ledger: MemoryLedger, preview: Preview, name: object) -> None:
    assert preview.obstacles([RUN]) == []
    ledger.hold(name, ACT)  # type: ignore[arg-type]
    (said,) = preview.obstacles([RUN, RUN])
    assert said.startswith(f"{RUN} is held by {ACT.actor}: {ACT.reason}.")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("AccessDenied", "its source is not there any more"),
        ("bad_name", "no object key can hold its name"),
    ],
)
def test_a_name_that_is_no_key_s_is_not_said_to_be_gone(
    ledger: MemoryLedger, preview: Preview, code: str, why: str
) -> None:
    letter = get_letter(ledger, RUN.file("d/007.txt"))
    (forecast,) = preview.forecasts([Chosen(file=letter.file, record=letter.record, code=code)])
    assert (forecast.prediction, forecast.why) == (Prediction.FAIL, why)
