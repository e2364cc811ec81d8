"""How does a ledger live on a cluster? In one slot of it, on whichever node is its primary.

Some scripts reach from a run to what all runs share, so all keys get one hash tag, where a command
goes out; what is on record on a single server keeps its keys. One node at a time does all the work:
a cluster gives a ledger another node when one dies, not more speed.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import redis
from redis.connection import Connection, ConnectionPool, SSLConnection, parse_url
from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, ReadOnlyError

_START = b"labferry:"
_TAGGED = b"labferry:{ledger}:"
SLOT = key_slot(_TAGGED)
#: A node that is asked where the slot is either answers at once, or the next one is asked.
_ASKING: dict[str, Any] = {"socket_timeout": 2, "socket_connect_timeout": 2}
#: The answers of a node that is the slot's primary no longer, or not yet.
_ELSEWHERE = (AskError, ClusterDownError, ReadOnlyError)


def placed_client(nodes: Sequence[str], options: dict[str, Any]) -> "redis.Redis":
    """Return a client of the primary of the ledger's slot; `nodes` are URLs of some nodes."""
    login = parse_url(nodes[0])  # type: ignore[no-untyped-call]
    is_tls = login.pop("connection_class", None) is SSLConnection
    kind = _PlacedTls if is_tls else _Placed
    pool = ConnectionPool(connection_class=kind, nodes=nodes, **login, **options)
    return redis.Redis.from_pool(pool)  # which closes it with the client


class _Placed(Connection):
    """A connection to the primary of the ledger's slot, found anew each time one is made."""

    def __init__(self, *, nodes: Sequence[str], **options: Any) -> None:
        self._nodes = nodes
        super().__init__(**options)  # type: ignore[no-untyped-call]

    def connect_check_health(
        self,
        check_health: bool = True,
        retry_socket_connect: bool = True,
    ) -> None:
        """Connect where the primary is now."""
        if not self.is_connected:
            self.host, self.port = find_primary(self._nodes)
        super().connect_check_health(check_health, retry_socket_connect)

    def send_command(self, *args: Any, **options: Any) -> None:
        """Send a command, its keys with the hash tag."""
        super().send_command(*tagged(args), **options)  # type: ignore[no-untyped-call]

    def pack_commands(self, commands: Iterable[Sequence[Any]]) -> Any:
        """Pack the commands of a pipeline, their keys with the hash tag."""
        told = [tagged(one) for one in commands]
        return super().pack_commands(told)  # type: ignore[no-untyped-call]

    def read_response(self, *args: Any, **options: Any) -> Any:
        """Read an answer; one that names another node ends this connection."""
        try:
            return super().read_response(*args, **options)
        except _ELSEWHERE as error:
            self.disconnect()  # type: ignore[no-untyped-call]
            raise redis.ConnectionError(f"the ledger's slot is elsewhere: {error}") from error


class _PlacedTls(_Placed, SSLConnection):
    """The same over TLS."""


def tagged(command: Sequence[Any]) -> Sequence[Any]:
    """Return a command with the hash tag in its keys: the first word, or those of a script."""
    if command[0] == "AUTH":  # what looks like a key there is a password
        return command
    first, count = (3, int(command[2])) if command[0] == "EVALSHA" else (1, 1)
    keys = map(_tagged_key, command[first : first + count])
    return (*command[:first], *keys, *command[first + count :])


def _tagged_key(key: Any) -> Any:
    if not isinstance(key, str | bytes):
        return key
    raw = key.encode() if isinstance(key, str) else key
    if not raw.startswith(_START) or raw.startswith(_TAGGED):
        return raw
    return _TAGGED + raw.removeprefix(_START)


def find_primary(nodes: Iterable[str]) -> tuple[str, int]:
    """Return host and port of the primary of the ledger's slot, as the first node says that
    belongs to the greater part. Raises: redis.ConnectionError."""
    faults = []
    for node in nodes:
        with redis.Redis.from_url(node, **_ASKING) as client:
            try:
                if place := _primary_by(client):
                    return place
                faults.append("it is cut off, or the slot is nobody's")
            except redis.RedisError as error:
                faults.append(str(error))
    raise redis.ConnectionError(f"no node knows the primary of slot {SLOT}: {'; '.join(faults)}")


def _primary_by(client: Any) -> tuple[str, int] | None:
    if client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
        return None
    for first, last, primary, *_ in client.execute_command("CLUSTER SLOTS"):
        if first <= SLOT <= last:
            # A node that was never told its own address gives none: it is where it was asked.
            own = client.connection_pool.connection_kwargs["host"]
            return (primary[0] or own.encode()).decode(), int(primary[1])
    return None
