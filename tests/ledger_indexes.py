"""What do a ledger's indexes hold, besides its records? Looked up behind the port."""

from typing import Any, NamedTuple

import msgpack
import redis

from labferry.identity import RunKey
from labferry.ledger.keys import RunKeys
from tests.ledger_world import InMemory, OnServer, World


class Indexes(NamedTuple):
    """The paths on each index of a run; `carried` are those of bundles that are sent."""

    leases: set[str]
    due: set[str]
    dead: set[str]
    ready: list[str]
    carried: list[str]
    bundles: set[int]
    sent: set[int]


def indexes(world: World, run: RunKey) -> Indexes:
    clockwork = world.clockwork
    if isinstance(clockwork, InMemory):
        return _in_memory(clockwork, run)
    assert isinstance(clockwork, OnServer)
    return _on_server(clockwork.client, run)


def _in_memory(memory: InMemory, run: RunKey) -> Indexes:
    data = memory.ledger.data[run]
    return Indexes(
        leases=set(data.leases),
        due=set(data.due),
        dead=set(data.dead),
        ready=[path for paths in data.ready.values() for path in paths],
        carried=[path for bundle in data.bundles.values() for path in bundle.paths],
        bundles=set(data.bundles),
        sent=set(data.sent),
    )


def _on_server(client: "redis.Redis", run: RunKey) -> Indexes:
    keys, ask = RunKeys(run), client

    def names(key: str) -> set[str]:
        found: Any = ask.zrange(key, 0, -1)
        return {name.decode() for name in found}

    bundles: Any = ask.hgetall(keys.bundles)
    ready: list[Any] = [ask.lrange(keys.ready + lane, 0, -1) for lane in "sl"]
    return Indexes(
        leases=names(keys.leases),
        due=names(keys.due),
        dead=names(keys.dead),
        ready=[path.decode() for paths in ready for path in paths],
        carried=[path for packed in bundles.values() for path in msgpack.unpackb(packed)[4]],
        bundles={int(number) for number in bundles},
        sent={int(number) for number in names(keys.sent)},
    )
