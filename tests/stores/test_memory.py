"""The store in memory: listing stays right, and cheap, whatever comes and goes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import terrazzo
from terrazzo.stores import emulation
from terrazzo.stores.memory import MemoryStore

NAMES = st.lists(st.sampled_from(["a", "a!", "a.b", "a0", "b", "é"]), min_size=1, max_size=3).map("/".join)


@given(st.lists(st.tuples(st.booleans(), NAMES), max_size=20))
def test_listing_is_what_is_there(changes: list[tuple[bool, str]]) -> None:
    store = MemoryStore()
    for put, key in changes:
        if put:
            store.set(key, b"")
        else:
            store.erase(key)
        for prefix in ("", "a/", "a/a/", "a!/", "b/a/"):
            assert store.list_dir(prefix) == emulation.list_dir(Plain(store), prefix)
            assert sorted(store.list_prefix(prefix)) == sorted(
                k for k in store.list() if k.startswith(prefix)
            )


class Plain(terrazzo.storage.Store):
    """The same keys, listed by nothing but `list`."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    def get(self, key: str) -> bytes | None:
        return self.store.get(key)

    def list(self):  # type: ignore[no-untyped-def]
        return self.store.list()
