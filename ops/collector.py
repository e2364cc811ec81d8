"""What does Prometheus get when it asks? The ledger's truth at that moment.

What stands now is read from the records themselves, what happened from counters that workers and
sweeps keep in the ledger. So one exporter is enough for any number of hosts, several say the same,
and none has anything to lose.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from labferry.completion import RunState, run_state
from labferry.errors import LedgerUnavailable
from labferry.identity import RunKey
from labferry.ports import Ledger
from labferry.records import RunFacts
from labferry.settings import Settings
from ops.deliveries import undelivered_events
from ops.metrics import Found, families, ledger_up
from ops.overview import rules_of
from ops.standing import read_standings

_SWEEP = "sweep"


class LedgerCollector(Collector):
    """Reads the ledger at every scrape; one scrape at a time."""

    def __init__(self, ledger: Ledger, settings: Settings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._rules = rules_of(settings)
        self._retired: dict[RunKey, RunState] = {}
        self._lock = Lock()

    def describe(self) -> Iterable[Metric]:
        """Say what there is, without a look at the ledger."""
        return [*families(Found()), ledger_up(is_up=False)]

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; while the ledger is away only that it is."""
        with self._lock:
            try:
                found = [*families(self._look())]
            except LedgerUnavailable:
                found = []
        yield ledger_up(is_up=bool(found))
        yield from found

    def _look(self) -> Found:
        ledger, tallies = self._ledger, self._ledger.tallies()
        active = self._facts(ledger.active_runs())
        return Found(
            standings=tuple(read_standings(ledger, active, self._settings.instruments, tallies)),
            run_states=self._run_states(active),
            conditions=ledger.conditions(),
            tallies=tallies,
            undelivered=tuple(ledger.undelivered()),
            undelivered_events=tuple(undelivered_events(ledger)),
            dead_messages=len(ledger.dead_messages()),
            is_swept=ledger.is_led(_SWEEP),
            rules=self._rules,
        )

    def _facts(self, runs: Sequence[RunKey]) -> list[RunFacts]:
        return [self._rules.seen(facts) for facts in self._ledger.facts_of(runs)]

    def _run_states(self, active: Iterable[RunFacts]) -> Mapping[tuple[str, RunState], int]:
        """Count all runs by state; a retired run keeps its state and is read once."""
        states = {facts.run: run_state(facts) for facts in active}
        for run in states:
            self._retired.pop(run, None)
        known = states.keys() | self._retired.keys()
        for facts in self._facts([run for run in self._ledger.runs() if run not in known]):
            self._retired[facts.run] = run_state(facts)
        return Counter((run.instrument, one) for run, one in (self._retired | states).items())
