"""How is the Redis or Valkey server asked? Scripts, pipelines, and its errors as ours."""

import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

import msgpack
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from labferry.cluster_nodes import is_cluster, read_nodes
from labferry.errors import LedgerUnavailable, Refused, SettingsError
from labferry.ledger.cluster import placed_client
from labferry.refusals import mend_of
from labferry.sentinels import is_sentinel, read_sentinels

Reply = Any
Key = str | bytes
Argument = str | bytes | int

#: Every script has one verb; the file says its keys and arguments.
VERBS = (
    "act", "activate", "alert", "append", "bring", "claim", "close", "complete", "discover",
    "enlist", "forget", "move", "plan", "put_away", "put_entry", "put_items", "put_word",
    "reasons_written", "recall", "renew", "reserve", "retire", "seal", "swap", "take", "take_back",
    "take_due", "take_unclaimed", "tally",
)  # fmt: skip
#: How records lie in the ledger; another number whenever an older version could not read them.
FORMAT = b"1"
FORMAT_KEY = "labferry:format"
#: What scripts share stands before them.
SHARED = ("prelude", "run", "record")
_MOVING = ("guard", "letters", "apply")
GUARDED = {
    "move": _MOVING,
    "act": (*_MOVING, "chain"),
    "claim": ("cap",),
    "append": ("chain",),
    "close": ("chain",),
    "put_word": ("chain",),
    "alert": ("announce",),
    "swap": ("announce",),
}


def pack(value: Sequence[object]) -> bytes:
    """Return a batch for a script, where one argument an item would cost more."""
    packed: bytes = msgpack.packb(value, use_bin_type=False)
    return packed


def to_ms(time: tuple[int, int]) -> int:
    """Return the answer to TIME in milliseconds."""
    return time[0] * 1000 + time[1] // 1000


class Server:
    """A Redis or Valkey server. Raises LedgerUnavailable whenever it does not do as asked."""

    def __init__(self, url: str) -> None:
        try:
            self.client = _client(url)
        except (ValueError, TypeError):  # TypeError: an option that there is not, or is TLS's alone
            # Its sentence may hold a piece of the password.
            raise SettingsError(
                field="ledger.url",
                why=f"{without_password(url)} cannot be read",
                step="Write redis://:PASSWORD@HOST:PORT/DATABASE, or rediss:// with TLS, and %2F, "
                "%3F, %23 or %40 for /, ?, # or @ in the password.",
            ) from None
        self.url = without_password(url)
        self._is_readable = False
        self._scripts = {verb: self.client.register_script(_text(verb)) for verb in VERBS}

    def script(self, name: str, keys: list[Key], args: Sequence[Argument]) -> Reply:
        """Run one script."""
        return self.ask(self._scripts[name], keys=keys, args=list(args))

    def pipeline(self, fill: Callable[[Any], None]) -> list[Reply]:
        """Send the commands that `fill` puts on a pipeline in one round trip, without atomicity."""

        with self.client.pipeline(transaction=False) as pipe:
            fill(pipe)
            replies: list[Reply] = self.ask(pipe.execute)
            return replies

    def ask(self, call: Callable[..., Reply], *args: Any, **options: Any) -> Reply:
        """Return what a call of the client returns. Raises: Refused, LedgerUnavailable."""
        if not self._is_readable:
            self.check_format()
            self._is_readable = True
        return self.ask_anyway(call, *args, **options)

    def ask_anyway(self, call: Callable[..., Reply], *args: Any, **options: Any) -> Reply:
        """As `ask`, also of a ledger that another version of labferry wrote."""
        try:
            return call(*args, **options)
        except redis.RedisError as error:
            # What follows are redis-py's own objects: a page of them where no sentinel answers.
            said = str(error).partition(" : <")[0]
            why = f"{type(error).__name__}: {said}"
            raise LedgerUnavailable(
                url=self.url, why=why, mend=mend_of(error, "[ledger] url")
            ) from error

    def check_format(self) -> None:
        """Make sure that records are as this version writes them; an empty ledger becomes so.

        Raises: Refused, LedgerUnavailable.
        """
        # Read first: a server that is full takes no writes, and is to be looked at all the same.
        found = self.ask_anyway(self.client.get, FORMAT_KEY)
        if found is None:
            found = self.ask_anyway(self.client.set, FORMAT_KEY, FORMAT, nx=True, get=True)
        if found not in (None, FORMAT):
            raise Refused(
                what=f"the ledger at {self.url}",
                why=f"its records are of format {found.decode(errors='replace')}, and this version "
                f"of labferry reads {FORMAT.decode()}",
                step="Use the version that wrote them, on all hosts; CHANGELOG.md says which "
                "versions go together.",
            )


def _client(url: str) -> "redis.Redis":
    options: dict[str, Any] = {
        "socket_timeout": 10,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 30,
        # A connection that the server closed while it lay idle is not an outage. What was asked
        # twice is harmless: every script is guarded.
        "retry": Retry(ConstantBackoff(0.1), 1, supported_errors=(redis.ConnectionError,)),
        "client_name": "labferry",
    }
    if is_cluster(url):
        return placed_client(read_nodes(url), options)
    if not is_sentinel(url):
        return _plain_client(url, options)
    named = read_sentinels(url)
    asked = {"socket_timeout": 5, "socket_connect_timeout": 5, "password": named.sentinel_password}
    login = {"username": named.username, "password": named.password, "db": named.database}
    sentinel = Sentinel(named.hosts, sentinel_kwargs=asked)  # type: ignore[no-untyped-call]
    primary: redis.Redis = sentinel.master_for(  # type: ignore[no-untyped-call]
        named.master, **login, **options
    )
    return primary


def _plain_client(url: str, options: dict[str, Any]) -> "redis.Redis":
    if url.startswith("unix:"):
        options.pop("socket_keepalive")  # there is nobody who could vanish
    client = redis.Redis.from_url(url, **options)
    pool = client.connection_pool
    pool.connection_class(**pool.connection_kwargs)  # now and not at the first use: TypeError
    return client


def _text(verb: str) -> str:
    here = files(__package__)
    names = (*SHARED, *GUARDED.get(verb, ()), verb)
    return "".join(here.joinpath(f"{name}.lua").read_text("utf-8") for name in names)


def without_password(url: str) -> str:
    """Return the URL as it may be shown, also one that cannot be parsed."""
    scheme, slashes, rest = url.partition("//")
    credentials, at, place = rest.rpartition("@")
    shown = f"{credentials.partition(':')[0]}:***@{place}" if at else rest
    return scheme + slashes + re.sub("(password=)[^&]*", r"\1***", shown)
