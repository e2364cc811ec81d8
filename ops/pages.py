"""How do runs and files look in a browser? Plain HTML that reads well without colour or script."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import islice
from typing import NewType
from urllib.parse import quote

from labferry.completion import run_state
from labferry.identity import FileKey, RunKey
from labferry.passes import Waiting
from labferry.ports import Ledger
from labferry.records import RunFacts
from labferry.settings import Settings
from labferry.states import State
from ops.explain import explain_key
from ops.explain_view import explanation_rows, note_line
from ops.overview import InstrumentStatus, find_run, read_overview, read_run_key, rules_of
from ops.pace import Pace, Pacers
from ops.run_view import hold_words, progress_words, remarks, to_go_words, unfinished, waits_for
from ops.shown import instant, size
from ops.troubles import Troubles, breaker_words, read_troubles

Page = NewType("Page", str)
#: Files listed of one run, of so many looked at: a page is a look, not a report.
FILES_SHOWN, FILES_LOOKED_AT = 200, 20_000
REFRESH_S = 5
_TROUBLED = frozenset({State.FAILED, State.HELD, State.QUARANTINED})
_STYLE = """
body { font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif; margin: 0 auto; max-width: 62rem;
  padding: 1.5rem; color: #1b2733; background: #fff }
h1 { font-size: 1.35rem } h2 { font-size: 1.05rem; margin: 1.8rem 0 .4rem }
table { border-collapse: collapse; width: 100% }
th { text-align: left; font-weight: 600; border-bottom: 2px solid #c9d3dc }
td, th { padding: .35rem .8rem .35rem 0; vertical-align: top; overflow-wrap: anywhere }
td { border-bottom: 1px solid #e4eaef } td.n, th.n { text-align: right; white-space: nowrap }
progress { width: 11rem; height: .9rem } small { color: #51606e; display: block }
.state { font-weight: 600; white-space: nowrap } .bad { color: #a4161a } .good { color: #1c6e3d }
.box { border-left: 4px solid #a4161a; background: #fdf3f3; padding: .5rem .9rem; margin: .5rem 0 }
form { margin: 1.5rem 0 } input { font: inherit; padding: .3rem .5rem; width: 60% }
button { font: inherit; padding: .3rem .8rem } a { color: #14508c } nav { margin-bottom: 1rem }
"""
_GRAVE = frozenset({
    "attention", "away", "unwatched", "hung", "stale", "incomplete", "quarantined",
})  # fmt: skip
_WELL = frozenset({"idle", "complete", "verified"})


def status_page(ledger: Ledger, settings: Settings, pacers: Pacers, now_s: float) -> Page:
    """Return what `labferry status --watch` shows."""
    rules = rules_of(settings)
    overview = read_overview(ledger, settings.instruments, None, rules).newest()
    troubles = read_troubles(ledger, rules.recovery_ms)
    paces = pacers.observe(ledger, overview.runs, now_s)
    moving = [(facts, pace) for facts, pace in paces if unfinished(facts)]
    resting = [(facts, pace) for facts, pace in paces if not unfinished(facts)]
    body = [
        *_troubles(troubles),
        *_table("Instruments|Condition|Runs:n|To go:n", map(_instrument, overview.instruments)),
        *_section("On their way", _runs(moving, overview.waiting)),
        *_section("At rest", _runs(resting, overview.waiting)),
        *_left_out(overview.left_out),
        _FORM,
    ]
    return _page("labferry", body, refresh_s=REFRESH_S)


def _left_out(count: int) -> list[str]:
    return [f"<p>{count:,} older runs are over; `labferry status --all` has them.</p>"] * bool(
        count
    )


def run_page(ledger: Ledger, settings: Settings, key: str) -> Page:
    """Return one run, and which of its files are out of the ordinary.

    Raises: NotFound, SettingsError.
    """
    facts = rules_of(settings).seen(find_run(ledger, read_run_key(key)))
    counts = (
        (_state(state), f"{facts.counts[state]:,}", size(facts.sizes[state]))
        for state in State
        if facts.counts[state]
    )
    troubled = list(islice(_troubled(ledger, facts.run), FILES_SHOWN))
    body = [
        _HOME,
        f"<p>{_state(run_state(facts))} {_lines(remarks(facts))}</p>",
        *_table("State|Files:n|Size:n", counts),
        *_section("Failed, held or in quarantine", _table("File|State", troubled)),
    ]
    if len(troubled) == FILES_SHOWN:
        body.append(f"<p>The first {FILES_SHOWN}; `labferry dead-letters list` has all.</p>")
    return _page(str(facts.run), body, refresh_s=REFRESH_S)


def explain_page(ledger: Ledger, settings: Settings, key: str) -> Page:
    """Return what is known of one file. Raises: NotFound, SettingsError, StoreError."""
    found = explain_key(settings, ledger, key)
    history = ((escape(instant(one.at_ms)), escape(note_line(one))) for one in found.history)
    rows = ((escape(name), escape(value)) for name, value in explanation_rows(found))
    body = [
        _HOME.replace("</nav>", f" &middot; {_run_link(found.file.run)}</nav>"),
        *_table("|", rows),
        *_section("History, oldest first", _table("|", history)),
        _FORM,
    ]
    return _page(str(found.file), body)


def error_page(why: str) -> Page:
    """Return a page that says what is wrong and what to do."""
    return _page("labferry", [_HOME, f"<p>{escape(why)}</p>"])


_HOME = '<nav><a href="./">all runs</a></nav>'
_FORM = (
    '<form action="explain"><label>Explain one file '
    '<input name="key" placeholder="INSTRUMENT/RUN/PATH"></label> <button>Explain</button></form>'
)


def _page(title: str, body: Iterable[str], *, refresh_s: int = 0) -> Page:
    refresh = f'<meta http-equiv="refresh" content="{refresh_s}">' if refresh_s else ""
    head = f"<title>{escape(title)}</title>{refresh}<style>{_STYLE}</style>"
    return Page(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{head}</head><body>'
        f"<h1>{escape(title)}</h1>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _table(heads: str, rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return a table of cells that are HTML already; a head that ends in `:n` is of numbers."""
    found = [*rows]
    if not found:
        return []
    kinds = [' class="n"' if head.endswith(":n") else "" for head in heads.split("|")]
    names = [head.removesuffix(":n") for head in heads.split("|")]
    shown = "".join(f"<th{kind}>{name}</th>" for kind, name in zip(kinds, names, strict=True))
    lines = [
        "<tr>"
        + "".join(f"<td{k}>{cell}</td>" for k, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in found
    ]
    return ["<table>", f"<tr>{shown}</tr>" if any(names) else "", *lines, "</table>"]


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"<h2>{title}</h2>", *lines] if lines else []


def _troubles(troubles: Troubles) -> Iterator[str]:
    for one in troubles.breakers:
        words = breaker_words(one, troubles.now_ms)
        yield f'<p class="box"><b>{escape(one.name)}</b>: {escape(one.message)}{_small(words)}</p>'
    for sink in troubles.undelivered:
        words = f"{sink.waiting} alerts not delivered yet to {sink.sink}"
        yield f'<p class="box">{escape(words)}{_small(sink.why)}</p>'


def _instrument(status: InstrumentStatus) -> tuple[str, ...]:
    condition = _state(status.condition) + (_small(status.why) if status.why else "")
    held = _small(hold_words(status.hold)) if status.hold else ""
    return escape(status.instrument) + held, condition, f"{status.runs:,}", to_go_words(status)


def _runs(runs: Iterable[tuple[RunFacts, Pace]], waiting: Mapping[str, Waiting]) -> list[str]:
    rows = (
        (
            _run_link(facts.run) + _lines([*remarks(facts), *_lacks(facts, waiting)]),
            _state(run_state(facts)),
            f'<progress value="{pace.share:.3f}"></progress>{_small(progress_words(facts, pace))}',
        )
        for facts, pace in runs
    )
    return _table("Run|State|Progress", rows)


def _lacks(facts: RunFacts, waiting: Mapping[str, Waiting]) -> Sequence[str]:
    known = waiting.get(str(facts.run))
    return waits_for(known) if known else ()


def _troubled(ledger: Ledger, run: RunKey) -> Iterator[tuple[str, ...]]:
    for path, record in islice(ledger.records(run), FILES_LOOKED_AT):
        if record.state in _TROUBLED:
            file = FileKey(run, path)
            link = f'<a href="explain?key={quote(str(file), safe="")}">{escape(path)}</a>'
            yield link, _state(record.state)


def _run_link(run: RunKey) -> str:
    return f'<a href="run?key={quote(str(run), safe="")}">{escape(str(run))}</a>'


def _state(word: str) -> str:
    kind = " bad" if word in _GRAVE else " good" if word in _WELL else ""
    return f'<span class="state{kind}">{escape(word)}</span>'


def _small(text: str) -> str:
    return f"<small>{escape(text)}</small>"


def _lines(texts: Iterable[str]) -> str:
    return "".join(map(_small, texts))
