"""How does an operator's act change files and the audit in one step?

The line is reckoned here, from the files as they were seen and the chain's last hash; the script
takes it only while both are still so, else it is reckoned again.
"""

import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from labferry.audit import Act, Entry, Head, extend, file_change
from labferry.errors import LedgerUnavailable, Refused
from labferry.identity import RunKey
from labferry.ledger.effects import EFFECT_OF
from labferry.ledger.files import OUTCOMES, activate, move_args, move_keys, pack_step
from labferry.ledger.holds import first_word, names_of_hold, pack_word, unpack_word
from labferry.ledger.keys import AUDIT, AUDIT_HEAD, HOLDS, RELEASED, RunKeys
from labferry.ledger.layout import letters, unpack_record
from labferry.ledger.section import Section
from labferry.ledger.server import Argument, Key, to_ms
from labferry.records import Outcome, Step
from labferry.states import MOVE_OF, Actor, Event, State
from labferry.word import Word

#: Others who write the same audit may come first this often.
_TRIES = 100
_PAGE_LINES = 200
#: What the script says when the audit does not end as the line was reckoned for.
_OTHER = b"other"
_NOT_YET = b"not yet"
#: A run cannot be closed over these.
_ON_ITS_WAY = (State.UPLOADING, State.UPLOADED, State.FAILED, State.HELD, State.QUARANTINED)
#: Asking again does not help. A file that only changed since it was seen is looked at once more.
_FINAL = frozenset({Outcome.ILLEGAL, Outcome.FENCED, Outcome.MISSING})


class Audit(Section):
    """The part of the ledger that holds what operators did."""

    def act(self, run: RunKey, event: Event, steps: Sequence[Step], act: Act) -> list[Outcome]:
        """Apply an operator's event to files and append the act to the run's audit."""
        if MOVE_OF[event].actor is not Actor.OPERATOR:
            raise Refused(what=event, why="it is no act of an operator", step="Use `move`.")
        if steps:
            activate(self._server, run, event)
        refused: dict[str, Outcome] = {}
        waiting = {step.path: step for step in steps}
        for _ in range(_TRIES):
            if not waiting:
                break
            answers = self._try(run, event, list(waiting.values()), act)
            if answers is not None:
                refused |= {path: one for path, one in answers.items() if one in _FINAL}
                waiting = {path: waiting[path] for path in answers if path not in refused}
        else:
            raise self._overtaken()
        return [refused.get(step.path, Outcome.DONE) for step in steps]

    def record_act(self, run: RunKey | None, act: Act) -> None:
        """Append an act that moves no file."""
        self._append(run, act, "append", [], [])

    def hold(self, name: RunKey | str, act: Act) -> None:
        """Hold a run, or an instrument by its name."""
        self._change_word(HOLDS, name, act, is_said=True)

    def release(self, name: RunKey | str, act: Act) -> None:
        """Let a run or an instrument go on."""
        self._change_word(HOLDS, name, act, is_said=False)

    def holds(self) -> dict[str, Word]:
        """Return what is held, by name."""
        return self._words(HOLDS)

    def find_hold(self, run: RunKey) -> Word | None:
        """Return the hold on a run or its instrument."""
        return first_word(self._server.ask(self._server.client.hmget, HOLDS, names_of_hold(run)))

    def end_custody(self, run: RunKey, act: Act) -> None:
        """Note that a run's objects may go."""
        self._change_word(RELEASED, run, act, is_said=True)

    def resume_custody(self, run: RunKey, act: Act) -> None:
        """Note that a run's objects are to stay after all."""
        self._change_word(RELEASED, run, act, is_said=False)

    def out_of_custody(self) -> dict[str, Word]:
        """Return the runs whose objects may go, by name."""
        return self._words(RELEASED)

    def close(self, run: RunKey, act: Act) -> bool:
        """End a run of which nothing is on its way."""
        activate(self._server, run, Event.CLOSE)
        keys: list[Key] = [RunKeys(run).meta]
        at_ms = to_ms(self._server.ask(self._server.client.time))
        return self._append(run, act, "close", keys, [letters(_ON_ITS_WAY), pack_word(act, at_ms)])

    def _words(self, key: Key) -> dict[str, Word]:
        found = self._server.ask(self._server.client.hgetall, key)
        words = {name.decode(): unpack_word(value) for name, value in found.items()}
        return {name: word for name, word in sorted(words.items()) if word}

    def _change_word(self, key: Key, name: RunKey | str, act: Act, *, is_said: bool) -> None:
        at_ms = to_ms(self._server.ask(self._server.client.time))
        run = name if isinstance(name, RunKey) else None
        word = pack_word(act, at_ms) if is_said else ""
        self._append(run, act, "put_word", [key], [str(name), word])

    def _append(
        self, run: RunKey | None, act: Act, verb: str, keys: list[Key], args: list[Argument]
    ) -> bool:
        """Append a line by a script that does something with it; return whether it did."""
        lines, head = audit_keys(run)
        for _ in range(_TRIES):
            at_ms, before, _ = self._seen(run, [])
            after, line = extend(before, _entry(before, at_ms, run, act))
            given: list[Argument] = [_packed(before), str(after), line, *args]
            found = self._server.script(verb, [lines, head, *keys], given)
            if found != _OTHER:
                return bool(found != _NOT_YET)
        raise self._overtaken()

    def audit(self, run: RunKey | None) -> Iterator[str]:
        """Yield the lines of a run's audit, or of acts without a run, oldest first."""
        key, first = audit_keys(run)[0], 0
        while True:
            last = first + _PAGE_LINES - 1
            lines = self._server.ask(self._server.client.lrange, key, first, last)
            yield from (line.decode() for line in lines)
            if len(lines) < _PAGE_LINES:
                return
            first = last + 1

    def audit_head(self, run: RunKey | None) -> Head:
        """Return where that audit ends."""
        return self._seen(run, [])[1]

    def _try(
        self, run: RunKey, event: Event, steps: Sequence[Step], act: Act
    ) -> dict[str, Outcome] | None:
        """Act on all files or on none; return what stood in the way of each, nothing when it is
        done, None when another line came first."""
        at_ms, before, values = self._seen(run, [step.path for step in steps])
        new_series = EFFECT_OF[event].counts == "series"
        target = MOVE_OF[event].target
        changes = tuple(
            file_change(step.path, unpack_record(value), target, new_series=new_series)
            for step, value in zip(steps, values, strict=True)
            if value
        )
        after, line = extend(before, _entry(before, at_ms, run, act, changes))
        packed = [
            (*pack_step(step, event), value or b"")
            for step, value in zip(steps, values, strict=True)
        ]
        args = [*move_args(event, packed), _packed(before), str(after), line]
        keys = [*move_keys(RunKeys(run)), *audit_keys(run)]
        found, *refusals = self._server.script("act", keys, args)
        if found == _OTHER:
            return None
        numbers = refusals[0] if refusals else []
        return {step.path: OUTCOMES[number] for step, number in zip(steps, numbers, strict=False)}

    def _seen(
        self, run: RunKey | None, paths: Sequence[str]
    ) -> tuple[int, Head, list[bytes | None]]:
        """Return the ledger's clock, where the audit ends, and the records of files."""

        def fill(pipe: Any) -> None:
            pipe.time()
            pipe.get(audit_keys(run)[1])
            if run is not None and paths:
                pipe.hmget(RunKeys(run).files, paths)

        now, head, *values = self._server.pipeline(fill)
        return to_ms(now), Head.parse((head or b"").decode()), values[0] if values else []

    def _overtaken(self) -> LedgerUnavailable:
        return LedgerUnavailable(url=self._server.url, why="others write the same audit")


def audit_keys(run: RunKey | None) -> tuple[str, str]:
    """Return the keys of a chain's lines and of its head."""
    if run is None:
        return AUDIT, AUDIT_HEAD
    keys = RunKeys(run)
    return keys.audit, keys.audit_head


def _entry(
    before: Head, at_ms: int, run: RunKey | None, act: Act, files: tuple[dict[str, Any], ...] = ()
) -> Entry:
    return Entry(
        number=before.lines + 1,
        at_ms=at_ms,
        run=str(run or ""),
        act=act,
        files=files,
        nonce=secrets.token_hex(8),
    )


def _packed(head: Head) -> str:
    return str(head) if head.lines else ""
