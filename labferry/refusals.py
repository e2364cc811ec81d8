"""A ledger or broker is there and cannot be used all the same: what mends that?"""

import ssl
from collections.abc import Iterator

from amqp.exceptions import AccessRefused, NotAllowed
from redis.exceptions import AuthenticationError, NoPermissionError

RIGHTS = "Give the account the rights, keys and channels that docs/hosts.md names."


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
    }
    for one in _chain(error):
        for kind, mend in mends.items():
            if isinstance(one, kind):
                return mend
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
