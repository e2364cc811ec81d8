"""Have two failures the same cause? Then they share an error fingerprint: "312 files, 1 cause".

It is made of kind, code and message, without what differs from file to file and from request to
request: names, paths, numbers, ids. The message of a StoreError begins with its operation.
"""

import hashlib
import re
from functools import lru_cache

from labferry.identity import FileKey, decode_path

_LENGTH = 8
_QUOTED = re.compile(r"""(?<!\w)'[^'\n]*'(?!\w)|"[^"\n]*\"""")
_VARYING = re.compile(r"[\w+.-]*\d[\w+.-]*|\b[0-9a-fA-F]{8,}\b")
#: Different words that messages are made of; there are few.
_WORDS = 4096


def error_fingerprint(kind: str, code: str, message: str, file: FileKey) -> str:
    """Return a few hex digits that failures of one cause share; `file` is the one that failed."""
    text = "\n".join((kind, code, without_particulars(message, file)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


def without_particulars(message: str, file: FileKey) -> str:
    """Return a message without what is of this file and this request alone."""
    message = message.replace(str(file), "/file")
    for name in {file.path, decode_path(file.path).decode("utf-8", "surrogateescape")}:
        # A short name may also be a word: it counts where a message names its file.
        if message.startswith(f"{name}: "):
            message = f"/file{message[len(name) :]}"
        message = message.replace(f"/{name}", "/file")
    words = _QUOTED.sub("<text>", message).split()
    return " ".join("<path>" if "/" in word else _plain(word) for word in words)


@lru_cache(_WORDS)
def _plain(word: str) -> str:
    return _VARYING.sub("#", word)
