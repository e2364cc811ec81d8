"""Does the breaking wrapper break where it is told to?"""

import pytest

from labferry.errors import StoreError
from labferry.s3.checksum import crc64nvme
from tests.memory_store import Breaking, Died, MemoryStore


def put(store: Breaking, key: str) -> None:
    store.put_absent(key, b"x", crc64nvme(b"x"), "t")


def test_nothing_breaks_unless_told_and_calls_are_counted() -> None:
    store = Breaking(MemoryStore())
    put(store, "a")
    store.find_object("a")
    assert store.calls == ["put_absent", "find_object"]


def test_death_before_the_effect_leaves_none() -> None:
    memory = MemoryStore()
    with pytest.raises(Died):
        put(Breaking(memory, 1, "before"), "a")
    assert memory.objects == {}


def test_death_after_the_effect_leaves_it() -> None:
    memory = MemoryStore()
    with pytest.raises(Died):
        put(Breaking(memory, 1, "after"), "a")
    assert set(memory.objects) == {"a"}


def test_the_dead_stay_dead() -> None:
    store = Breaking(MemoryStore(), 1)
    for _ in range(2):
        with pytest.raises(Died):
            put(store, "a")


def test_the_nth_call_of_one_method_breaks_once_with_the_given_error() -> None:
    lost = StoreError(operation="PutObject", key="b", code="ConnectionClosedError")
    store = Breaking(MemoryStore(), 2, "after", method="put_absent", error=lost)
    put(store, "a")
    store.find_object("a")
    with pytest.raises(StoreError):
        put(store, "b")
    put(store, "c")
    assert store.find_object("b") is not None
