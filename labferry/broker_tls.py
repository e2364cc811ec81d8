"""How does a broker's URL say whom to trust, and how is kombu told?

By `ssl_ca_certs`, `ssl_certfile`, `ssl_keyfile`, `ssl_cert_reqs` and `ssl_check_hostname`, as in
[ledger] url, for `rediss://` and `amqps://`. Without any, a server must have a certificate that the
system trusts, for its own name: kombu alone takes any server of `rediss://`, any name and no option
of `amqps://`.
"""

import ssl
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

Options = dict[str, object]

_DEMANDS = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_FILES = ("ca_certs", "certfile", "keyfile")
_KNOWN = (*_FILES, "cert_reqs", "check_hostname")
_PREFIX = "ssl_"


def split_tls(url: str) -> tuple[str, Options | None]:
    """Return the URL without these options, and them as kombu takes them; None without TLS.

    Raises: ValueError.
    """
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    given = {name.removeprefix(_PREFIX): query.pop(name) for name in [*query] if _is_ours(name)}
    if parts.scheme not in {"rediss", "amqps"}:
        if given:
            raise ValueError(f"{parts.scheme}:// is without TLS; it is rediss:// or amqps:// with")
        return url, None
    plain = urlunsplit(parts._replace(query=urlencode(query)))
    return plain, _for_amqp(given) if parts.scheme == "amqps" else _for_redis(given)


def _is_ours(name: str) -> bool:
    if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) not in _KNOWN:
        known = ", ".join(_PREFIX + one for one in _KNOWN)
        raise ValueError(f"{name} is none of {known}")
    return name.startswith(_PREFIX)


def _for_redis(given: dict[str, str]) -> Options:
    files = {_PREFIX + name: given[name] for name in _FILES if name in given}
    named = {"ssl_check_hostname": _checks_name(given)}
    return {**files, **named, "ssl_cert_reqs": _demand(given)}


def _for_amqp(given: dict[str, str]) -> Options:
    files = {name: given[name] for name in _FILES if name in given}
    # kombu puts the host in the place of None; without the word the name is not looked at.
    named = {"server_hostname": None} if _checks_name(given) else {}
    return {**files, **named, "cert_reqs": _demand(given)}


def _demand(given: dict[str, str]) -> ssl.VerifyMode:
    named = given.get("cert_reqs", "required").lower().removeprefix("cert_")
    if named not in _DEMANDS:
        raise ValueError(f"ssl_cert_reqs is none of {', '.join(_DEMANDS)}")
    return _DEMANDS[named]


def _checks_name(given: dict[str, str]) -> bool:
    # Nobody's name is looked at where no certificate is.
    wanted = given.get("check_hostname", "true").lower() != "false"
    return wanted and _demand(given) is not ssl.CERT_NONE
