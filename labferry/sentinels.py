"""How does one URL name the sentinels that know which server is the primary?

`sentinel://:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?master=NAME`, for ledger and broker alike; user,
password and database are the servers'. `&sentinel_password=` is for sentinels that ask for one.
"""

from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote, urlsplit

SCHEME = "sentinel"
PORT = 26379


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentinels:
    """The sentinels, and how to reach the primary they name."""

    hosts: tuple[tuple[str, int], ...]
    master: str
    database: int
    username: str | None
    password: str | None
    sentinel_password: str | None

    def to_celery(self) -> tuple[str, dict[str, object]]:
        """Return the URL and the transport options under which kombu knows the same."""
        at = ""
        if self.password is not None:
            at = f"{quote(self.username or '', '')}:{quote(self.password, '')}@"
        urls = [f"{SCHEME}://{at}{shown_place(*one)}/{self.database}" for one in self.hosts]
        options: dict[str, object] = {"master_name": self.master}
        if self.sentinel_password is not None:
            options["sentinel_kwargs"] = {"password": self.sentinel_password}
        return ";".join(urls), options


def is_sentinel(url: str) -> bool:
    """Whether a URL names sentinels."""
    return url.startswith(f"{SCHEME}://")


def read_sentinels(url: str) -> Sentinels:
    """Read such a URL. Raises: ValueError, whose sentence holds no password."""
    try:
        return _read(url)
    except ValueError:  # its sentence may hold a piece of a password
        raise ValueError(f"it is not {SCHEME}://HOST:PORT,HOST:PORT/DATABASE?master=NAME") from None


def _read(url: str) -> Sentinels:
    parts = urlsplit(url)
    credentials, _, places = parts.netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    query = parse_qs(parts.query, strict_parsing=True)
    (master,) = query.pop("master", [""])
    (sentinel_password,) = query.pop("sentinel_password", [None])
    if not master or query or parts.fragment:
        raise ValueError
    return Sentinels(
        hosts=tuple(split_place(place, PORT) for place in places.split(",")),
        master=master,
        database=int(parts.path.strip("/") or "0"),
        username=unquote(username) or None,
        password=unquote(password) or None,
        sentinel_password=sentinel_password,
    )


def split_place(place: str, port: int) -> tuple[str, int]:
    """Return host and port of HOST:PORT, or of HOST at that port. Raises: ValueError."""
    parts = urlsplit(f"//{place}")
    if not parts.hostname:
        raise ValueError
    return parts.hostname, parts.port or port


def shown_place(host: str, port: int) -> str:
    """Return HOST:PORT as a URL has it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
