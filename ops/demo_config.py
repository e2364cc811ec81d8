"""Which settings and which environment does the demo run with?

Short times, small parts, and nothing of the user's own: no configuration, no credentials, no proxy.
"""

import glob
import json
from collections.abc import Mapping
from pathlib import Path

from labferry.settings import MIB
from ops.demo_runs import MARKER, MICROSCOPE, SEQUENCER
from ops.embedded import Valkey, Weed

BUCKET = "labferry-demo"
#: The instrument under which --source is ferried.
SOURCE = "source"

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
        _instrument(SEQUENCER, roots / SEQUENCER) + f'marker = "{MARKER}"\n',
        _instrument(MICROSCOPE, roots / MICROSCOPE),
    ]
    return _common(valkey, weed, flower_port) + "".join(instruments)


def source_config(valkey: Valkey, weed: Weed, flower_port: int, folder: Path) -> str:
    """Return the labferry.toml that ferries one folder: of its parent, this name alone is a run."""
    only = json.dumps([glob.escape(folder.name)])
    return (
        _common(valkey, weed, flower_port) + _instrument(SOURCE, folder.parent) + f"runs = {only}\n"
    )


def demo_variables(weed: Weed, temporary: Path) -> Mapping[str, str]:
    """Return the credentials of the demo's S3 server; files of other credentials are not read.

    What a killed worker leaves in its temporary folder goes away with the demo's own.
    """
    return {
        "TMPDIR": str(temporary),
        "AWS_ACCESS_KEY_ID": weed.access_key,
        "AWS_SECRET_ACCESS_KEY": weed.secret_key,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "*",
    }


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
