"""Who does this, why, and is it really wanted?"""

import os
import pwd
import socket
import sys

from labferry.audit import Act
from labferry.errors import Refused, SettingsError


def act_of(what: str, reason: str | None, selector: str = "") -> Act:
    """Return the act that goes on record. Raises: SettingsError without a reason."""
    if reason is None or not reason.strip():
        raise SettingsError(
            field="--reason",
            why="it is missing",
            step="Say why, or name the ticket: it goes on record with your name.",
        )
    return Act(actor=actor(), reason=reason.strip(), what=what, selector=selector)


def actor() -> str:
    """Return who is at work here: user@host, with the login's name where that is another."""
    user = _user()
    try:
        login = os.getlogin()
    except OSError:  # no terminal, or a container
        login = user
    name = user if login == user else f"{login} as {user}"
    return f"{name}@{socket.gethostname()}"


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def consent(question: str, *, yes: bool) -> None:
    """Return if the operator wants it: by --yes, or by an answer on the terminal.

    Raises: Refused.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused(
            what="nothing was done",
            why="it changes what is on record, and nobody is there to ask",
            step="Look at it with --dry-run, then say --yes.",
        )
    answer = input(f"{question} [y/N] ")
    if answer.strip().lower() not in {"y", "yes"}:
        raise Refused(what="nothing was done", why="you did not say yes", step="Ask again.")
