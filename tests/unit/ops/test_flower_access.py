"""Is Flower kept from showing file names to anybody?"""

import contextlib
import socket

import pytest
from pydantic import SecretStr

from labferry.errors import Refused, SettingsError
from labferry.settings_watching import FlowerSettings, MonitorSettings
from ops.flower_access import check_apart, check_flower, flower_url


def flower(address: str, password: str = "", port: int = 0) -> FlowerSettings:
    return FlowerSettings(address=address, basic_auth=SecretStr(password), port=port)


@pytest.mark.parametrize("address", ["0.0.0.0", "", "::", "192.0.2.7", "lab.example.org"])
def test_an_open_address_without_a_password_is_refused(address: str) -> None:
    with pytest.raises(Refused, match="Set LABFERRY_FLOWER__BASIC_AUTH=user:password"):
        check_flower(flower(address))


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", "localhost"])
def test_loopback_needs_no_password(address: str) -> None:
    check_flower(flower(address))


def test_an_open_address_with_a_password_is_allowed() -> None:
    check_flower(flower("0.0.0.0", "ada:secret"))


@pytest.mark.parametrize("password", ["secret", "ada:", ":secret"])
def test_half_a_password_is_none(password: str) -> None:
    with pytest.raises(SettingsError, match="it is not user:password"):
        check_flower(flower("0.0.0.0", password))


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"flower.port: 127.0.0.1:{port} cannot be bound"):
            check_flower(flower("127.0.0.1", port=port))


def test_the_address_for_a_browser_has_the_prefix() -> None:
    settings = FlowerSettings(url_prefix="/flower/", port=5555)
    assert flower_url(settings) == "http://127.0.0.1:5555/flower/"
    assert flower_url(FlowerSettings(port=5555)) == "http://127.0.0.1:5555/"


@pytest.mark.parametrize(
    ("addresses", "ports", "meet"),
    [
        (("127.0.0.1", "127.0.0.1"), (7000, 7000), True),
        (("127.0.0.1", "0.0.0.0"), (7000, 7000), True),
        (("127.0.0.1", "10.0.0.5"), (7000, 7000), False),
        (("127.0.0.1", "127.0.0.1"), (7000, 7001), False),
        (("127.0.0.1", "127.0.0.1"), (0, 0), False),
    ],
)
def test_two_programs_of_one_host_have_a_port_each(
    addresses: tuple[str, str], ports: tuple[int, int], meet: bool
) -> None:
    flower = FlowerSettings(address=addresses[0], port=ports[0])
    monitor = MonitorSettings(address=addresses[1], port=ports[1])
    expected = pytest.raises(SettingsError, match="Flower's port, too")
    with expected if meet else contextlib.nullcontext():
        check_apart(flower, monitor)
