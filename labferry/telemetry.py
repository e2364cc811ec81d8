"""How does labferry say what happened? Log events with fields: JSON lines, plain on a terminal.

What is about a run or a file names it as `run` and `file` everywhere, so that one search follows a
file from its discovery to the marker of its run, through all processes on all hosts.
"""

import json
import logging
import os
import socket
import sys
from collections.abc import Mapping
from typing import Literal

_LOGGER = logging.getLogger("labferry")
_FIELDS = "labferry_fields"

Form = Literal["auto", "json", "plain"]


def emit(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Log one event, such as emit("file.failed", run=run, file=path, code=code)."""
    _LOGGER.log(level, event, extra={_FIELDS: fields})


def is_told(level: int) -> bool:
    """Whether events of a level are logged; ask before an event is made for each of many files."""
    return _LOGGER.isEnabledFor(level)


def configure(program: str, *, level: int = logging.INFO, form: Form = "auto") -> None:
    """Send log events of this process to standard error. May be called twice."""
    handler = logging.StreamHandler(sys.stderr)
    plain = sys.stderr.isatty() if form == "auto" else form == "plain"
    handler.setFormatter(_Plain() if plain else _Json(program))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    _LOGGER.setLevel(level)


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields: Mapping[str, object] = getattr(record, _FIELDS, {})
    return fields


class _Json(logging.Formatter):
    def __init__(self, program: str) -> None:
        super().__init__()
        self._program = program
        self._host = socket.gethostname()

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at_ms": int(record.created * 1000),
            "level": record.levelname.lower(),
            "program": self._program,
            "host": self._host,
            "pid": os.getpid(),
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        shown = " ".join(f"{name}={value}" for name, value in _fields(record).items())
        line = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower():7}"
        line = f"{line} {record.getMessage()} {shown}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line
