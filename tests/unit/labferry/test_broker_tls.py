"""Is kombu told all that a broker's URL says of TLS, and the safe thing where it says nothing?"""

import ssl

import pytest

from labferry.celery_address import celery_address
from labferry.settings import BrokerSettings

HOST = "user:p%40ss@host:1/vhost"
FILES = "ssl_ca_certs=/ca.pem&ssl_certfile=/us.pem&ssl_keyfile=/us.key"


def test_without_options_a_server_must_be_trusted_and_be_who_it_says() -> None:
    redis, amqp = celery_address("rediss://h/0"), celery_address("amqps://h/v")
    assert redis.tls == {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True}
    assert amqp.tls == {"cert_reqs": ssl.CERT_REQUIRED, "server_hostname": None}  # kombu puts it in


def test_files_are_named_as_each_transport_knows_them() -> None:
    redis, amqp = (celery_address(f"{scheme}://{HOST}?{FILES}") for scheme in ("rediss", "amqps"))
    assert redis.tls and amqp.tls
    for name, path in (("ca_certs", "/ca.pem"), ("certfile", "/us.pem"), ("keyfile", "/us.key")):
        assert redis.tls[f"ssl_{name}"] == amqp.tls[name] == path
    assert (redis.url, amqp.url) == (f"rediss://{HOST}", f"amqps://{HOST}")


def test_who_asks_for_less_gets_less() -> None:
    nameless = celery_address("amqps://h/v?ssl_check_hostname=false").tls
    assert nameless == {"cert_reqs": ssl.CERT_REQUIRED}
    anybody = celery_address("rediss://h/0?ssl_cert_reqs=none").tls
    assert anybody == {"ssl_cert_reqs": ssl.CERT_NONE, "ssl_check_hostname": False}


@pytest.mark.parametrize(
    "url", ["redis://h/0", "amqp://u:p@h/v", "sqs://", "amqp://a//;amqp://b//"]
)
def test_an_address_without_tls_stays_as_it_is(url: str) -> None:
    address = celery_address(url)
    assert (address.url, address.tls) == (url, None)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis://h/0?ssl_ca_certs=/ca.pem", "redis:// is without TLS"),
        ("amqp://h/v?ssl_ca_certs=/ca.pem", "amqp:// is without TLS"),
        ("rediss://h/0?ssl_typo=1", "ssl_typo is none of ssl_ca_certs"),
        ("amqps://h/v?ssl_cert_reqs=maybe", "ssl_cert_reqs is none of none, optional, required"),
    ],
)
def test_what_nobody_could_mean_is_refused_at_start(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        BrokerSettings(url=url)


@pytest.mark.parametrize("url", ["", "127.0.0.1:6379", "foo://h", "kafka://h", "unix:///s.sock"])
def test_a_broker_that_nobody_tried_is_refused_at_start(url: str) -> None:
    with pytest.raises(ValueError, match="it should begin with redis://"):
        BrokerSettings(url=url)
