"""Who holds which file, by which token and for how long?"""

from collections.abc import Sequence
from functools import partial

from labferry.begun import Begun
from labferry.identity import RunKey
from labferry.ledger.conditions import unpack_conditions
from labferry.ledger.files import read_records
from labferry.ledger.holds import names_of_hold, unpack_word
from labferry.ledger.keys import (
    BREAKERS,
    HOLDS,
    PACES,
    WORKER_NAMES,
    WORKER_NUMBERS,
    RunKeys,
    leased,
)
from labferry.ledger.layout import PLACE_OF, letters, unpack_record
from labferry.ledger.section import Section
from labferry.ledger.server import Argument, Reply, pack, to_ms
from labferry.records import Claim, FileRecord
from labferry.states import LEASED, MOVE_OF, Event

_LEASED = letters(LEASED)


class Leases(Section):
    """The part of the ledger that grants, extends and misses leases."""

    def register(self, worker: str) -> int:
        """Return the number that stands for this worker's name."""
        client = self._server.client
        number = int(self._server.ask(client.incr, WORKER_NUMBERS))
        self._server.ask(client.hset, WORKER_NAMES, str(number), worker)
        return number

    def worker_name(self, number: int) -> str:
        """Return the name behind a number, or '' ."""
        name = self._server.ask(self._server.client.hget, WORKER_NAMES, str(number))
        return name.decode() if name else ""

    def claim(
        self,
        run: RunKey,
        bundle: int,
        paths: Sequence[str],
        holder: int,
        cap: int | None = None,
    ) -> list[Claim]:
        """Take the lease on every eligible file of a bundle."""
        return _claims(self._claim(run, bundle, paths, holder, cap)[0], bundle)

    def begin(
        self,
        run: RunKey,
        bundle: int,
        paths: Sequence[str],
        holder: int,
        cap: int | None = None,
    ) -> Begun:
        """Claim what no operator holds, and return what stands in the way."""
        names = names_of_hold(run)
        claimed, hold, sent, now, *found = self._claim(run, bundle, paths, holder, cap, names)
        breakers, paces = (dict(zip(flat[::2], flat[1::2], strict=True)) for flat in found)
        return Begun(
            claims=_claims(claimed, bundle),
            conditions=partial(unpack_conditions, now, breakers, paces),
            hold=unpack_word(hold or None),
            sent=sent,
        )

    def _claim(
        self,
        run: RunKey,
        bundle: int,
        paths: Sequence[str],
        holder: int,
        cap: int | None,
        holds: Sequence[str] = (),
    ) -> Reply:
        keys, move = RunKeys(run), MOVE_OF[Event.CLAIM]
        return self._server.script(
            "claim",
            [
                keys.files, keys.meta, keys.leases, keys.sent, keys.bundles, HOLDS, BREAKERS,
                PACES, keys.ready, leased(run.instrument),
            ],
            [
                letters(move.sources),
                move.target.wire,
                bundle,
                holder,
                self._ttl_ms,
                PLACE_OF["claimed_ms"],
                pack(list(paths)),
                cap or 0,
                *holds,
            ],
        )  # fmt: skip

    def renew(self, run: RunKey, held: Sequence[tuple[str, int]]) -> list[bool]:
        """Extend leases."""
        keys = RunKeys(run)
        args: list[Argument] = [_LEASED, self._ttl_ms, pack(list(held))]
        replies = self._server.script("renew", [keys.files, keys.leases], args)
        return [reply == 1 for reply in replies]

    def lapsed(self, run: RunKey, limit: int) -> list[tuple[str, FileRecord]]:
        """Return files whose lease has run out."""
        keys, client = RunKeys(run), self._server.client
        now = to_ms(self._server.ask(client.time))
        paths = self._server.ask(client.zrangebyscore, keys.leases, "-inf", now, start=0, num=limit)
        return read_records(self._server, run, paths)


def _claims(replies: Sequence[bytes], bundle: int) -> list[Claim]:
    claims = []
    for path, value in zip(replies[::2], replies[1::2], strict=True):
        record = unpack_record(value)
        claims.append(Claim(path=path.decode(), token=record.token, record=record, bundle=bundle))
    return claims
