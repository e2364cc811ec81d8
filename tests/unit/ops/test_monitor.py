"""Do the pages show runs and files to whom they should, and change nothing?"""

import re
from base64 import b64encode
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from pydantic import SecretStr

from labferry.breakers import Breaker, Phase
from labferry.errors import LedgerUnavailable
from labferry.failures import Cause
from labferry.ports import Ledger
from labferry.records import Note
from labferry.settings import Settings, StoreSettings
from labferry.settings_trouble import BreakerSettings
from labferry.settings_watching import MonitorSettings
from labferry.states import Event, State
from ops.monitor import Monitor
from tests.dock import Meddling
from tests.ledger_world import ACT, RUN, World, memory_world

ODD = "<script>alert(1)</script> & 100%?.txt"


@pytest.fixture
def world() -> World:
    return memory_world()


def monitor(ledger: Ledger, **fields: Any) -> Monitor:
    settings = Settings.model_construct(
        monitor=MonitorSettings(**fields),
        breakers=BreakerSettings(),
        instruments={},
        store=StoreSettings(bucket="bucket"),
    )
    return Monitor(ledger, settings)


def ask(app: Monitor, path: str, query: str = "", **environ: str) -> tuple[int, str, Any]:
    asked: dict[str, Any] = {"PATH_INFO": path, "QUERY_STRING": query, **environ}
    setup_testing_defaults(asked)
    said: list[Any] = []
    body = b"".join(app(asked, lambda status, headers, *_: said.extend([status, dict(headers)])))
    return int(said[0].split()[0]), body.decode(), said[1]


def links(page: str) -> list[str]:
    return re.findall(r'href="([^"]+)"', page)


def follow(app: Monitor, link: str) -> str:
    path, _, query = link.partition("?")
    status, page, _ = ask(app, f"/{path}", query)
    assert status == 200, page
    return page


def test_the_first_page_shows_instruments_and_runs_with_their_progress(world: World) -> None:
    world.bring(State.VERIFIED, "a")
    world.bring(State.HELD, "b")
    status, page, headers = ask(monitor(world.ledger), "/")
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    for words in ("NovaSeq1", "retrying", str(RUN), "1/2 files", "1 held", 'value="0.500"'):
        assert words in page


def test_a_link_leads_from_the_first_page_to_a_file_and_why_it_is_there(world: World) -> None:
    token = world.upload(ODD)
    note = Note(event=Event.QUARANTINE, kind="permanent", code="EACCES", message="may not read")
    world.move(Event.QUARANTINE, ODD, token=token, note=note)
    app = monitor(world.ledger)
    _, first, _ = ask(app, "/")
    (run,) = (one for one in links(first) if one.startswith("run?"))
    (file,) = (one for one in links(follow(app, run)) if one.startswith("explain?"))
    page = follow(app, file)
    for words in ("quarantined", "EACCES", "may not read", "labferry dead-letters show"):
        assert words in page
    assert run in links(page)


def test_no_name_is_taken_for_html(world: World) -> None:
    token = world.upload(ODD)
    note = Note(event=Event.FAIL, kind="transient", code="<b>", message="<img src=x>")
    world.move(Event.FAIL, ODD, token=token, note=note, delay_ms=1)
    app = monitor(world.ledger)
    for path, query in [("/run", f"key={RUN}"), ("/explain", f"key={RUN}/{ODD}")]:
        _, page, headers = ask(app, path, query.replace("%", "%25").replace("&", "%26"))
        assert "<script" not in page and "<img" not in page and "<b>" not in page
        assert "script" not in headers["Content-Security-Policy"]


def test_a_hold_on_an_instrument_stands_on_its_row(world: World) -> None:
    world.verify("a")
    world.ledger.hold(RUN.instrument, ACT)
    _, page, _ = ask(monitor(world.ledger), "/")
    assert f"{RUN.instrument}<small>held by {ACT.actor}: {ACT.reason}</small>" in page


def test_what_is_in_the_way_stands_on_the_first_page(world: World) -> None:
    breaker = Breaker(
        name="endpoint:http://s3/b",
        cause=Cause.ENDPOINT,
        phase=Phase.OPEN,
        code="c",
        message="no answer",
        since_ms=1,
        at_ms=1,
    )
    world.ledger.swap_breaker(None, breaker)
    _, page, _ = ask(monitor(world.ledger), "/")
    assert "endpoint:http://s3/b" in page and "no answer" in page


@pytest.mark.parametrize(
    ("path", "query", "status", "words"),
    [
        ("/explain", "key=seq/run/none", 404, "the run seq/run is not known"),
        ("/explain", "key=seq", 400, "INSTRUMENT/RUN/PATH"),
        ("/run", "", 400, "INSTRUMENT/RUN"),
        ("/elsewhere", "", 404, "no such page"),
    ],
)
def test_what_is_not_there_is_said(
    world: World, path: str, query: str, status: int, words: str
) -> None:
    found, page, _ = ask(monitor(world.ledger), path, query)
    assert found == status
    assert words in page


def test_a_ledger_that_is_away_is_said_and_its_metrics_still_answer(world: World) -> None:
    def fail() -> None:
        raise LedgerUnavailable(url="redis://x", why="gone")

    assert ask(monitor(Meddling(world.ledger, "runs", fail)), "/")[0] == 503
    status, text, _ = ask(monitor(Meddling(world.ledger, "runs", fail)), "/metrics")
    assert status == 200
    assert re.search(r"^labferry_ledger_up\{.*\} 0.0$", text, re.M)


def test_off_loopback_pages_need_a_password_and_metrics_do_not(world: World) -> None:
    app = monitor(world.ledger, address="0.0.0.0")
    status, page, _ = ask(app, "/")
    assert status == 403
    assert "LABFERRY_MONITOR__BASIC_AUTH" in page
    assert ask(app, "/explain", "key=a/b/c")[0] == 403
    assert ask(app, "/metrics")[0] == 200
    assert ask(app, "/healthcheck")[0] == 200


def test_a_password_is_asked_for_wherever_it_is_set(world: World) -> None:
    app = monitor(world.ledger, basic_auth=SecretStr("ada:s3cret:ü"))

    def said(text: str) -> tuple[int, str, Any]:
        return ask(app, "/", HTTP_AUTHORIZATION=text)

    def basic(text: str) -> str:
        return f"Basic {b64encode(text.encode()).decode()}"

    status, _, headers = ask(app, "/")
    assert status == 401
    assert headers["WWW-Authenticate"].startswith("Basic")
    assert said(basic("ada:s3cret:ü"))[0] == 200
    for wrong in (basic("ada:s3cret"), basic(""), "Basic ???", "Bearer x", "ada:s3cret:ü"):
        assert said(wrong)[0] == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_it_only_reads(world: World, method: str) -> None:
    assert ask(monitor(world.ledger), "/", REQUEST_METHOD=method)[0] == 405


def test_links_are_relative_so_that_any_prefix_will_do(world: World) -> None:
    world.settle("a")
    app = monitor(world.ledger)
    for path, query in [("/", ""), ("/run", f"key={RUN}"), ("/explain", f"key={RUN}/a")]:
        _, page, _ = ask(app, path, query)
        assert not [one for one in links(page) if one.startswith("/") or "://" in one]
        assert 'action="/' not in page
