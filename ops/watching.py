"""Does anybody look at the instruments' shares, and what do their runs wait for?"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from labferry.passes import Pass, Space, Waiting, Watch, watch_of
from labferry.ports import Ledger
from labferry.turns import LEAST_URGENT
from ops.shown import duration, instant, size

#: A share that is not full before is no news.
ROOM_SHOWN_S = 7 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Whether an instrument's share is looked at; `said` is the pass that tells.

    `goes_first` says that its files go before all others', as the share will be full soon.
    """

    watch: Watch = Watch.UNKNOWN
    said: Pass | None = None
    now_ms: int = 0
    goes_first: bool = False
    arrived_ms: int = 0

    @property
    def quiet_s(self) -> float | None:
        """How long nothing came; None where nothing ever did."""
        return (self.now_ms - self.arrived_ms) / 1000 if self.arrived_ms else None

    @property
    def space(self) -> Space | None:
        """The room on the share, as it was seen last."""
        return self.said.space if self.said else None

    @property
    def room(self) -> str:
        """Return how much room is left on a share that fills, for a person, or ''."""
        if self.space is None or self.space.left_s is None or self.space.left_s > ROOM_SHOWN_S:
            return ""
        fills = size(self.space.fills_bytes_per_s * 3600)
        hours = self.space.left_s / 3600
        first = "; its files go first" if self.goes_first else ""
        free = size(self.space.free_bytes)
        return f"{free} free on its share, {fills} less each hour: full in {hours:.1f} h{first}"

    @property
    def trouble(self) -> str:
        """Return what is wrong with the looks, for a person, or ''."""
        if self.said is None or self.watch is Watch.WATCHED:
            return ""
        if self.watch is Watch.AWAY:
            return f"{self.said.away} (on {self.said.host}, since {instant(self.said.away_ms)})"
        ago = duration((self.now_ms - self.said.at_ms) / 1000)
        return (
            f"last looked at {instant(self.said.at_ms)} ({ago} ago) on {self.said.host}: does "
            "`labferry agent` run there, and does the share answer?"
        )

    def to_json(self) -> dict[str, object]:
        """Return fields of an instrument in `labferry status --json`."""
        return {
            "watch": self.watch,
            "looked_ms": self.said.at_ms if self.said else None,
            "share_free_bytes": self.space.free_bytes if self.space else None,
            "share_total_bytes": self.space.total_bytes if self.space else None,
            "share_full_in_s": self.space.left_s if self.space else None,
            "goes_first": self.goes_first,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """What agents told of all instruments; `waiting` is by run."""

    instruments: Mapping[str, Watched] = field(default_factory=dict)
    waiting: Mapping[str, Waiting] = field(default_factory=dict)


def read_watching(ledger: Ledger, now_ms: int) -> Watching:
    """Return what agents told; `now_ms` is the ledger's clock."""
    passes, turns = ledger.passes(), ledger.turns()
    instruments, waiting = dict[str, Watched](), dict[str, Waiting]()
    for name in {one.instrument for one in passes}:
        watch, said = watch_of(passes, name, now_ms)
        goes_first = name in turns and turns[name].rank >= LEAST_URGENT
        instruments[name] = Watched(
            watch=watch,
            said=said,
            now_ms=now_ms,
            goes_first=goes_first,
            arrived_ms=max(one.arrived_ms for one in passes if one.instrument == name),
        )
        if said is not None:
            waiting |= {one.run: one for one in said.waiting}
    return Watching(instruments=instruments, waiting=waiting)
