"""Which parts of the documents come from the code? They stand between two marks:

    <!-- from the code: NAME -->
    <!-- end -->

`make docs` writes them again; `make check` fails while one is stale (`--check`).
"""

import re
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from inspect import cleandoc, getsource
from pathlib import Path
from typing import Any

import typer
import yaml
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from labferry import completion, failure_table, states
from labferry.profiles import Profile, load_profile
from labferry.settings import InstrumentSettings, Settings
from ops.cli import app
from ops.condition import Condition
from ops.exits import Exit
from ops.metrics import Found, families, ledger_up

DOCS = Path(__file__).parent
#: Digits are grouped from here on: a port is not.
_GROUPED = 10_000
_PART = re.compile(r"(<!-- from the code: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def diagram() -> str:
    """Return the moves of a file as a diagram."""
    return f"```mermaid\n{states.mermaid()}\n```\n"


def meanings() -> str:
    """Return the tables of states, events and actors with their one-line meanings."""
    return "\n".join(_meanings_of(kind) for kind in (states.State, states.Event, states.Actor))


def runs() -> str:
    """Return the table of a run's states."""
    return _meanings_of(completion.RunState, "run")


def conditions() -> str:
    """Return the table of an instrument's conditions, the gravest first."""
    return _meanings_of(Condition)


def metrics() -> str:
    """Return the table of metrics, as the exporter describes them."""
    found = [*families(Found()), ledger_up(is_up=True)]
    rows = [
        f"| `{one.name}{'_total' if one.type == 'counter' else ''}` | {one.type} | "
        f"{', '.join(f'`{label}`' for label in getattr(one, '_labelnames', ())) or 'none'} | "
        f"{one.documentation} |"
        for one in found
    ]
    heading = "| metric | type | labels | what it says |"
    return "\n".join([heading, "| --- | --- | --- | --- |", *rows, ""])


def alerts() -> str:
    """Return the table of alerts, from Prometheus' rules."""
    text = (DOCS.parent / "ops" / "prometheus" / "labferry.rules.yml").read_text("utf-8")
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    rows = [
        f"| {rule['alert'].removeprefix('Labferry')} | {rule['labels']['severity']} | "
        f"`{rule['expr'].replace('|', chr(92) + '|')}`"
        f"{' for ' + rule['for'] if 'for' in rule else ''} | {rule['annotations']['action']} |"
        for rule in rules
    ]
    heading = "| alert | severity | when | what to do |"
    return "\n".join([heading, "| --- | --- | --- | --- |", *rows, ""])


def _meanings_of(kind: type[StrEnum], title: str = "") -> str:
    comments = dict(re.findall(r'^    [A-Z_]+ = "(.+)"  # (.+)$', getsource(kind), re.MULTILINE))
    rows = [f"| `{member}` | {comments[member]} |" for member in kind]
    heading = f"| {title or kind.__name__.lower()} | meaning |"
    return "\n".join([heading, "| --- | --- |", *rows, ""])


def kinds() -> str:
    """Return the tables of failure kinds, scopes and causes with their one-line meanings."""
    words = (failure_table.Kind, failure_table.Scope, failure_table.Cause)
    return "\n".join(_meanings_of(one) for one in words)


def answers() -> str:
    """Return the table of what the object store's answers mean, in its order."""
    heading = "| code | status | operation | kind | whose | why |"
    rows = [
        f"| {_names(row.codes)} | {_statuses(row.statuses)} | {_names(row.operations)} "
        f"| {row.kind} | {row.cause or row.scope} | {row.why} |"
        for row in failure_table.ANSWERS
    ]
    return "\n".join([heading, "| --- | --- | --- | --- | --- | --- |", *rows, ""])


def errnos() -> str:
    """Return the table of what system calls, and labferry's own errors, mean."""
    rows = [*failure_table.ERRNOS, *(row for _, row in failure_table.OWN)]
    lines = [
        f"| {_names(row.codes)} | {row.kind} | {row.cause or row.scope} | {row.why} |"
        for row in rows
    ]
    return "\n".join(["| code | kind | whose | why |", "| --- | --- | --- | --- |", *lines, ""])


def _names(names: frozenset[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) or "any"


def _statuses(statuses: frozenset[int | None]) -> str:
    shown = sorted("none" if one is None else str(one) for one in statuses)
    return ", ".join(shown) or "any"


def settings() -> str:
    """Return a table for each section of labferry.toml."""
    sections = dict(Settings.model_fields)
    del sections["instruments"]
    parts = [_section(name, field.annotation) for name, field in sections.items()]
    return "\n".join([*parts, _section("instruments.NAME", InstrumentSettings)])


def _section(name: str, model: Any) -> str:
    assert issubclass(model, BaseModel)
    purpose = (model.__doc__ or "").split("\n")[0].partition("] ")[2]
    return f"### `[{name}]`\n\n{purpose[:1].upper()}{purpose[1:]}\n\n{_table(model)}"


def profile() -> str:
    """Return the table of a profile's fields with the values of `generic`."""
    generic = load_profile("generic", {})
    return _table(Profile, {name: getattr(generic, name) for name in Profile.model_fields})


def _table(model: type[BaseModel], values: dict[str, Any] | None = None) -> str:
    rows = list(_rows(model, values or {}))
    return "\n".join(["| name | default | meaning |", "| --- | --- | --- |", *rows, ""])


def _rows(model: type[BaseModel], values: dict[str, Any]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        shown = _value(values[name]) if name in values else _default(field)
        yield f"| `{name}` | {shown} | {field.description} |"


def _default(field: FieldInfo) -> str:
    return "must be set" if field.is_required() else _value(field.default)


def _value(value: Any) -> str:
    if value is None or value == "" or isinstance(value, SecretStr):
        return "unset"
    if isinstance(value, tuple):
        return " ".join(f"`{item}`" for item in value) or "none"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"`{value}`"
    return f"{value:,}" if value >= _GROUPED else f"{value:g}"


def commands() -> str:
    """Return what each command says of itself; a group's commands follow it."""
    found = typer.main.get_group(app).commands
    return "\n".join(one for name, command in found.items() for one in _commands(name, command))


def _commands(name: str, command: Any) -> Iterator[str]:
    yield _command(name, command)
    for inner, one in getattr(command, "commands", {}).items():
        yield from _commands(f"{name} {inner}", one)


def _command(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    usage = " ".join(["labferry", name, *(one.metavar for one in arguments)])
    rows = [f"| `{one.metavar}` | {one.help} |" for one in arguments if one.help]
    options = [one for one in command.params if one.param_type_name == "option"]
    for option in options:
        if option.name != "config":
            choices = "|".join(type(option.default)) if isinstance(option.default, StrEnum) else ""
            taken = " ".join([*option.opts, option.metavar or choices]).strip().replace("|", "\\|")
            rows.append(f"| `{taken}` | {option.help} |")
    table = "\n".join(["| takes | meaning |", "| --- | --- |", *rows, ""]) if rows else ""
    return f"### `{usage}`\n\n{cleandoc(command.help)}\n\n{table}".rstrip() + "\n"


def exit_codes() -> str:
    """Return the table of exit codes."""
    rows = [f"| {int(code)} | {code.meaning} |" for code in Exit]
    return "\n".join(["| code | meaning |", "| --- | --- |", *rows, ""])


def decisions() -> str:
    """Return a line for each decision, with its title."""
    pages = sorted((DOCS / "decisions").glob("*.md"))
    titles = [page.read_text("utf-8").split("\n")[0].removeprefix("# ") for page in pages]
    lines = [
        f"- [{title}](decisions/{page.name})" for page, title in zip(pages, titles, strict=True)
    ]
    return "\n".join([*lines, ""])


PARTS: dict[str, Callable[[], str]] = {
    "diagram": diagram,
    "meanings": meanings,
    "runs": runs,
    "conditions": conditions,
    "metrics": metrics,
    "alerts": alerts,
    "kinds": kinds,
    "answers": answers,
    "errnos": errnos,
    "settings": settings,
    "profile": profile,
    "commands": commands,
    "decisions": decisions,
    "exits": exit_codes,
}


def rewritten(text: str) -> str:
    """Return a document with its parts made again."""
    return _PART.sub(lambda match: f"{match[1]}{PARTS[match[2]]()}{match[3]}", text)


def main() -> int:
    """Write the documents, or with --check only say which are stale."""
    stale = [
        page
        for page in sorted(DOCS.rglob("*.md"))
        if rewritten(page.read_text()) != page.read_text()
    ]
    if "--check" in sys.argv:
        for page in stale:
            print(f"{page.relative_to(DOCS.parent)} is stale: make docs", file=sys.stderr)
        return 1 if stale else 0
    for page in stale:
        page.write_text(rewritten(page.read_text()))
        print(f"wrote {page.relative_to(DOCS.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
