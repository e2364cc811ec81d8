"""How is a folder of a run opened so that nothing leads out of the run?

Segment by segment below a descriptor of the run folder, never through a link: a folder that is
swapped for a link while it is scanned is refused by the kernel.
"""

import errno
import os

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Folders:
    """Opens the folders of one run; keeps open those from the run folder to the last one opened."""

    def __init__(self, run_folder: bytes) -> None:
        self._run_folder = run_folder
        self._open: list[tuple[bytes, int]] = []

    def open(self, path: bytes) -> int:
        """Return a descriptor of the folder at a path below the run folder (b'' is the run itself).

        It is valid until the next call. Raises: OSError.
        """
        try:
            return self._descend(path)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
        # Another client replaced a folder on the way: walk down again from the run folder.
        self.close()
        return self._descend(path)

    def close(self) -> None:
        """Close all descriptors."""
        self._keep(0)

    def _descend(self, path: bytes) -> int:
        names = [self._run_folder, *path.split(b"/")] if path else [self._run_folder]
        kept = 0
        for (kept_name, _), name in zip(self._open, names, strict=False):
            if kept_name != name:
                break
            kept += 1
        self._keep(kept)
        for name in names[kept:]:
            above = self._open[-1][1] if self._open else None
            self._open.append((name, os.open(name, _FLAGS, dir_fd=above)))
        return self._open[-1][1]

    def _keep(self, count: int) -> None:
        while len(self._open) > count:
            os.close(self._open.pop()[1])
