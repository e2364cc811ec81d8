"""What is a run's next step, and who is told? Called after each bundle and at each sweep."""

from labferry.completion import NextStep, next_step
from labferry.identity import RunKey
from labferry.ports import Ledger
from labferry.records import RunFacts, Step
from labferry.settings import Settings
from labferry.states import Event, State
from labferry.wakeup_port import Wakeups


def advance(facts: RunFacts, ledger: Ledger, wakeups: Wakeups, settings: Settings) -> None:
    """Take a run's next step, if there is one: release the last files, announce its completion,
    or retire it. May run twice, anywhere. Raises: BrokerUnavailable."""
    run, step = facts.run, next_step(facts)
    if step is NextStep.RETIRE:
        ledger.retire(run)
    elif step is NextStep.RELEASE_LAST:
        _release_last(run, ledger, settings)
    elif step is NextStep.COMPLETE:
        # One announcement a resend time, however many look; a lost one is repeated after it.
        name = f"announce:{run}:{facts.generation}:{facts.sealed_ms}"
        if ledger.leadership(name, keep_s=settings.ledger.resend_s).keep():
            wakeups.complete(run)


def _release_last(run: RunKey, ledger: Ledger, settings: Settings) -> None:
    paths = ledger.pending_last(run)
    _, seen = ledger.look(run, paths)
    steps = [
        Step(
            path=path,
            fingerprint=one.fingerprint,
            lane=settings.store.lane(one.fingerprint.size),
        )
        for path, one in zip(paths, seen, strict=True)
        if one is not None and one.state is State.DISCOVERED
    ]
    ledger.move(run, Event.SETTLE, steps)
