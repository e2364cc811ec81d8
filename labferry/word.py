"""What did an operator say about a run or an instrument, who was it, and why?"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What an operator said about a run or an instrument: a hold, or the end of a run."""

    actor: str
    reason: str
    at_ms: int
