"""Which ledgers are held to the port? The one in memory, and the one on a real Valkey."""

import pytest

from tests.ledger_world import World, memory_world, server_world


@pytest.fixture(params=["memory", "valkey"])
def world(request: pytest.FixtureRequest) -> World:
    """An empty ledger."""
    if request.param == "memory":
        return memory_world()
    return server_world(request.getfixturevalue("ledger_url"))
