"""What does a worker learn as it begins with a message?"""

from collections.abc import Callable
from dataclasses import dataclass

from labferry.breakers import Conditions
from labferry.records import Claim
from labferry.word import Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The files that are the worker's now, and what stands in the way of all.

    `hold` is an operator's, on the run: then no file was claimed. `sent` counts the run's messages
    that nobody has claimed yet. `conditions` are read when they are asked for, as the claims are to
    be given back where they cannot be. Raises: MalformedMessage.
    """

    claims: list[Claim]
    conditions: Callable[[], Conditions]
    hold: Word | None = None
    sent: int = 0
