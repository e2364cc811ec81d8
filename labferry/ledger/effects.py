"""What does each event write into a record, besides the state?

The table of states says who may move what; this one says what `move.lua` is told to write.
"""

from dataclasses import dataclass

from labferry.states import LEASED, MOVE_OF, Event, State

#: States in which a file waits for its due time.
PARKED = frozenset({State.FAILED, State.HELD})
#: States in which a file is a dead letter, or was one that a person gave up.
LETTERS = frozenset({State.QUARANTINED, State.DISCARDED})


@dataclass(frozen=True, slots=True)
class Effect:
    """`counts` names the counter that grows by one; a new series sets the others to zero.

    `dates` names the instant that is now; those that come after it in a life, and the evidence,
    are forgotten; `forgets` the first of those that are, where none is now. `expects`, `records`:
    the fingerprint is compared, or written. `proves`: evidence is demanded. `touches`: the run
    changed, a seal is undone. `queues`: the file waits for a message. `drops_upload`: the
    multipart plan is forgotten.
    """

    counts: str = ""
    dates: str = ""
    forgets: str = ""
    expects: bool = False
    records: bool = False
    proves: bool = False
    touches: bool = False
    queues: bool = False
    drops_upload: bool = False


EFFECT_OF = {
    Event.CHANGE: Effect(dates="changed_ms", records=True, touches=True),
    # That forgets the first claim too: the budget of time begins anew.
    Event.SETTLE: Effect(dates="settled_ms", expects=True, queues=True),
    Event.SKIP: Effect(),
    Event.REFUSE: Effect(),
    Event.REAPPEAR: Effect(dates="changed_ms", records=True, touches=True),
    Event.CONFLICT: Effect(),
    Event.SUPERSEDE: Effect(counts="series", dates="changed_ms", records=True, touches=True),
    Event.RECHECK: Effect(dates="settled_ms", queues=True),
    Event.LOSE: Effect(),
    Event.STORE: Effect(),
    Event.VERIFY: Effect(dates="verified_ms", proves=True, drops_upload=True),
    Event.FAIL: Effect(counts="attempt"),
    # The same: what the environment took is not of the file's budget.
    Event.HOLD: Effect(forgets="claimed_ms"),
    Event.ABANDON: Effect(counts="rounds", dates="changed_ms", touches=True, drops_upload=True),
    Event.YIELD: Effect(queues=True),
    Event.QUARANTINE: Effect(counts="attempt"),
    Event.EXPIRE: Effect(counts="lost"),
    Event.EXHAUST: Effect(counts="lost"),
    Event.REPLAY: Effect(counts="series", dates="settled_ms", queues=True),
    Event.REVISE: Effect(counts="series", dates="changed_ms", records=True, touches=True),
    Event.DISCARD: Effect(),
    Event.CLOSE: Effect(),
    Event.RECALL: Effect(),
}


def changes_letter(event: Event) -> bool:
    """Whether the event makes a dead letter, or ends one: the bucket is to say so."""
    move = MOVE_OF[event]
    return move.target in LETTERS or bool(move.sources & LETTERS)


def flags(event: Event) -> str:
    """Return the letters by which the script knows what an event is and does.

    h the holder acts, and proves it by its token | l a lease ends | w a wait for the due time
    begins | u such a wait ends | e the fingerprint is expected | q queued for a message
    d the multipart plan is dropped | t the run is touched | c dates are cut, and none is now
    i a dead letter comes into being | o it is one no more | r its reason is to be written
    """
    move, effect = MOVE_OF[event], EFFECT_OF[event]
    facts = {
        "h": move.needs_token,
        "l": move.sources & LEASED and move.target not in LEASED,
        "w": move.target in PARKED,
        "u": move.sources & PARKED,
        "e": effect.expects,
        "q": effect.queues,
        "d": effect.drops_upload,
        "t": effect.touches,
        "c": effect.forgets,
        "i": move.target is State.QUARANTINED,
        "o": State.QUARANTINED in move.sources,
        "r": changes_letter(event),
    }
    return "".join(letter for letter, holds in facts.items() if holds)
