"""How is RabbitMQ started for `make brokers`? As one of our own servers, with its epmd."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from amqp.exceptions import AMQPError
from kombu import Connection

from ops.embedded import _Server
from ops.loopback import HOST, free_ports
from tests.certificates import Certified, certified

USER, PASSWORD, VHOST = "labferry", "lab-secret", "lab"
#: What stands in PATH on Debian is a wrapper, which becomes another user.
_DEBIAN = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
#: Erlang's daemon of names would outlive its node, were it not there before.
_WITH_EPMD = 'epmd & exec "$0"'


def rabbitmq_binary() -> str:
    """Return where the server is. Exits with what to install where it is not."""
    found = str(_DEBIAN) if _DEBIAN.exists() else shutil.which("rabbitmq-server")
    if found is None:
        sys.exit("There is no rabbitmq-server here. Debian: apt install rabbitmq-server")
    return found


class RabbitMq(_Server):
    """A node in a folder of its own, which listens with TLS and without."""

    name = "rabbitmq"

    def __init__(self) -> None:
        super().__init__(None)
        self._binary = rabbitmq_binary()
        self._choose_ports()
        self.certified: Certified = certified(self.directory, f"IP:{HOST}")

    def named(self, url: str) -> str:
        """Return a URL of the documents with this server in it."""
        places = {"HOST:5672": self.port, "HOST:5671": self.tls_port}
        for place, port in places.items():
            url = url.replace(place, f"{HOST}:{port}")
        url = url.replace("USER:PASSWORD", f"{USER}:{PASSWORD}").replace("VHOST", VHOST)
        return url.replace("/etc/labferry/ca.pem", str(self.certified.authority))

    def version(self) -> str:
        """Return what it says of itself."""
        with Connection(f"amqp://{USER}:{PASSWORD}@{HOST}:{self.port}/{VHOST}") as connection:
            connection.connect()
            return str(connection.connection.server_properties["version"])

    def _choose_ports(self) -> None:
        self.port, self.tls_port, self._epmd, self._peers = free_ports(4)

    def _command(self) -> Sequence[str]:
        lines = [
            f"listeners.tcp.1 = {HOST}:{self.port}",
            f"listeners.ssl.1 = {HOST}:{self.tls_port}",
            f"ssl_options.cacertfile = {self.certified.authority}",
            f"ssl_options.certfile = {self.certified.chain}",
            f"ssl_options.keyfile = {self.certified.chain}",
            f"default_user = {USER}",
            f"default_pass = {PASSWORD}",
            f"default_vhost = {VHOST}",
        ]
        self._file("rabbitmq.conf").write_text("\n".join(lines) + "\n")
        return ["sh", "-c", _WITH_EPMD, self._binary]

    def _environment(self) -> dict[str, str]:
        return {
            **super()._environment(),
            "PATH": os.environ["PATH"],
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": str(self._epmd),
            "RABBITMQ_NODENAME": f"labferry-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._peers),
            "RABBITMQ_CONFIG_FILE": str(self._file("rabbitmq.conf")),
            # Not those of the machine's own RabbitMQ.
            "RABBITMQ_CONF_ENV_FILE": str(self._file("no-environment")),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._file("no-plugins")),
            "RABBITMQ_MNESIA_BASE": str(self.directory),
            "RABBITMQ_LOG_BASE": str(self.directory),
        }

    def _file(self, name: str) -> Path:
        return self.directory / name

    def _ready(self) -> bool:
        try:
            self.version()
        except (OSError, AMQPError):
            return False
        return True
