"""What is a person told, and when is it tried again?

An alert has a key, and a key is told once: the opening of a breaker, a run and a cause. Pure.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from shlex import quote

from labferry.breakers import Breaker
from labferry.dead_letter import DeadLetter
from labferry.failures import Cause
from labferry.identity import RunKey
from labferry.passes import Pass

VERSION = 1
#: Waits before an alert is delivered again grow from the first to the last.
FIRST_WAIT_MS, LONGEST_WAIT_MS = 5_000, 600_000

_BREAKER = "breaker"
#: What a person does about each cause.
STEP_OF = {
    Cause.CREDENTIALS: "Renew the workers' credentials. Those of a profile, a role or a file are "
    "read again by themselves; for those of the environment restart the workers.",
    Cause.CLOCK: "Set the clocks of the workers' hosts, for instance by NTP.",
    Cause.ENDPOINT: "Check that [store] endpoint_url is right and that the server is up and can be "
    "reached from the workers.",
    Cause.BUCKET: "Check [store] bucket and region, and that the account and the key that encrypts "
    "the bucket are usable.",
    Cause.QUOTA: "Make room in the bucket, or raise its quota.",
    Cause.THROTTLE: "Nothing: labferry asks for less until the endpoint keeps up.",
    Cause.SHARE: "Mount the share on this host again; other hosts go on with its files meanwhile.",
    Cause.LOCAL: "Look at memory, open files, disks and credentials of this host.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert on record; `count` is how many files it is about by now, 0 for all."""

    key: str
    text: str
    at_ms: int
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """What a sink was not given yet: how many alerts, and why the last try failed, or ''."""

    sink: str
    waiting: int
    why: str


def concerns(alert: Alert, run: RunKey) -> bool:
    """Whether an alert is about a run, its instrument, or all runs."""
    kind, _, rest = alert.key.partition(":")
    names = (f"{run}:", f"{run}/", f"{run.instrument}:")
    return kind == _BREAKER or rest == str(run) or rest.startswith(names)


def breaker_key(breaker: Breaker) -> str:
    """Return the key of the alert of a breaker's opening."""
    return f"{_BREAKER}:{breaker.name}:{breaker.since_ms}"


def breaker_text(breaker: Breaker) -> str:
    """Return what is said when a breaker opens."""
    if breaker.cause is Cause.SHARE:
        return f"{breaker.name}: {breaker.message} {STEP_OF[breaker.cause]}"
    return (
        f"{breaker.name}: {breaker.message} Files are held, none is lost and no attempt is spent; "
        f"one is tried from time to time, and all go on once it passes. {STEP_OF[breaker.cause]}"
    )


def dead_letters_key(letter: DeadLetter) -> str:
    """Return the key of the alert of a run's dead letters of one cause."""
    return f"dead-letters:{letter.file.run}:{letter.fingerprint}"


def dead_letters_text(letter: DeadLetter) -> str:
    """Return what is said of a run's first dead letter of a cause."""
    return (
        f"{letter.file.run}: {letter.file.path} is quarantined ({letter.code}): "
        f"{letter.cause.message} {letter.suggestion} The rest of the run goes on. See "
        f"`labferry dead-letters list --run {quote(str(letter.file.run))} "
        f"--fingerprint {letter.fingerprint}`."
    )


def reminder_key(run: RunKey, oldest_ms: int, periods: int) -> str:
    """Return the key of the reminder of a run's dead letters, another one in each period."""
    return f"reminder:{run}:{oldest_ms}:{periods}"


def reminder_text(run: RunKey, count: int, since: str) -> str:
    """Return what is said of dead letters that wait for long."""
    return (
        f"{run}: {count:,} dead letters wait for a person, the oldest since {since} UTC. See "
        f"`labferry dead-letters list --run {quote(str(run))}`."
    )


def unwatched_key(said: Pass) -> str:
    """Return the key of the alert of a share that nobody looked at since a pass."""
    return f"unwatched:{said.instrument}:{said.at_ms}"


def unwatched_text(said: Pass) -> str:
    """Return what is said of a share that nobody looks at."""
    return (
        f"{said.instrument}: nobody looked at its share since {_minute(said.at_ms)} UTC, on "
        f"{said.host}. Nothing new is seen until `labferry agent` runs there and the share answers."
    )


def away_key(said: Pass) -> str:
    """Return the key of the alert of a share that is away since an instant."""
    return f"away:{said.instrument}:{said.away_ms}"


def away_text(said: Pass) -> str:
    """Return what is said of a share that is away."""
    return f"{said.instrument}: {said.away} So since {_minute(said.away_ms)} UTC, on {said.host}."


def _minute(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def parked_key(run: RunKey, sink: str, position: int, at_ms: int) -> str:
    """Return the key of the alert of a delivery that was parked."""
    return f"delivery:{run}:{sink}:{position}:{at_ms}"


def parked_text(run: RunKey, sink: str, tries: int, why: str) -> str:
    """Return what is said of an event that a sink was not given."""
    return (
        f"{run}: an event could not be delivered to {sink} ({tries:,} tries): {why}. What comes "
        f"after it waits. Mend it, then `labferry dead-letters requeue --sink {sink}`."
    )


def custody_key(run: RunKey, key: str, fault: str) -> str:
    """Return the key of the alert of an object that is not as it was proven."""
    return f"custody:{run}:{key}:{fault}"


def custody_text(run: RunKey, key: str, fault: str) -> str:
    """Return what is said of such an object."""
    return (
        f"{run}: {key} was proven, and is {fault} in the bucket now. Keep the source if it is "
        f"still there, and find out who did that: `labferry verify {quote(str(run))}`. Was it "
        f"meant? Then `labferry custody {quote(str(run))} --release`. If not, what is gone is sent "
        f"again by `labferry replay --run {quote(str(run))}`."
    )


def payload(alert: Alert) -> bytes:
    """Return the JSON object that a sink is given; `id` is the same however often it comes."""
    at = datetime.fromtimestamp(alert.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    fields = {"version": VERSION, "id": alert.key, "at": at, "text": alert.text}
    if alert.count:
        fields["files"] = alert.count
    return json.dumps(fields, ensure_ascii=False).encode()


def wait_ms(failed: int) -> int:
    """Return the wait after so many failed deliveries in a row, at least one."""
    return min(FIRST_WAIT_MS << min(failed - 1, 30), LONGEST_WAIT_MS)
