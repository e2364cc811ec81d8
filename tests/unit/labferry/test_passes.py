"""Is a share looked at? By what agents told, and by their silence."""

import pytest

from labferry.passes import Pass, Watch, watch_of

NOW_MS = 1_000_000


def told(host: str = "h", *, ago_ms: int = 0, due_ms: int = NOW_MS + 1, away: str = "") -> Pass:
    return Pass(instrument="seq", host=host, at_ms=NOW_MS - ago_ms, due_ms=due_ms, away=away)


SILENT = told("silent", due_ms=NOW_MS - 1)


@pytest.mark.parametrize(
    ("passes", "watch", "host"),
    [
        ([], Watch.UNKNOWN, None),
        ([told()], Watch.WATCHED, "h"),
        ([told(due_ms=0, ago_ms=NOW_MS)], Watch.WATCHED, "h"),
        ([told(away="the root is empty")], Watch.AWAY, "h"),
        ([SILENT], Watch.UNWATCHED, "silent"),
        ([SILENT, told("sees", ago_ms=5)], Watch.WATCHED, "sees"),
        ([SILENT, told("blind", ago_ms=5, away="x")], Watch.AWAY, "blind"),
        ([told("blind", away="x"), told("sees", ago_ms=5)], Watch.WATCHED, "sees"),
    ],
    ids=["nobody", "one", "one pass alone", "away", "silent", "another", "another blind", "two"],
)
def test_the_answer_is_that_of_the_host_that_sees_most(
    passes: list[Pass], watch: Watch, host: str | None
) -> None:
    found, by = watch_of(passes, "seq", NOW_MS)
    assert (found, by and by.host) == (watch, host)
