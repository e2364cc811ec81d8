"""How does one URL name the nodes of a cluster that holds the ledger?

`redis+cluster://:PASSWORD@HOST:PORT,HOST:PORT`, or `rediss+cluster://` with TLS and its options
(`?ssl_ca_certs=`); user and password are the nodes'. One node that answers names all others.
"""

from urllib.parse import parse_qsl, urlsplit

from labferry.sentinels import shown_place, split_place

SCHEMES = {"redis+cluster": "redis", "rediss+cluster": "rediss"}
PORT = 6379
_FORM = "HOST:PORT,HOST:PORT, without a database"


def is_cluster(url: str) -> bool:
    """Whether a URL names nodes of a cluster."""
    return url.partition("://")[0] in SCHEMES


def read_nodes(url: str) -> tuple[str, ...]:
    """Return the URL of each node. Raises: ValueError, whose sentence holds no password."""
    scheme = url.partition("://")[0]
    try:
        return _read(url)
    except ValueError:  # its sentence may hold a piece of a password
        raise ValueError(f"it is not {scheme}://{_FORM}") from None


def _read(url: str) -> tuple[str, ...]:
    parts = urlsplit(url)
    credentials, at, places = parts.netloc.rpartition("@")
    is_tls = SCHEMES[parts.scheme] == "rediss"
    options = [name for name, _ in parse_qsl(parts.query, strict_parsing=bool(parts.query))]
    if parts.path.strip("/") or parts.fragment:
        raise ValueError
    if not all(is_tls and name.startswith("ssl_") for name in options):
        raise ValueError
    query = f"?{parts.query}" if parts.query else ""
    nodes = [shown_place(*split_place(place, PORT)) for place in places.split(",")]
    return tuple(f"{SCHEMES[parts.scheme]}://{credentials}{at}{node}/0{query}" for node in nodes)
