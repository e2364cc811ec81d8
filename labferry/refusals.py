"""A ledger or broker is there and cannot be used all the same: what mends that?"""

import ssl
from collections.abc import Iterator

from amqp.exceptions import AccessRefused, NotAllowed
from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    OutOfMemoryError,
    ResponseError,
)

RIGHTS = "Give the account the rights, keys and channels that docs/hosts.md names."

#: The code of a server that cannot write its append-only file, and so takes no writes at all.
_UNWRITABLE = "MISCONF"


def mend_of(error: BaseException, field: str) -> str | None:
    """Return what mends it in the URL of that setting, or at the server; None for any other
    error, such as that of a server that is away."""
    mends: dict[type[BaseException], str] = {
        ssl.SSLCertVerificationError: f"Let `ssl_ca_certs` in {field} name the authority that "
        "signed the server's certificate, and its host be one that the certificate names.",
        AuthenticationError: f"Set user and password in {field} as the server knows them.",
        AccessRefused: f"Set user and password in {field} as the server knows them.",
        NotAllowed: f"Set a virtual host in {field} that is there, and may be used.",
        NoPermissionError: RIGHTS,
        OutOfMemoryError: "Its memory is full: raise `maxmemory` of the server. Nothing is lost; "
        "what waits goes on by itself.",
    }
    for one in _chain(error):
        if isinstance(one, ResponseError) and str(one).startswith(_UNWRITABLE):
            return (
                "Its disk is full, or fails: make room there. Nothing is lost; what waits goes on."
            )
        for kind, mend in mends.items():
            if isinstance(one, kind):
                return mend
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
