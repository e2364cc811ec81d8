"""May Flower and the monitor be started on their address, and under which URL are they then?"""

import ipaddress
import socket

from labferry.errors import Refused, SettingsError
from labferry.settings_watching import FlowerSettings, MonitorSettings

#: Addresses that take a port on all of the host's.
_EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  compared, not bound


def flower_url(flower: FlowerSettings) -> str:
    """Return where a browser finds it."""
    prefix = flower.url_prefix.strip("/")
    return _url(flower.address, flower.port) + (f"{prefix}/" if prefix else "")


def monitor_url(monitor: MonitorSettings) -> str:
    """Return where a browser finds the status page."""
    return _url(monitor.address, monitor.port)


def _url(address: str, port: int) -> str:
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}/"


def check_flower(flower: FlowerSettings) -> None:
    """Refuse what would show file names to anybody, or could not start.

    Raises: Refused, SettingsError.
    """
    check_exposure(flower)
    check_port("flower", flower.address, flower.port)


def check_exposure(flower: FlowerSettings) -> None:
    """Refuse what would show file names to anybody. Raises: Refused, SettingsError."""
    password = flower.basic_auth.get_secret_value()
    if not password and not is_loopback(flower.address):
        raise Refused(
            what=f"Flower on {flower.address or 'all addresses'}",
            why="anybody could read the names of all files there",
            step="Set LABFERRY_FLOWER__BASIC_AUTH=user:password, or [flower] address to 127.0.0.1.",
        )
    check_password("flower", password)


def check_monitor(monitor: MonitorSettings) -> None:
    """Refuse what could not start; without a password its pages are shown on loopback alone.

    Raises: SettingsError.
    """
    check_password("monitor", monitor.basic_auth.get_secret_value())
    check_port("monitor", monitor.address, monitor.port)


def is_loopback(address: str) -> bool:
    """Whether only this host reaches an address."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def check_password(section: str, password: str) -> None:
    """Refuse what is not user:password. Raises: SettingsError."""
    user, _, secret = password.partition(":")
    if password and not (user and secret):
        raise SettingsError(
            field=f"{section}.basic_auth",
            why="it is not user:password",
            step=f"Set LABFERRY_{section.upper()}__BASIC_AUTH=user:password.",
        )


def check_port(section: str, address: str, port: int) -> None:
    """Refuse what cannot be bound. Raises: SettingsError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise SettingsError(
                field=f"{section}.port",
                why=f"{address}:{port} cannot be bound ({error.strerror})",
                step=f"Set [{section}] port, or LABFERRY_{section.upper()}__PORT, to a free one.",
            ) from error


def check_apart(flower: FlowerSettings, monitor: MonitorSettings) -> None:
    """Refuse one port for both where both are to run here. Raises: SettingsError."""
    addresses = {flower.address, monitor.address}
    meet = len(addresses) == 1 or bool(addresses & _EVERYWHERE)
    if meet and flower.port == monitor.port != 0:
        raise SettingsError(
            field="monitor.port",
            why=f"{monitor.port} is Flower's port, too",
            step="Set [monitor] port, or LABFERRY_MONITOR__PORT, to another one.",
        )
