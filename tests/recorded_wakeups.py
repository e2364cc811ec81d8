"""A broker that only remembers what was published, or is down."""

from collections.abc import Sequence

from labferry.errors import BrokerUnavailable
from labferry.identity import RunKey
from labferry.records import Bundle
from labferry.wakeup_port import Wakeups


class RecordedWakeups(Wakeups):
    """The Wakeups port; `down` makes every publish fail."""

    def __init__(self) -> None:
        self.bundles: list[Bundle] = []
        self.completions: list[RunKey] = []
        self.reasons_of: list[RunKey] = []
        self.put_away_of: list[RunKey] = []
        self.taken_back: list[RunKey] = []
        self.down = False

    def upload(self, bundles: Sequence[Bundle]) -> None:
        if self.down and bundles:
            raise BrokerUnavailable(why="down on purpose")
        self.bundles += bundles

    def complete(self, run: RunKey) -> None:
        if self.down:
            raise BrokerUnavailable(why="down on purpose")
        self.completions.append(run)

    def reasons(self, run: RunKey) -> None:
        if self.down:
            raise BrokerUnavailable(why="down on purpose")
        self.reasons_of.append(run)

    def put_away(self, run: RunKey) -> None:
        if self.down:
            raise BrokerUnavailable(why="down on purpose")
        self.put_away_of.append(run)

    def take_back(self, run: RunKey) -> None:
        if self.down:
            raise BrokerUnavailable(why="down on purpose")
        self.taken_back.append(run)
