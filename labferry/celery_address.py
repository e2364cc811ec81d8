"""Under which URL, transport options and TLS does kombu know a broker?"""

from dataclasses import dataclass, field

from labferry.broker_tls import split_tls
from labferry.sentinels import is_sentinel, read_sentinels


@dataclass(frozen=True, slots=True, kw_only=True)
class CeleryAddress:
    """`tls` is what kombu takes as `ssl`; None without it."""

    url: str
    options: dict[str, object] = field(default_factory=dict)
    tls: dict[str, object] | None = None


def celery_address(url: str) -> CeleryAddress:
    """Read a broker's URL. Raises: ValueError, whose sentence holds no password."""
    if is_sentinel(url):
        own, options = read_sentinels(url).to_celery()
        return CeleryAddress(url=own, options=options)
    plain, tls = split_tls(url)
    return CeleryAddress(url=plain, tls=tls)
