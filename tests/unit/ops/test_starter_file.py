"""Is what `labferry init` writes a whole and true account of the settings?"""

import re
import tomllib
from pathlib import Path

import pytest

from labferry.errors import Refused, SettingsError
from labferry.profiles import Profile
from labferry.settings import InstrumentSettings, Settings, load_settings
from ops.starter_file import OF_PROFILES, PLACEHOLDERS, starter_file, write_starter_file

#: What is the reader's own and has no default.
OWN = set(PLACEHOLDERS)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_loads_as_it_is(here: Path) -> None:
    write_starter_file(here / "labferry.toml")
    settings = load_settings()
    assert settings.store.bucket == "my-lab-runs"
    assert settings.ledger == Settings.model_fields["ledger"].default
    assert settings.instruments["NovaSeq1"].resolved().quiet_s == 300


def test_every_setting_is_in_it_with_its_default(here: Path) -> None:
    """Take the mark off every line: what is read then must be the defaults again."""
    text = re.sub(r"(?m)^#(?! )", "", starter_file())
    shown = tomllib.loads(text)
    instrument = shown.pop("instruments")["NovaSeq1"]
    for section, fields in shown.items():
        model = Settings.model_fields[section].annotation
        assert model is not None
        known = model.model_fields
        unset = {name for name in set(known) - OWN if known[name].default is None}
        assert set(fields) == set(known) - {"basic_auth", "webhook_secret", "key"} - unset
        assert all(f"\n# {name} = " in text for name in unset)
        for name in set(fields) - OWN:
            default = known[name].default
            assert fields[name] == (list(default) if isinstance(default, tuple) else default), name
    fields = InstrumentSettings.model_fields | Profile.model_fields
    unset = {name for name, field in fields.items() if field.default is None}
    assert set(instrument) == set(fields) - OF_PROFILES - unset


def test_the_defaults_shown_are_accepted_when_the_marks_are_taken_off(here: Path) -> None:
    Path("labferry.toml").write_text(re.sub(r"(?m)^#(?! )", "", starter_file()))
    written = load_settings()
    Path("labferry.toml").write_text(starter_file())
    assert written.instruments["NovaSeq1"].resolved() == (
        load_settings().instruments["NovaSeq1"].resolved()
    )


def test_the_password_of_flower_is_named_as_a_variable_only() -> None:
    assert "LABFERRY_FLOWER__BASIC_AUTH=" in starter_file()
    assert not re.search(r"(?m)^#?basic_auth", starter_file())


def test_an_existing_file_is_left_alone(here: Path) -> None:
    path = here / "mine.toml"
    path.write_text("mine")
    with pytest.raises(Refused, match=r"mine\.toml: it is there already"):
        write_starter_file(path)
    assert path.read_text() == "mine"


def test_a_place_that_cannot_be_written_is_named(here: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone/labferry\.toml: it cannot be written"):
        write_starter_file(here / "gone" / "labferry.toml")
