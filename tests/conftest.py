"""Fixtures of all tests, and what hypothesis draws."""

import signal

from hypothesis import settings

from tests.services import broker_url, ledger_url, store_settings, valkey, weed

__all__ = ["broker_url", "ledger_url", "store_settings", "valkey", "weed"]

# A shell's background job, and all it starts, would not hear Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

#: `make test` draws the same examples every time, so that it fails over a change and nothing else;
#: `make explore` draws others.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("fixed")
