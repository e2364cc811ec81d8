"""Why does a run wait for a person? The causes of its dead letters, from a look at some of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from labferry.dead_letter import dead_letter
from labferry.identity import RunKey
from labferry.ports import Ledger
from labferry.records import RunFacts
from labferry.states import State
from ops.letter_groups import grouped

#: Letters looked at of one run, so that `status` stays fast whatever happened.
LOOKED_AT = 1000
#: A letter's cause is the newest line of its history.
CAUSE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause of a run's dead letters; `count` is at least so many where not all were seen."""

    fingerprint: str
    kind: str
    code: str
    message: str
    count: int
    at_least: bool

    @property
    def words(self) -> str:
        """Return it as `labferry status` says it."""
        least = "at least " if self.at_least else ""
        return f"{least}{self.count:,} {self.code} ({self.fingerprint})"

    def to_json(self) -> dict[str, object]:
        """Return the facts."""
        return {name: getattr(self, name) for name in self.__slots__}


def causes_of(ledger: Ledger, runs: Iterable[RunFacts]) -> dict[RunKey, tuple[Cause, ...]]:
    """Return the causes for each run that has dead letters, the most frequent first."""
    return {facts.run: _causes(ledger, facts) for facts in runs if facts.counts[State.QUARANTINED]}


def _causes(ledger: Ledger, facts: RunFacts) -> tuple[Cause, ...]:
    dead = islice(ledger.dead_files(facts.run, notes=CAUSE), LOOKED_AT)
    groups = grouped(dead_letter(facts.run, one) for one in dead)
    return tuple(
        Cause(
            fingerprint=group.fingerprint,
            kind=group.sample.kind,
            code=group.sample.code,
            message=group.sample.cause.message,
            count=group.count,
            at_least=facts.counts[State.QUARANTINED] > LOOKED_AT,
        )
        for group in groups
    )
