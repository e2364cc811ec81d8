"""Did a look at a run that is over see what the look before saw, when there was nothing to do?

One number for a whole run, in whatever order it was listed: then no file of it is looked up. It is
compared with what a look has seen, not with what is on record: sources are cleaned up, and a file
that is gone is nothing to do.
"""

from hashlib import blake2b

from labferry.source.scan import Batch

_BYTES = 16
_MOST = 1 << (8 * _BYTES)


class Sight:
    """Adds up the batches of one scan."""

    def __init__(self) -> None:
        self._sum = 0
        self._is_whole = True

    def add(self, batch: Batch) -> None:
        """Take a batch in. What is left out for good is not looked at; what cannot be read is."""
        total = self._sum
        for path, found in batch.files:
            seen = b"%b\0%d %d %d" % (path.encode(), found.size, found.mtime_ns, found.inode)
            total += int.from_bytes(blake2b(seen, digest_size=_BYTES).digest())
        for name in (
            *(one.path for one in batch.left_out if one.refused),
            *(one.path for one in batch.unreadable),
        ):
            total += int.from_bytes(blake2b(name.encode(), digest_size=_BYTES).digest())
        self._sum = total % _MOST
        self._is_whole = self._is_whole and not batch.vanished

    @property
    def number(self) -> str:
        """The number in hex; '' where names vanished while the run was listed."""
        return f"{self._sum:032x}" if self._is_whole else ""
