"""Could labferry work at this moment? Told within seconds, for health checks.

Ledger, broker and bucket are asked at once, each a few right questions; the bucket gets no scratch
object. An agent of this host that is silent is told, and that nobody sweeps.
"""

import socket
from collections.abc import Callable, Iterator
from threading import Thread

from labferry.clock import SystemClock
from labferry.errors import LabferryError
from labferry.ledger import open_ledger
from labferry.passes import Watch, watch_of
from labferry.settings import Settings
from ops.doctor.broker import BROKER, look_at_broker
from ops.doctor.finding import Area, Finding
from ops.doctor.ledger import LEDGER, look_at_ledger
from ops.doctor.store import STORE, look_at_access

PROGRAMS = Area("programs")
#: What gives no answer meanwhile is no longer waited for.
PATIENCE_S = 8.0


def examine_lightly(settings: Settings, patience_s: float = PATIENCE_S) -> Iterator[Finding]:
    """Yield what is right and wrong now."""
    clock = SystemClock()
    looks: dict[Area, Callable[[], Iterator[Finding]]] = {
        LEDGER: lambda: look_at_ledger(settings, clock.wall_s),
        BROKER: lambda: look_at_broker(settings),
        STORE: lambda: iter([look_at_access(settings.store)]),
        PROGRAMS: lambda: look_at_programs(settings, socket.gethostname()),
    }
    found: dict[Area, list[Finding]] = {}

    def look(area: Area) -> None:
        try:
            found[area] = list(looks[area]())
        except Exception as error:  # noqa: BLE001  nobody else hears how a thread ended
            found[area] = [_failed(area, error)]

    threads = [Thread(target=look, args=[area], daemon=True) for area in looks]
    for one in threads:
        one.start()
    until_s = clock.mono_s() + patience_s
    for one in threads:
        one.join(max(until_s - clock.mono_s(), 0))
    for area in looks:
        yield from found.get(area, [_silent(area, patience_s)])


def _failed(area: Area, error: Exception) -> Finding:
    return area.unknown(
        "look",
        f"nobody foresaw this: {type(error).__name__}: {error}",
        "This is a fault of labferry's: report it with what `labferry doctor` says.",
    )


def _silent(area: Area, patience_s: float) -> Finding:
    return area.unknown(
        "answer", f"no answer within {patience_s:g} s", "`labferry doctor` says more."
    )


def look_at_programs(settings: Settings, host: str) -> Iterator[Finding]:
    """Yield whether agents of a host still look, and whether anybody sweeps; a ledger away is told
    already."""
    try:
        ledger = open_ledger(settings.ledger)
        passes, now_ms, is_swept = ledger.passes(), ledger.now_ms(), ledger.is_led("sweep")
    except LabferryError:
        return
    for one in passes:
        if one.host != host or one.instrument not in settings.instruments:
            continue
        watch, _ = watch_of(passes, one.instrument, now_ms)
        if one.is_silent(now_ms) and watch is Watch.UNWATCHED:
            since_s = (now_ms - one.at_ms) / 1000
            yield PROGRAMS.bad(
                one.instrument,
                f"this host's agent looked last {since_s:,.0f} s ago, and nobody else looks",
                "Start `labferry agent`; where it runs, its look at the share hangs.",
            )
    if is_swept:
        yield PROGRAMS.good("sweep", "one leads")
    else:
        yield PROGRAMS.warning(
            "sweep", "none leads", "Start `labferry sweep`, or a worker with one beside it."
        )
