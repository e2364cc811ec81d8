"""What do `labferry dead-letters list`, `show` and `export` print?"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from labferry.chosen import chosen_letters, get_letter
from labferry.dead_letter import DeadLetter
from labferry.outbox import Waiting
from labferry.ports import Ledger
from labferry.selector import Selector, read_selector
from ops.deliveries import chosen_deliveries, deliveries_view, delivery_json
from ops.explain_view import history_view
from ops.letter_groups import Group, grouped, headline
from ops.shown import counted, instant, size, terminal
from ops.written import written

#: A letter's cause is the newest line of its history.
_CAUSE = 1
_NONE = "There is no dead letter"


def list_letters(ledger: Ledger, selector: Selector, *, files: bool, as_json: bool) -> None:
    """Print the dead letters that are meant, by cause or file by file.

    Raises: NotFound, LedgerUnavailable.
    """
    now_ms = ledger.now_ms()
    if as_json:
        letters = chosen_letters(ledger, selector, now_ms=now_ms)
        _print_json(
            sys.stdout, letters, ledger.dead_messages(), chosen_deliveries(ledger, selector)
        )
        return
    letters = chosen_letters(ledger, selector, now_ms=now_ms, notes=_CAUSE)
    if files:
        for letter in letters:
            print(_file_line(letter))
        return
    console = terminal()
    if deliveries := chosen_deliveries(ledger, selector):
        console.print(deliveries_view(deliveries))
    groups = grouped(letters)
    if groups or not deliveries:
        console.print(groups_view(groups) if groups else Text(_none(selector)))
    if messages := ledger.dead_messages():
        console.print(_messages_view(messages))


def _none(selector: Selector) -> str:
    return f"{_NONE}." if selector == Selector() else f"{_NONE} with {selector}."


def _print_json(
    out: TextIO,
    letters: Iterable[DeadLetter],
    messages: Iterable[str],
    deliveries: Iterable[Waiting],
) -> None:
    """Print one object piece by piece: there may be more letters than memory holds."""
    out.write('{"letters": [')
    for number, letter in enumerate(letters):
        out.write(",\n" if number else "\n")
        out.write(_json(letter))
    out.write(f'],\n"messages": {json.dumps([_message(one) for one in messages])}')
    out.write(f',\n"deliveries": {json.dumps([delivery_json(one) for one in deliveries])}}}\n')


def _message(text: str) -> object:
    """Return a message that was kept; what is no JSON is shown as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return {"text": text}


def _json(letter: DeadLetter) -> str:
    return json.dumps(letter.to_json(), ensure_ascii=True)


def _file_line(letter: DeadLetter) -> str:
    bytes_ = size(letter.record.fingerprint.size)
    facts = (letter.fingerprint, instant(letter.at_ms), f"{bytes_:>9}", letter.code)
    return "  ".join([*facts, str(letter.file)])


def groups_view(groups: list[Group]) -> RenderableType:
    """Return one paragraph a cause, the largest first."""
    return Lines(Text(f"{headline(groups)}", style="bold"), *map(_group_view, groups))


def _group_view(group: Group) -> RenderableType:
    sample = group.sample
    files = counted(group.count)
    runs = counted(len(group.runs), "run")
    first, last = instant(group.first_ms), instant(group.last_ms)
    when = first if first == last else f"{first} to {last}"
    facts = Table.grid(padding=(0, 1))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("since", when)
    facts.add_row("such as", Text(str(sample.file)))
    facts.add_row("error", Text(sample.cause.message or "nothing is on record"))
    facts.add_row("to do", Text(sample.suggestion))
    title = Text.assemble(
        (group.fingerprint, "bold cyan"),
        "  ",
        (sample.code, "bold red"),
        f" ({sample.kind}): {files}, {size(group.size)}, in {runs}",
    )
    return Lines(Text(), title, Padding(facts, (0, 0, 0, 2)))


def _messages_view(messages: list[str]) -> RenderableType:
    what = counted(len(messages), "message")
    said = f"{what} could not be decoded and are kept; the last:\n{messages[-1]}"
    return Lines(Text(), Text(said))


def show_letter(ledger: Ledger, key: str, *, as_json: bool) -> None:
    """Print one dead letter with all that is on record. Raises: NotFound, SettingsError."""
    file = read_selector(file=key).file
    assert file is not None  # noqa: S101  it was just read
    letter = get_letter(ledger, file)
    if as_json:
        print(_json(letter))
        return
    console = terminal()
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _facts(letter):
        table.add_row(name, Text(value))
    console.print(table)
    console.print("\nAttempts and acts, oldest first:")
    console.print(history_view(letter.notes))


def _facts(letter: DeadLetter) -> Iterator[tuple[str, str]]:
    fingerprint = letter.record.fingerprint
    yield "file", str(letter.file)
    yield "status", f"{letter.status}, since {instant(letter.at_ms)}"
    yield "cause", f"{letter.code} ({letter.kind}), error fingerprint {letter.fingerprint}"
    yield "error", letter.cause.message or "nothing is on record"
    yield "to do", letter.suggestion
    yield "size", f"{size(fingerprint.size)} ({fingerprint.size:,} bytes)"
    yield "source", f"mtime {fingerprint.mtime_ns} ns, inode {fingerprint.inode}"
    if evidence := letter.record.evidence:
        yield "verified as", f"crc64nvme {evidence.crc64:016x}, etag {evidence.etag}"
    yield "series", f"{letter.record.series} (each replay begins a new one)"


def export_letters(ledger: Ledger, selector: Selector, output: Path | None) -> None:
    """Write the dead letters that are meant as JSON lines, then what nobody could decode or take.

    A file is there whole or not at all. Raises: NotFound, SettingsError, LedgerUnavailable.
    """
    with written(output) as out:
        for letter in chosen_letters(ledger, selector, now_ms=ledger.now_ms()):
            out.write(_json(letter) + "\n")
        for message in ledger.dead_messages():
            out.write(json.dumps({"buried": _message(message)}) + "\n")
        for delivery in chosen_deliveries(ledger, selector):
            out.write(json.dumps({"undelivered": delivery_json(delivery)}) + "\n")
