"""Does the ledger keep what agents tell of their looks, in memory and on a server?"""

from dataclasses import replace

import pytest

from labferry.errors import MalformedMessage
from labferry.ledger import open_ledger
from labferry.ledger.keys import PASSES, WAITING
from labferry.passes import Pass, Space, Waiting
from labferry.settings import LedgerSettings
from tests.ledger_world import World

SPACE = Space(free_bytes=2**50, total_bytes=2**51, fills_bytes_per_s=0.5)
SEEN = Pass(instrument="seq", host="beside-seq", at_ms=7, due_ms=9, arrived_ms=5, space=SPACE)
WAITING_RUN = Waiting(
    run="seq/run1",
    lacks=("marker: no CopyComplete.txt",),
    stuck=("ä.tmp has a temporary name",),
    since_ms={"ä.tmp": 3, "": 4},
)


def test_what_was_told_last_comes_back(world: World) -> None:
    assert world.ledger.passes() == []
    world.ledger.tell_pass(SEEN)
    world.ledger.tell_waiting("seq", "beside-seq", [WAITING_RUN])
    assert world.ledger.passes() == [replace(SEEN, waiting=(WAITING_RUN,))]
    again = replace(SEEN, at_ms=10, due_ms=0, away="the root is empty")
    world.ledger.tell_pass(again)
    assert world.ledger.passes() == [replace(again, waiting=(WAITING_RUN,))]


def test_each_host_tells_of_each_instrument_by_itself(world: World) -> None:
    told = [
        replace(SEEN, instrument=instrument, host=host)
        for instrument in ("a", "b")
        for host in ("h1", "h@2")
    ]
    for one in told:
        world.ledger.tell_pass(one)
    assert world.ledger.passes() == told
    world.ledger.forget_pass("a", "h@2")
    assert world.ledger.passes() == [told[0], *told[2:]]


@pytest.mark.parametrize("text", ["", "no JSON", '{"version": 9}', '{"version": 1}'])
@pytest.mark.parametrize("key", [PASSES, WAITING])
def test_what_no_agent_told_is_refused(ledger_url: str, key: str, text: str) -> None:
    ledger = open_ledger(LedgerSettings(url=ledger_url))
    ledger.tell_pass(SEEN)
    ledger._server.client.hset(key, "seq@beside-seq", text)
    with pytest.raises(MalformedMessage):
        ledger.passes()
