"""Does every ledger give each claim a token of its own, also when a crash made it forget some?

What a ledger forgot is what was put back: all that a client saw of the lost second is still known
to that client, and to nobody else.
"""

import pytest

from labferry.errors import Fenced
from labferry.records import Outcome, Part, Upload
from labferry.states import MOVE_OF, Actor, Event, State
from tests.ledger_world import EVIDENCE, PRINT, RUN, TTL_MS, World

DONE, FENCED = Outcome.DONE, Outcome.FENCED
HOLDERS = [event for event, move in MOVE_OF.items() if move.actor is Actor.HOLDER]
FILE = RUN.file("a")
UPLOAD = Upload(attempt_token="t", part_size=5, fingerprint=PRINT, upload_id="of the second")
#: 2024-01-01 in Unix milliseconds, and the unit of tokens.
EPOCH_MS, UNIT_MS = 1_704_067_200_000, 256


def test_a_token_is_the_instant_of_its_claim(world: World) -> None:
    token = world.upload("a", "b")
    for path in ("a", "b"):
        assert world.token(path) == token == (world.record(path).claimed_ms - EPOCH_MS) // UNIT_MS


def test_tokens_of_one_instant_count_on(world: World) -> None:
    """More claims than units of time pass meanwhile, as when the clock was set back."""
    tokens = [world.upload("a")]
    while len(tokens) < 300:
        world.move(Event.YIELD, "a", token=tokens[-1])
        tokens += world.claim("a")
    assert tokens == sorted(set(tokens))


def lost_claim(world: World, known: str) -> int:
    """Claim a file, and let the ledger forget all but what is `known`; return the token."""
    forget = world.keep()
    world.settle("a")
    if known != "nothing":
        forget = world.keep()
    if known == "the claim before":
        (token,) = world.claim("a")
        world.move(Event.YIELD, "a", token=token)
        forget = world.keep()
    (lost,) = world.claim("a", holder=1)
    forget()
    world.outlast(lost)
    return lost


@pytest.mark.parametrize("known", ["nothing", "the file", "the claim before"])
def test_who_claimed_what_the_ledger_forgot_is_fenced_by_the_next_claim(
    world: World, known: str
) -> None:
    lost = lost_claim(world, known)
    assert world.ledger.renew(RUN, [("a", lost)]) == [False]
    if known == "nothing":
        world.settle("a")
    (newer,) = world.claim("a", holder=2)
    assert newer > lost
    world.ledger.save_upload(FILE, newer, UPLOAD)
    record = world.record("a")

    assert world.ledger.renew(RUN, [("a", lost)]) == [False]
    for event in HOLDERS:
        assert world.move(event, "a", token=lost, evidence=EVIDENCE, delay_ms=0) == [FENCED]
    with pytest.raises(Fenced):
        world.ledger.save_upload(FILE, lost, UPLOAD)
    with pytest.raises(Fenced):
        world.ledger.save_parts(FILE, lost, {1: Part(1, 1)})
    with pytest.raises(Fenced):
        world.ledger.drop_upload(FILE, lost)
    assert world.record("a") == record
    assert world.ledger.find_upload(FILE) == UPLOAD

    assert world.ledger.renew(RUN, [("a", newer)]) == [True]
    assert world.move(Event.VERIFY, "a", token=newer, evidence=EVIDENCE) == [DONE]
    assert world.move(Event.VERIFY, "a", token=lost, evidence=EVIDENCE) == [FENCED]


def test_a_sweep_that_saw_a_claim_which_was_forgotten_does_not_end_the_next(world: World) -> None:
    lost = lost_claim(world, "the file")
    (newer,) = world.claim("a")
    world.pass_ms(TTL_MS)
    assert world.move(Event.EXPIRE, "a", token=lost) == [FENCED]
    assert world.record("a").state is State.UPLOADING
    assert world.move(Event.EXPIRE, "a", token=newer) == [DONE]
