"""A process that reads so many bytes under the limits on record, once all others are ready.

Usage: python -m tests.limited_reader LEDGER_URL READERS BYTES. Prints when it began and ended.
"""

import sys

import redis

from labferry.clock import SystemClock
from labferry.ledger import open_ledger
from labferry.settings import LedgerSettings
from workers.bandwidth import Bandwidth

READY = "test:ready"


def main(url: str, readers: int, size: int) -> None:
    ledger, clock = open_ledger(LedgerSettings(url=url)), SystemClock()
    allowance = Bandwidth(ledger, {}, clock).of("seq")
    with redis.Redis.from_url(url) as client:
        client.incr(READY)
        while int(client.get(READY) or 0) < readers:
            clock.sleep_s(0.01)
    began_ms = ledger.now_ms()
    while size > 0:
        size -= allowance.take(size)
    print(began_ms, ledger.now_ms())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
