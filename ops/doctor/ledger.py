"""Does the ledger keep what it was told, and would it ever forget?"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from labferry.cluster_nodes import is_cluster
from labferry.errors import LedgerUnavailable, Refused, SettingsError
from labferry.ledger import open_ledger
from labferry.ledger.server import Server, to_ms
from labferry.refusals import RIGHTS
from labferry.settings import Settings
from ops.doctor import rights
from ops.doctor.finding import Area, Finding

LEDGER = Area("ledger")
VERSION_MIN = 7
#: Instants on record are the ledger's; a person compares them with clocks on the wall.
CLOCK_APART_S = 5.0
MEMORY_FULL = 0.8
_CONFIGURE = "in its configuration file, or in the provider's parameter group"

Info = Mapping[str, Any]


def look_at_ledger(settings: Settings, wall_s: Callable[[], float]) -> Iterator[Finding]:
    """Yield what is right and wrong with [ledger]; `wall_s` is this host's clock."""
    try:
        server = Server(settings.ledger.url)
        ahead_s = to_ms(server.ask_anyway(server.client.time)) / 1000 - wall_s()
        info: Info = server.ask_anyway(server.client.info)
    except SettingsError as error:
        yield LEDGER.bad("address", error.why, error.step)
        return
    except LedgerUnavailable as error:
        if error.mend:
            yield LEDGER.bad("answer", str(error), "")
        else:
            yield LEDGER.unknown("answer", str(error), "Start it, or set [ledger] url.")
        return
    yield LEDGER.good("answer", f"{server.url} answers")
    yield _version(info)
    yield _role(info, named_as_cluster=is_cluster(settings.ledger.url))
    yield from _durability(server, info)
    yield _eviction(info)
    yield from _memory(info)
    yield _clock(ahead_s)
    yield _rights(server, settings)


def server_name(info: Info) -> tuple[str, str]:
    """Return a server's name and version; Valkey also tells the Redis version it is like."""
    if valkey := info.get("valkey_version"):
        return "Valkey", str(valkey)
    return "Redis", str(info.get("redis_version", "0"))


def _version(info: Info) -> Finding:
    name, version = server_name(info)
    if int(version.partition(".")[0]) < VERSION_MIN:
        return LEDGER.bad("version", f"{name} {version}", f"Use Redis or Valkey {VERSION_MIN}.")
    return LEDGER.good("version", f"{name} {version}")


def _role(info: Info, *, named_as_cluster: bool) -> Finding:
    if info.get("cluster_enabled") and not named_as_cluster:
        return LEDGER.bad(
            "role",
            "it is a node of a cluster, and its keys may be another's tomorrow",
            "Name the nodes in [ledger] url: redis+cluster://HOST:PORT,HOST:PORT.",
        )
    if info.get("role") != "master":
        return LEDGER.bad("role", "it is a replica", "Set [ledger] url to the primary.")
    if named_as_cluster and not info.get("connected_slaves"):
        return LEDGER.warning(
            "role",
            "the node of the cluster that has the ledger has no replica",
            "Give it one: when that node dies, nothing moves until it is back.",
        )
    return LEDGER.good("role", "it is the primary")


def _durability(server: Server, info: Info) -> Iterator[Finding]:
    if not info.get("aof_enabled"):
        yield LEDGER.bad(
            "durability",
            "the append-only file is off: a restart forgets every file's state",
            f"Set `appendonly yes` {_CONFIGURE}.",
        )
        return
    broken = [
        field
        for field in ("aof_last_write_status", "aof_last_bgrewrite_status")
        if info.get(field, "ok") != "ok"
    ]
    if broken:
        yield LEDGER.bad(
            "durability",
            f"the append-only file cannot be written ({', '.join(broken)})",
            "Look at its log; its disk may be full.",
        )
        return
    yield _fsync(server)


def _fsync(server: Server) -> Finding:
    try:
        found = server.ask_anyway(lambda: server.client.config_get("appendfsync"))
    except LedgerUnavailable:  # managed servers and narrow accounts do not tell
        return LEDGER.warning(
            "durability",
            "the append-only file is on; how often it reaches the disk is not told",
            "Make sure that `appendfsync` is `everysec` or `always`.",
        )
    how_often = str(found.get("appendfsync", ""))
    if how_often == "no":
        return LEDGER.warning(
            "durability",
            "the append-only file reaches the disk when the system likes",
            f"Set `appendfsync everysec` {_CONFIGURE}.",
        )
    return LEDGER.good("durability", f"append-only file, fsync {how_often}")


def _eviction(info: Info) -> Finding:
    policy = str(info.get("maxmemory_policy", ""))
    if policy != "noeviction":
        return LEDGER.bad(
            "eviction",
            f"`maxmemory-policy {policy}`: records would vanish when memory is short",
            f"Set `maxmemory-policy noeviction` {_CONFIGURE}.",
        )
    return LEDGER.good("eviction", "noeviction")


def _memory(info: Info) -> Iterator[Finding]:
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if most and used > most * MEMORY_FULL:
        yield LEDGER.warning(
            "memory",
            f"{used / most:.0%} of `maxmemory` is used",
            "Raise `maxmemory`; when it is full, nothing moves until there is room again.",
        )


def _clock(ahead_s: float) -> Finding:
    if abs(ahead_s) > CLOCK_APART_S:
        return LEDGER.warning(
            "clock",
            f"it is {ahead_s:+.0f} s from this host's",
            "Set both by NTP. labferry goes by the ledger's alone, but people read both.",
        )
    return LEDGER.good("clock", "it agrees with this host's")


def _rights(server: Server, settings: Settings) -> Finding:
    lock = open_ledger(settings.ledger).leadership("doctor", keep_s=5)
    try:
        lock.keep()
        lock.release()
        refused = server.ask(rights.refused, server.client, rights.of_ledger())
    except Refused as error:
        return LEDGER.bad("format", str(error), "")
    except LedgerUnavailable as error:
        return LEDGER.bad(
            "rights",
            f"a key below labferry: cannot be written: {error}",
            error.mend or "Let the account write keys `labferry:*` and run scripts.",
        )
    if refused:
        return LEDGER.bad("rights", rights.sentence(refused), RIGHTS)
    return LEDGER.good("rights", "keys below labferry: can be written")
