"""Which code does a command end with, and what does the person read? One table."""

import errno
import os
import sys
import traceback
from collections.abc import Callable
from enum import IntEnum
from tempfile import gettempdir

from typer.exceptions import TyperException

from labferry.errors import (
    BadName,
    BrokerUnavailable,
    InboxUnavailable,
    LabferryError,
    LedgerUnavailable,
    NotFound,
    Refused,
    SettingsError,
    ShareUnavailable,
    StoreError,
)

#: HTTP statuses from here on are the server's trouble, not the request's.
_SERVER_TROUBLE = 500
#: A disk of this host is full: what was printed, or put aside while sorting, has no room.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Exit(IntEnum):
    """The exit codes; scripts may rely on them."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    PARTIAL = 3
    REFUSED = 4
    NOT_FOUND = 5
    UNAVAILABLE = 75
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """Return what the code says."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.DONE: "done, and what was reported is whole",
    Exit.FAILED: "failed",
    Exit.USAGE: "wrong usage or settings",
    Exit.PARTIAL: "done in part",
    Exit.REFUSED: "refused; the message says what would let it",
    Exit.NOT_FOUND: "no such run, file, instrument or profile",
    Exit.UNAVAILABLE: "a server did not answer, or time is up; try again",
    Exit.INTERRUPTED: "interrupted",
}

#: The first class that fits decides.
_OF_ERROR: tuple[tuple[type[LabferryError], Exit], ...] = (
    (SettingsError, Exit.USAGE),
    (BadName, Exit.USAGE),
    (Refused, Exit.REFUSED),
    (NotFound, Exit.NOT_FOUND),
    (LedgerUnavailable, Exit.UNAVAILABLE),
    (BrokerUnavailable, Exit.UNAVAILABLE),
    (InboxUnavailable, Exit.UNAVAILABLE),
    (ShareUnavailable, Exit.UNAVAILABLE),
)


def exit_of(error: LabferryError) -> Exit:
    """Return the code that an error ends a command with."""
    if isinstance(error, StoreError):
        unanswered = error.status is None or error.status >= _SERVER_TROUBLE
        return Exit.UNAVAILABLE if unanswered else Exit.FAILED
    for kind, code in _OF_ERROR:
        if isinstance(error, kind):
            return code
    return Exit.FAILED


def end_with_code(command: Callable[[], object]) -> int:
    """Run a command and return its exit code; what went wrong is one sentence on stderr."""
    try:
        code = command()
    except LabferryError as error:
        return _say(str(error), exit_of(error))
    except TyperException as error:
        return _say_usage(error)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads any more
        return Exit.FAILED
    except Exception as error:  # noqa: BLE001  the boundary of the program
        return _say_unforeseen(error)
    return code if isinstance(code, int) else Exit.DONE


def _say_unforeseen(error: Exception) -> Exit:
    if isinstance(error, OSError) and error.errno in _FULL:
        # What could not be printed would be tried again, and fail again, when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        step = f"Make room where its output goes and in {gettempdir()}, then run it again."
        return _say(f"{error.strerror}. {step}", Exit.FAILED)
    traceback.print_exception(error)
    return _say("this is a fault of labferry's; please report it with the above.", Exit.FAILED)


def _say_usage(error: TyperException) -> Exit:
    """Without a sentence, the help of a group of commands was shown just now, and says it all."""
    if sentence := error.format_message().rstrip("."):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "labferry"
        _say(f"{sentence}. See `{command} --help`.", Exit.USAGE)
    return Exit.USAGE


def _say(sentence: str, code: Exit) -> Exit:
    print(f"labferry: {sentence}", file=sys.stderr)
    return code
