"""Can this folder of the user's be ferried as a run of the demo?"""

import os
import shutil
import tempfile
from pathlib import Path

from labferry.errors import Refused, SettingsError
from ops.shown import size

#: The S3 server keeps a copy, and room to grow.
ROOM_BYTES = 1_000_000_000


def check_source(folder: Path) -> Path:
    """Return the folder's real path. Raises: SettingsError, Refused."""
    real = folder.resolve()
    if not real.is_dir():
        raise SettingsError(field="--source", why=f"{folder} is not a folder", step="Name one.")
    if real == real.parent:
        raise SettingsError(
            field="--source", why=f"{real} has no folder above it", step="Name one below it."
        )
    count, total = _measure(real)
    if not count:
        raise SettingsError(
            field="--source", why=f"{folder} holds no file", step="Name a folder with files in it."
        )
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if total + ROOM_BYTES > free:
        raise Refused(
            what=f"--source {folder}",
            why=f"its {size(total)} would be copied to {tempfile.gettempdir()}, where {size(free)} "
            "are free",
            step="Set TMPDIR to a larger place, or name a smaller folder.",
        )
    return real


def _measure(folder: Path) -> tuple[int, int]:
    count = total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            count += 1
            total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118  hot, and any bytes
    return count, total
