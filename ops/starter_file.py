"""What does `labferry init` write? A labferry.toml with every setting, its default and its meaning.

It is made from the settings models themselves, so that it cannot drift from them.
"""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from labferry.errors import Refused, SettingsError
from labferry.profiles import Profile, load_profile
from labferry.settings import InstrumentSettings, Settings

#: What stands for a value that only the reader knows.
PLACEHOLDERS = {
    "bucket": "my-lab-runs",
    "root": "/data/NovaSeq1",
}
#: What is shown of a setting that is unset: of any other text nothing.
EXAMPLES = {
    "store.endpoint_url": '"https://s3.example.org"',
    "traces.endpoint_url": '"http://127.0.0.1:4318/v1/traces"',
    "limits.bandwidth_bytes_per_s": "50_000_000",
    "instruments.bandwidth_bytes_per_s": "50_000_000",
    "instruments.acquiring_bytes_per_s": "20_000_000",
    "instruments.max_concurrency": "16",
}
EMPTY = '""'
INSTRUMENT = "NovaSeq1"
#: Fields that belong in a profile, not in an instrument's section, or have no value by default.
OF_PROFILES = frozenset({
    "version", "name", "title", "extends", "detect", "quiet_after_next_s", "required", "companions",
    "least_size", "counts", "manifests", "sidecars", "next_file", "verdicts",
})  # fmt: skip
WIDTH = 90
COLUMN = 40

HEAD = """\
# labferry's settings. A line that begins with `#name =` shows the default, one with `# name =`
# what is unset, with an example or none: remove the `#` to change it. Every setting can also come
# from the environment, as LABFERRY_SECTION__FIELD, for instance LABFERRY_STORE__BUCKET; that wins
# over this file. Credentials never stand here: they come from the environment or the AWS
# configuration (AWS_ACCESS_KEY_ID, AWS_PROFILE, a role).
"""


def starter_file() -> str:
    """Return the text of a new labferry.toml."""
    sections = [HEAD]
    for name, field in Settings.model_fields.items():
        if name != "instruments":
            sections.append("\n".join(_section(name, field)) + "\n")
    return "\n".join([*sections, "\n".join(_instrument()) + "\n"])


def _section(name: str, field: FieldInfo) -> Iterator[str]:
    model = field.annotation
    assert isinstance(model, type) and issubclass(model, BaseModel)  # noqa: S101
    yield f"# {_purpose(model)}"
    yield f"[{name}]"
    for field_name, inner in model.model_fields.items():
        if isinstance(inner.default, SecretStr):
            variable = f"LABFERRY_{name}__{field_name}".upper()
            yield _with_comment(f"# {variable}=", inner.description)
        else:
            yield _entry(f"{name}.{field_name}", inner, inner.default)


def _instrument() -> Iterator[str]:
    yield f"# {_purpose(InstrumentSettings)}"
    yield "# One such section for each instrument; the name is how its runs are called."
    yield f"[instruments.{INSTRUMENT}]"
    for name, field in InstrumentSettings.model_fields.items():
        yield _entry(f"instruments.{name}", field, field.default)
    yield ""
    yield "# Of its profile; shown are the values of `generic`. docs/profiles.md has all fields."
    generic = load_profile("generic", {})
    for name, field in Profile.model_fields.items():
        if name not in OF_PROFILES:
            yield _entry(f"instruments.{name}", field, getattr(generic, name))


def _entry(place: str, field: FieldInfo, default: Any) -> str:
    name = place.rpartition(".")[2]
    shown = PLACEHOLDERS.get(name, default)
    mark = "" if field.is_required() else "#"
    if shown is None:
        return _with_comment(f"# {name} = {EXAMPLES.get(place, EMPTY)}", field.description)
    entry = f"{mark}{name} = {_toml(shown)}"
    if isinstance(shown, tuple) and len(entry) > COLUMN:
        listed = textwrap.wrap(", ".join(map(_toml, shown)), WIDTH, break_on_hyphens=False)
        lines = [f"{name} = [", *listed, "]"]
        return "\n".join([f"# {field.description}", *(mark + line for line in lines)])
    return _with_comment(entry, field.description)


def _with_comment(entry: str, text: str | None) -> str:
    return f"{entry:<{COLUMN}} # {text}"


def _purpose(model: type[BaseModel]) -> str:
    """Return the first sentence of a section's docstring, without its name in brackets."""
    sentence = (model.__doc__ or "").split("\n")[0]
    text = sentence.partition("] ")[2]
    return text[:1].upper() + text[1:]


def _toml(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False)


def write_starter_file(path: Path) -> None:
    """Write a new labferry.toml. Raises: Refused when something is there already."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(starter_file())
    except FileExistsError as error:
        raise Refused(
            what=str(path),
            why="it is there already, and is left as it is",
            step="Give another path: labferry init PATH.",
        ) from error
    except OSError as error:
        raise SettingsError(
            field=str(path),
            why=f"it cannot be written ({error.strerror})",
            step="Give another path: labferry init PATH.",
        ) from error
