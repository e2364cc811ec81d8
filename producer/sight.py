"""Did a look at a run that is over see what the look before saw, when there was nothing to do?

One number for a whole run, in whatever order it was listed: then no file of it is looked up. It is
compared with what a look has seen, not with what is on record: sources are cleaned up, and a file
that is gone is nothing to do.
"""

import struct
from hashlib import blake2s

from labferry.source.scan import Batch

_MOST = 1 << 128
#: Size, mtime and inode; no name holds the byte between it and them.
_SEEN = struct.Struct("<xQqQ")


class Sight:
    """Adds up the batches of one scan."""

    def __init__(self) -> None:
        self._sum = 0
        self._is_whole = True

    def add(self, batch: Batch) -> None:
        """Take a batch in. What is left out for good is not looked at; what cannot be read is."""
        seen = [
            path.encode() + _SEEN.pack(size, mtime_ns, inode)
            for path, (size, mtime_ns, inode, _) in batch.files
        ]
        seen += [one.path.encode() for one in batch.left_out if one.refused]
        seen += [one.path.encode() for one in batch.unreadable]
        self._sum += sum([int.from_bytes(blake2s(one).digest()) for one in seen])
        self._sum %= _MOST
        self._is_whole = self._is_whole and not batch.vanished

    @property
    def number(self) -> str:
        """The number in hex; '' where names vanished while the run was listed."""
        return f"{self._sum:032x}" if self._is_whole else ""
