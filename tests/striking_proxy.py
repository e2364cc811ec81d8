"""Who writes what of a run on the ledger, and who dies over which write?"""

import os
import re
import signal
from collections.abc import Iterable, Mapping
from hashlib import sha1
from typing import NamedTuple

import hiredis
from redis.lock import Lock

from labferry.identity import RunKey
from labferry.ledger import RedisLedger
from tests.faults import process_of
from tests.ledger_proxy import Command, LedgerProxy

_RUN = re.compile(rb"scope/[\w .]+")
_LOCK = re.compile(rb"labferry:leader:(\w+)")


class Call(NamedTuple):
    """A write of a run on the ledger, or an S3 call for it; `nth` of its name in that run.

    A write has the name of its script; one on a lock is named after the lock.
    """

    name: str
    nth: int = 1


class Fatal(NamedTuple):
    """A call that its caller does not outlive, and whether it is carried out."""

    call: Call
    applied: bool


class StrikingProxy(LedgerProxy):
    """Strikes whoever makes a run's fatal write, once; writes down all others.

    The runs are of the instrument `scope`, named in letters, digits, dots and blanks.
    """

    def __init__(
        self,
        port: int,
        ledger: RedisLedger,
        runs: Iterable[RunKey],
        fatal: Mapping[RunKey, Fatal],
        by: signal.Signals,
    ) -> None:
        super().__init__(port)
        self.made: dict[RunKey, list[Call]] = {run: [] for run in runs}
        self.struck: set[RunKey] = set()
        self._runs = {str(run).encode(): run for run in self.made}
        self._fatal = fatal
        self._by = by
        server = ledger._server
        commands = server.client.command()
        self._reads = {name for name, facts in commands.items() if "readonly" in facts["flags"]}
        self._names = {script.sha: verb for verb, script in server._scripts.items()}
        self._names[_sha(Lock.LUA_REACQUIRE_SCRIPT)] = "extend"
        self._names[_sha(Lock.LUA_RELEASE_SCRIPT)] = "release"

    def before(self, command: Command) -> None:
        """Strike before the server hears of the fatal write."""
        run, call = self._look(command)
        if run and call:
            self._strike_if(run, Fatal(call, applied=False), command)

    def after(self, command: Command, reply: object) -> None:
        """Strike before the client hears what came of it."""
        run, call = self._look(command)
        # An error is that of a script which the server does not know yet: it is sent again.
        if run and call and not isinstance(reply, hiredis.ReplyError):
            self._strike_if(run, Fatal(call, applied=True), command)
            if not _is_empty(reply):
                self.made[run].append(call)

    def _strike_if(self, run: RunKey, made: Fatal, command: Command) -> None:
        if run not in self.struck and self._fatal.get(run) == made:
            os.kill(process_of(command.ports), self._by)
            self.struck.add(run)
            raise ConnectionAbortedError

    def _look(self, command: Command) -> tuple[RunKey | None, Call | None]:
        """Return the run that a command is about, and what it writes of it."""
        words = command.words
        found = _RUN.search(b"\n".join(words))
        run = self._runs.get(found[0]) if found else None
        name = words[0].decode().lower()
        if run is None or name in self._reads:
            return run, None
        key = words[1]
        if name == "evalsha":
            name, key = self._names[words[1].decode()], words[3]
        if lock := _LOCK.match(key):
            name = f"{'lock' if name == 'set' else name} {lock[1].decode()}"
        return run, Call(name, 1 + sum(one.name == name for one in self.made[run]))


def _is_empty(reply: object) -> bool:
    """Whether a lock was another's, or there was nothing to claim."""
    return reply is None or (isinstance(reply, list) and reply[0] == [])


def _sha(script: str) -> str:
    return sha1(script.encode(), usedforsecurity=False).hexdigest()
