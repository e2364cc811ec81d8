"""Is what people named, and what a sentence says of a section, shown as it is?"""

import io
import re
from pathlib import Path

import typer
from rich.table import Table

from ops.cli import app
from ops.doctor import finding_line, print_findings
from ops.doctor.finding import Area, Finding
from ops.shown import terminal

OPS = Path(__file__).parents[3] / "ops"


def shown(what: str | Table) -> str:
    console = terminal()
    console.file = io.StringIO()
    console.print(what)
    return console.file.getvalue()


def printed(findings: list[Finding]) -> str:
    console = terminal()
    console.file = io.StringIO()
    assert print_findings(console, findings) == findings
    return console.file.getvalue()


def test_a_name_with_brackets_or_colons_is_shown_whole() -> None:
    table = Table.grid()
    table.add_row("run [bold]1 :smile:")
    assert "run [bold]1 :smile:" in shown(table)
    assert "[/x] closed" in shown("[/x] closed")


def test_a_finding_names_the_section_that_mends_it() -> None:
    found = Area("ledger").bad("role", "[ledger] url: a replica", "Set [ledger] url to it.")
    assert "[ledger] url: a replica" in shown(finding_line(found))
    assert "Set [ledger] url to it." in shown(finding_line(found))


def test_the_same_advice_is_given_once() -> None:
    area = Area("shares")
    findings = [
        area.bad("scope", "it is not there", "Mount it."),
        area.bad("massspec", "it is empty", "Mount it."),
        area.good("nmr", "can be listed"),
        area.good("flow", "can be listed"),
    ]
    text = printed(findings)
    assert text.count("Mount it.") == 1
    assert text.index("it is empty") < text.index("As above.")
    assert text.count("As above.") == 1


def test_no_command_makes_a_console_of_its_own() -> None:
    made = {path.name for path in OPS.rglob("*.py") if re.search(r"\bConsole\(", path.read_text())}
    assert made == {"shown.py"}


def test_no_help_has_a_section_in_brackets_which_the_terminal_takes_for_markup() -> None:
    commands = [typer.main.get_group(app)]
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        texts = [command.help or "", *(getattr(one, "help", None) or "" for one in command.params)]
        for text in texts:
            assert not re.search(r"\[(?!/?bold\])[a-z@#/]", text), (command.name, text)
