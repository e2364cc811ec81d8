"""Does the code keep the shape that STYLE and CONTRIBUTING promise?

What ruff, mypy and import-linter cannot say. `make check` runs those.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labferry.states import State

ROOT = Path(__file__).parent.parent
PACKAGES = ("labferry", "producer", "workers", "ops", "benchmarks")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
SCRIPTS = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.lua"))

VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "core", "manager", "types", "misc"}
THIRD_PARTY = {
    "redis",
    "celery",
    "kombu",
    "boto3",
    "botocore",
    "flower",
    "rich",
    "typer",
}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_there_is_code_to_look_at() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(PACKAGES)
    assert SCRIPTS


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_has_at_most_300_lines(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 300


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_function_has_at_most_50_lines(path: Path) -> None:
    long = {f.name: n for f in functions(path) if (n := (f.end_lineno or 0) - f.lineno + 1) > 50}
    assert long == {}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_which_question_it_answers(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8")))
    assert docstring
    if path.name != "__init__.py":
        assert "?" in docstring.split("\n\n")[0]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_has_a_name_of_its_own(path: Path) -> None:
    assert path.stem not in VAGUE | THIRD_PARTY
    assert path.stem.startswith("_") or path.stem not in sys.stdlib_module_names


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_a_script_has_at_most_40_lines(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 40


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_a_script_opens_with_its_keys_arguments_and_returns(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    end = next((n for n, line in enumerate(lines) if not line.startswith("--")), len(lines))
    header = "\n".join(lines[:end])
    assert re.search(r"\bKEYS\b", header)
    assert re.search(r"\bARGV\b", header)
    assert re.search(r"\breturns?\b", header, re.IGNORECASE)


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_a_script_knows_no_state_by_name(path: Path) -> None:
    code = re.sub(r"--.*", "", path.read_text("utf-8"))
    literals = set(re.findall(r"""["']([^"']*)["']""", code))
    assert literals.isdisjoint(set(State))


def test_only_the_documents_of_dead_letters_are_ever_written_over() -> None:
    callers = {
        name_of(path)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "put_document"
    }
    assert callers == {"workers/reasons.py"}
