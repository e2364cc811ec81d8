"""Which settings and which environment does the demo run with?

Short times, small parts, and nothing of the user's own: no configuration, no credentials, no proxy.
"""

import glob
import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from labferry.settings import MIB
from ops.demo_runs import MARKER, MICROSCOPE, SEQUENCER
from ops.embedded import Valkey, Weed

BUCKET = "labferry-demo"
#: The instrument under which --source is ferried.
SOURCE = "source"
#: The file for another terminal, in the demo's folder.
ENV = "env"

#: What of the user's environment would reach other servers than the demo's own.
NOT_INHERITED = (
    "LABFERRY_", "AWS_", "FLOWER_", "CELERY", "http_proxy", "https_proxy", "all_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
)  # fmt: skip

_COMMON = """\
[store]
bucket = "{bucket}"
endpoint_url = "{endpoint}"
single_put_max_bytes = {part}
part_size_bytes = {part}

[ledger]
url = "{ledger}"
lease_ttl_s = 15
heartbeat_s = 5
resend_s = 5
sweep_interval_s = 0.5

[broker]
url = "{broker}"

[retry]
base_s = 1
floor_s = 0.2
hold_s = 2

[worker]
small_processes = 1
large_processes = 1
soft_shutdown_s = 1

[flower]
port = {flower_port}
"""

_INSTRUMENT = """
[instruments.{name}]
root = {root}
scan_interval_s = 0.5
settle_window_s = 1
quiet_s = 2
"""


def demo_config(valkey: Valkey, weed: Weed, flower_port: int, roots: Path) -> str:
    """Return the labferry.toml of the demo's own instruments, whose folders are below `roots`."""
    instruments = [
        _instrument(SEQUENCER, roots / SEQUENCER) + f'marker = "{MARKER}"\nstale_s = 30\n',
        _instrument(MICROSCOPE, roots / MICROSCOPE),
    ]
    return _common(valkey, weed, flower_port) + "".join(instruments)


def source_config(valkey: Valkey, weed: Weed, flower_port: int, folder: Path) -> str:
    """Return the labferry.toml that ferries one folder: of its parent, this name alone is a run."""
    only = json.dumps([glob.escape(folder.name)])
    return (
        _common(valkey, weed, flower_port) + _instrument(SOURCE, folder.parent) + f"runs = {only}\n"
    )


def demo_variables(credentials: Path, temporary: Path) -> Mapping[str, str]:
    """Return where the credentials of the demo's S3 server are; no other ones are read.

    What a killed worker leaves in its temporary folder goes away with the demo's own.
    """
    return {
        "TMPDIR": str(temporary),
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": str(credentials),
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "*",
    }


def write_credentials(weed: Weed, folder: Path) -> Path:
    """Write what the demo's S3 server takes, where its programs read it; return the file."""
    path = folder / "credentials"
    path.write_text(
        f"[default]\naws_access_key_id = {weed.access_key}\n"
        f"aws_secret_access_key = {weed.secret_key}\n",
        "utf-8",
    )
    return path


def write_env(config: Path, credentials: Path, folder: Path) -> Path:
    """Write what another terminal needs for `labferry` to be about the demo; return the file."""
    path = folder / ENV
    names = "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_PROFILE"
    values = {"LABFERRY_CONFIG": config, "AWS_SHARED_CREDENTIALS_FILE": credentials}
    exports = [f"export {name}={shlex.quote(str(value))}\n" for name, value in values.items()]
    path.write_text(f"unset {names}\n" + "".join(exports), "utf-8")
    return path


def _common(valkey: Valkey, weed: Weed, flower_port: int) -> str:
    return _COMMON.format(
        bucket=weed.bucket,
        endpoint=weed.endpoint,
        part=8 * MIB,
        ledger=valkey.url(1),
        broker=valkey.url(0),
        flower_port=flower_port,
    )


def _instrument(name: str, root: Path) -> str:
    return _INSTRUMENT.format(name=name, root=json.dumps(str(root), ensure_ascii=False))
