"""Can Celery take messages at this address, and what is it without there?"""

from importlib.util import find_spec

from labferry.celery_address import celery_address
from labferry.cluster_nodes import is_cluster

#: Where workers answer pings and send the events that Flower shows.
_WITH_CONTROL = ("redis", "rediss", "redis+socket", "sentinel", "amqp", "amqps", "pyamqp")
_TRIED = (*_WITH_CONTROL, "sqs")


def scheme_of(url: str) -> str:
    """Return what stands before the colon."""
    return url.partition(":")[0]


def check_broker(url: str) -> None:
    """Refuse an address at which no worker could take a message. Raises: ValueError."""
    check_transport(url)
    if scheme_of(url) == "sqs" and find_spec("pycurl") is None:
        raise ValueError("workers reach SQS by pycurl, which is not here: pip install pycurl")


def check_transport(url: str) -> None:
    """Refuse an address to which Celery could publish nothing. Raises: ValueError."""
    if is_cluster(url):
        raise ValueError("Celery has no Redis Cluster transport; use Redis, Sentinel or RabbitMQ")
    if scheme_of(url) not in _TRIED:
        raise ValueError(
            "it should begin with redis://, rediss://, redis+socket://, sentinel://, amqp://, "
            "amqps:// or sqs://; labferry is tried with no other broker"
        )
    celery_address(url)


def has_control(url: str) -> bool:
    """Whether Celery can ask its workers anything over this broker."""
    return scheme_of(url) in _WITH_CONTROL
