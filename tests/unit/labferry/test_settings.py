"""Are settings read from file and environment, and is every wrong one named?"""

from pathlib import Path

import pytest

from labferry.environment import child_environment
from labferry.errors import SettingsError
from labferry.profiles import profile_names
from labferry.settings import load_settings

SOUND = """
[store]
bucket = "lab-runs"

[instruments.NovaSeq1]
root = "/data/NovaSeq1"
quiet_s = 60
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABFERRY_CONFIG", raising=False)
    return tmp_path


def write(text: str) -> None:
    Path("labferry.toml").write_text(text)


def sentence(text: str = SOUND) -> str:
    write(text)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    return str(caught.value)


def test_a_variable_overrides_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write(SOUND)
    monkeypatch.setenv("LABFERRY_STORE__BUCKET", "other")
    assert load_settings().store.bucket == "other"


def test_a_variable_in_capitals_overrides_an_instrument_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(SOUND)
    monkeypatch.setenv("LABFERRY_INSTRUMENTS__NOVASEQ1__ROOT", "/mnt/elsewhere")
    instruments = load_settings().instruments
    assert list(instruments) == ["NovaSeq1"]
    assert instruments["NovaSeq1"].root == Path("/mnt/elsewhere")
    assert instruments["NovaSeq1"].resolved().quiet_s == 60


def test_an_instrument_can_come_from_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABFERRY_STORE__BUCKET", "lab-runs")
    monkeypatch.setenv("LABFERRY_INSTRUMENTS__SCOPE__ROOT", "/data/scope")
    monkeypatch.setenv("LABFERRY_INSTRUMENTS__SCOPE__MARKER", "123")
    assert load_settings().instruments["scope"].resolved().marker == "123"


def test_no_settings_at_all_names_the_field_the_file_and_the_variable() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert str(caught.value) == (
        "store.bucket: it is not set. Set `bucket` under [store] of labferry.toml "
        "(there is none here; `labferry init` writes one), or LABFERRY_STORE__BUCKET."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            SOUND + "[retry]\nattempts = 0",
            "retry.attempts: it should be greater than or equal to 1, not 0. Set `attempts` "
            "under [retry] of labferry.toml, or LABFERRY_RETRY__ATTEMPTS.",
        ),
        (
            SOUND + "[ledger]\nheartbeat_s = 50",
            "ledger: heartbeat_s must be at most a third of lease_ttl_s. It stands in "
            "labferry.toml, or in the environment as LABFERRY_LEDGER__*. "
            "`labferry init PATH` shows every setting.",
        ),
        (
            SOUND + "[store2]\n",
            "store2: labferry has no such setting. It stands in labferry.toml, or in the "
            "environment as LABFERRY_STORE2__*. `labferry init PATH` shows every setting.",
        ),
        (
            SOUND + "[worker]\nthreads = 1",
            "worker.threads: labferry has no such setting. It stands in labferry.toml, or in the "
            "environment as LABFERRY_WORKER__THREADS. `labferry init PATH` shows every setting.",
        ),
        (
            "[store]\nbucket = 'lab-runs'",
            "instruments.NAME.root: it is not set. Set `root` under [instruments.NAME] of "
            "labferry.toml, or LABFERRY_INSTRUMENTS__NAME__ROOT.",
        ),
        (
            SOUND + "profile = 'novaseq9000'",
            "instruments.NovaSeq1.profile: there is no profile 'novaseq9000'. Set `profile` under "
            "[instruments.NovaSeq1] of labferry.toml, or LABFERRY_INSTRUMENTS__NOVASEQ1__PROFILE. "
            f"Known: {', '.join(profile_names())}.",
        ),
        (
            SOUND + "quiet = 5",
            "instruments.NovaSeq1.quiet: a profile has no such field. It stands in "
            "labferry.toml, or in the environment as LABFERRY_INSTRUMENTS__NOVASEQ1__QUIET. "
            "docs/profiles.md lists the fields of a profile.",
        ),
        (
            "[store]\nbucket = 'lab-runs'\n[instruments.'Nova Seq']\nroot = '/x'",
            "instruments.Nova Seq: the name is not letters, digits, '.', '_' and '-'. Rename it.",
        ),
    ],
)
def test_a_wrong_setting_is_one_clear_sentence(text: str, expected: str) -> None:
    assert sentence(text) == expected


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("bucket = 's3://lab-runs/raw'", "the bucket's name alone, such as my-lab-runs"),
        ("bucket = ' lab-runs '", "the bucket's name alone, such as my-lab-runs"),
        ("endpoint_url = 'localhost:9000'", "it should be such as https://s3.example.org"),
        ("endpoint_url = 'ftp://host'", "it should be such as https://s3.example.org"),
        ("endpoint_url = 'http://'", "it should be such as https://s3.example.org"),
        ("endpoint_url = 'http://host:99999'", "Port out of range"),
        ("endpoint_url = 'http://user:word@host'", "a password stands in it"),
        ("prefix = '../raw'", "no part between slashes may be empty, `.` or `..`"),
        ("prefix = 'lab//raw'", "no part between slashes may be empty, `.` or `..`"),
        ('prefix = "lab\\nraw"', "characters that cannot be printed"),
        (f"prefix = '{'x' * 513}'", "it is longer than 512 bytes"),
    ],
)
def test_what_no_request_could_name_is_refused_at_start(setting: str, expected: str) -> None:
    store = f"bucket = 'lab-runs'\n{setting}" if not setting.startswith("bucket") else setting
    text = SOUND.replace('bucket = "lab-runs"', store)
    assert sentence(text).startswith(f"store.{setting.partition(' ')[0]}: ")
    assert expected in sentence(text)
    assert "word@" not in sentence(text)


def test_the_arn_of_an_access_point_is_a_bucket() -> None:
    arn = "arn:aws:s3:eu-central-1:123456789012:accesspoint/lab"
    write(SOUND.replace("lab-runs", arn))
    assert load_settings().store.bucket == arn


@pytest.mark.parametrize("root", ["", "data/NovaSeq1", "~/NovaSeq1", "/data\\u0000"])
def test_a_root_is_the_same_folder_from_wherever_labferry_is_called(root: str) -> None:
    said = sentence(SOUND.replace("/data/NovaSeq1", root))
    assert said.startswith("instruments.NovaSeq1.root: it should be the whole path of a folder")


@pytest.mark.parametrize(
    "setting",
    [
        "quiet_s = inf",
        "urgent_left_s = nan",
        "[store]\nread_timeout_s = inf",
        "[retry]\ncap_s = inf",
    ],
)
def test_a_time_has_an_end(setting: str) -> None:
    text = SOUND.replace("[store]", setting) if "[store]" in setting else SOUND + setting
    assert "it should be a finite number" in sentence(text.replace("quiet_s = 60\nquiet", "quiet"))


def test_a_file_that_is_not_toml_is_named_with_the_place() -> None:
    said = sentence("[store\nbucket = 1")
    assert said.startswith("labferry.toml: it cannot be read as TOML: ")
    assert "line 1" in said


def test_a_misspelt_section_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABFERRY_STOER__BUCKET", "lab-runs")
    assert "LABFERRY_STOER__BUCKET: there is no section [stoer]. Sections: store," in sentence()


def test_a_configuration_that_is_not_there_names_who_asked_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=r"^--config: .*gone.toml is not a file"):
        load_settings(tmp_path / "gone.toml")
    monkeypatch.setenv("LABFERRY_CONFIG", "gone.toml")
    with pytest.raises(SettingsError, match=r"^LABFERRY_CONFIG: gone.toml is not a file"):
        load_settings()


def test_no_password_of_a_url_is_repeated() -> None:
    assert "secret" not in sentence(SOUND + "[broker]\nurl = 'redis+cluster://:secret@host'")


@pytest.mark.parametrize("field", ["[broker]\nurl", "[events]\ncelery_broker_url"])
def test_a_cluster_is_refused_as_broker_with_the_reason(field: str) -> None:
    assert "no Redis Cluster transport" in sentence(SOUND + f"{field} = 'redis+cluster://host'")


def test_sqs_without_what_workers_reach_it_by_is_refused_at_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("labferry.broker_address.find_spec", lambda _: None)
    assert "pip install pycurl" in sentence(SOUND + "[broker]\nurl = 'sqs://'")
    monkeypatch.setattr("labferry.broker_address.find_spec", lambda _: True)
    write(SOUND + "[broker]\nurl = 'sqs://'")
    assert load_settings().broker.url == "sqs://"


def test_a_secret_is_not_shown_with_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(SOUND)
    monkeypatch.setenv("LABFERRY_FLOWER__BASIC_AUTH", "ada:tell-nobody")
    monkeypatch.setenv("LABFERRY_EVENTS__WEBHOOK_SECRET", "tell-nobody-either")
    settings = load_settings()
    assert "tell-nobody" not in repr(settings)
    assert settings.flower.basic_auth.get_secret_value() == "ada:tell-nobody"
    assert settings.events.webhook_secret.get_secret_value() == "tell-nobody-either"


def test_a_program_that_is_started_has_the_same_configuration(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(SOUND)
    monkeypatch.setenv("FLOWER_UNAUTHENTICATED_API", "true")
    child = child_environment(None, {"A": "1"}, without=("FLOWER_",))
    assert child["LABFERRY_CONFIG"] == str(here / "labferry.toml")
    assert child["A"] == "1"
    assert "FLOWER_UNAUTHENTICATED_API" not in child
