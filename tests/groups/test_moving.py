"""Copying and moving: everything arrives, nothing else is touched, and what was cut short is no node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import ContainsArrayError, ContainsGroupError, ContainsNodeError, NodeNotFoundError
from terrazzo.groups import moving
from terrazzo.storage import LocalStore, MemoryStore, Store, WrapperStore


def filled(store: Any) -> terrazzo.Group:
    root = terrazzo.create_group(store, attributes={"title": "all"})
    root.create_array("b", data=np.arange(10), chunks=2, shards=4, attributes={"unit": "m"})
    root.create_group("a", attributes={"k": 1}).create_array("x", data=np.arange(4), chunks=2)
    root["a/deep/y"] = np.arange(5)
    return root


def content(group: terrazzo.Group) -> dict[str, Any]:
    return {
        path: (dict(node.attrs), node[...].tolist() if isinstance(node, terrazzo.Array) else None)
        for path, node in group.members(None)
    }


@pytest.mark.parametrize("make", [MemoryStore, dict, "local"])
def test_moving(make: Any, tmp_path: Path) -> None:
    root = filled(LocalStore(tmp_path / "m.zarr") if make == "local" else make())
    before = content(root)
    root.move("a", "far/away")
    after = content(root)
    assert after.keys() == {"b", "far", "far/away", "far/away/x", "far/away/deep", "far/away/deep/y"}
    assert after["far/away/deep/y"] == before["a/deep/y"] and after["far/away"] == before["a"]
    assert not [key for key in root.store.list() if key.startswith("a/")]
    root["far/away"].move("x", "z")
    assert root["far/away/z"][3] == 3
    root.move("b", "b")
    terrazzo.move(root.store, "/b", "c/")
    assert root["c"].attrs["unit"] == "m" and "b" not in root


def test_what_cannot_be_moved() -> None:
    root = filled(MemoryStore())
    before = content(root)
    with pytest.raises(NodeNotFoundError, match="nothing at '/nope'"):
        root.move("nope", "z")
    with pytest.raises(ContainsArrayError):
        root.move("a", "b")
    with pytest.raises(ContainsGroupError):
        root.move("b", "a")
    with pytest.raises(ValueError, match="a place below itself"):
        root.move("a", "a/b")
    with pytest.raises(ContainsArrayError, match="nothing lies below"):
        root.move("a", "b/a")
    with pytest.raises(ValueError, match="into or out of itself"):
        root.move("", "z")
    assert content(root) == before


def test_copying_as_it_is() -> None:
    source, dest = filled(MemoryStore()), terrazzo.create_group(MemoryStore())
    done = terrazzo.copy(source["b"], dest)
    assert done[:2] == (1, 0) and done.nbytes == source["b"].nbytes_stored()
    keys = [key for key in source.store.list() if key.startswith("b/")]
    assert all(source.store.get(key) == dest.store.get(key) for key in keys)
    done = terrazzo.copy(source["a"], dest, "n/m")
    assert done.copied == 4 and content(dest["n/m"]) == content(source["a"]) and dest["n/m"].attrs["k"] == 1
    assert terrazzo.copy_all(source, terrazzo.create_group({})).copied == 5


def test_copying_with_a_difference() -> None:
    source = filled({})
    dest = terrazzo.create_group({})
    terrazzo.copy(source["b"], dest, "plain", chunks=5, shards=None, compressors=None, without_attrs=True)
    assert dest["plain"].chunks == (5,) and dest["plain"].shards is None and not dest["plain"].attrs
    assert dest["plain"][:].tolist() == list(range(10))
    assert terrazzo.copy(source["a"], dest, shallow=True).copied == 2
    assert list(dest["a"]) == ["x"]
    terrazzo.copy(source["b"], dest, "bare", without_attrs=True)
    assert dest["bare"].attrs == {} and dest["bare"].metadata.codecs == source["b"].metadata.codecs


def test_what_is_there_when_copying() -> None:
    source, dest = filled({}), filled({})
    dest["b"][:] = -1
    with pytest.raises(ContainsArrayError):
        terrazzo.copy(source["b"], dest)
    assert terrazzo.copy(source["b"], dest, if_exists="skip") == (0, 1, 0)
    assert terrazzo.copy(source["b"], dest, if_exists="skip_initialized").skipped == 1
    assert dest["b"][9] == -1
    assert terrazzo.copy(source["b"], dest, if_exists="replace").copied == 1 and dest["b"][9] == 9
    with pytest.raises(ContainsGroupError):
        terrazzo.copy(source["a"], dest)
    dest["a/x"][:] = 7
    assert terrazzo.copy(source["a"], dest, if_exists="skip").skipped == 2 and dest["a/x"][0] == 7
    terrazzo.copy(source["a"], dest, if_exists="replace")
    assert dest["a/x"][0] == 0
    dest.create_array("empty", shape=10, dtype="i8", chunks=5)
    assert terrazzo.copy(source["b"], dest, "empty", if_exists="skip_initialized").copied == 1
    with pytest.raises(ValueError, match="if_exists is 'maybe'"):
        terrazzo.copy(source["b"], dest, if_exists="maybe")  # type: ignore[arg-type]


def test_counting_without_copying() -> None:
    source, dest = filled({}), terrazzo.create_group({})
    assert terrazzo.copy_all(source, dest, dry_run=True).copied == 5
    assert len(dest) == 0
    assert (
        terrazzo.copy_store(source.store, dest.store_path / "z", dry_run=True).copied > 5 and len(dest) == 0
    )


def test_what_cannot_be_copied() -> None:
    root = filled({})
    with pytest.raises(TypeError, match="needs a name"):
        terrazzo.copy(root, terrazzo.create_group({}))
    with pytest.raises(ValueError, match="onto or into itself"):
        terrazzo.copy(root["a"], root["a"], "b")
    with pytest.raises(ValueError, match="onto or into itself"):
        terrazzo.copy(root["b"], root, "b")
    assert terrazzo.copy(root["b"], root, "b2").copied == 1


def test_copying_objects() -> None:
    source = filled(MemoryStore()).store
    source.set("notes/readme.txt", b"a note")
    dest = MemoryStore()
    done = terrazzo.copy_store(source, dest)
    assert {key: dest.get(key) for key in dest.list()} == {key: source.get(key) for key in source.list()}
    assert done.copied == len(list(source.list())) and done.nbytes == sum(
        len(source.get(k) or b"") for k in source.list()
    )
    with pytest.raises(ContainsNodeError, match="nothing was copied"):
        terrazzo.copy_store(source, dest)
    assert terrazzo.copy_store(source, dest, if_exists="skip").copied == 0
    seen: list[tuple[int, int]] = []
    terrazzo.copy_store(source, MemoryStore(), source_path="b", progress=lambda *told: seen.append(told))
    assert seen[0] == (0, 4) and seen[-1] == (4, 4)
    assert terrazzo.copy_store(source, dest, if_exists="replace").skipped == 0
    part = MemoryStore()
    terrazzo.copy_store(
        source, part, source_path="a", dest_path="z", excludes=r"\bdeep\b", includes=["y/zarr"]
    )
    assert sorted(part.list()) == ["z/deep/y/zarr.json", "z/x/c/0", "z/x/c/1", "z/x/zarr.json", "z/zarr.json"]


def test_large_objects_go_in_pieces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(moving, "PIECE_NBYTES", 10)
    source = LocalStore(tmp_path / "from")
    for n in (0, 1, 9, 10, 11, 20, 57):
        source.set(f"k{n}", bytes(range(n)))
    for dest in (MemoryStore(), LocalStore(tmp_path / "to")):
        terrazzo.copy_store(source, dest)
        assert all(dest.get(f"k{n}") == bytes(range(n)) for n in (0, 1, 9, 10, 11, 20, 57))


class Breaking(WrapperStore):
    """A store that fails at the n-th commit."""

    def __init__(self, store: Store, after: int) -> None:
        super().__init__(store)
        self.left = after

    def commit(self, changes: Any, durability: Any = "fsync") -> Any:
        self.left -= 1
        if self.left < 0:
            raise OSError("no space left")
        return super().commit(changes, durability)


def test_a_copy_that_was_cut_short_is_no_node() -> None:
    source = filled(MemoryStore())
    for after in range(3):
        dest = MemoryStore()
        terrazzo.create_group(dest)
        with pytest.raises(OSError, match="no space"):
            terrazzo.copy(source["b"], terrazzo.open_group(Breaking(dest, after)))
        assert "b" not in terrazzo.open_group(dest)


def test_a_move_that_was_cut_short_leaves_the_source_whole() -> None:
    for after in range(12):
        store = MemoryStore()
        before = content(filled(store))
        try:
            terrazzo.move(terrazzo.open_group(Breaking(store, after)), "a", "z")
        except OSError:
            found = content(terrazzo.open_group(store))
            for path in ("a", "a/x", "a/deep/y"):
                assert found.get(path) == before[path] or found["z" + path[1:]] == before[path]
            continue
        break
    else:
        raise AssertionError("the move never came to its end")


def test_what_an_earlier_attempt_left_is_replaced() -> None:
    source = filled(MemoryStore())
    dest = MemoryStore()
    terrazzo.create_array(dest, name="b", shape=100, dtype="i8", chunks=2, shards=4)[:] = 9
    dest.erase("b/zarr.json")
    terrazzo.copy(source["b"], dest)
    copied = terrazzo.open_array(dest, path="b")
    assert copied[:].tolist() == list(range(10)) and copied.nshards_initialized == 3
    copied.resize(100)
    assert not copied[10:].any()


def test_a_move_may_be_repeated_but_lays_nothing_over_others() -> None:
    root = filled(MemoryStore())
    root.store.set("z/x/c/0", root.store.get("a/x/c/0") or b"")
    root.move("a", "z")
    assert root["z/x"][:].tolist() == [0, 1, 2, 3]
    root.store.set("y/other", b"?")
    with pytest.raises(ContainsNodeError, match="'y/other' is stored there"):
        root.move("z", "y")
    assert root["z/x"][3] == 3
