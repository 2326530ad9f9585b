"""The faces for callers that await: same answers, no blocking, every name."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.api import asynchronous, synchronous
from terrazzo.errors import GroupNotFoundError, ReadOnlyError


def test_every_function_has_its_twin() -> None:
    for name in synchronous.__all__:
        if name == "print_debug_info":
            continue
        twin = getattr(asynchronous, name)
        assert inspect.iscoroutinefunction(twin)
        assert inspect.signature(twin) == inspect.signature(getattr(synchronous, name))


def test_selections_are_those_of_the_array() -> None:
    data = np.arange(600).reshape(20, 30)
    array = terrazzo.create_array(None, data=data, chunks=(5, 5), shards=(10, 10))
    face = array.async_array

    async def main() -> None:
        np.testing.assert_array_equal(await face.getitem((slice(3, 15), -1)), data[3:15, -1])
        assert await face.getitem((2, 3)) == data[2, 3]
        np.testing.assert_array_equal(
            await face.oindex.getitem(([1, 5], [2, 3])), data[np.ix_([1, 5], [2, 3])]
        )
        np.testing.assert_array_equal(await face.vindex.getitem(([1, 5], [2, 3])), data[[1, 5], [2, 3]])
        mask = data % 7 == 0
        np.testing.assert_array_equal(await face.vindex.getitem(mask), data[mask])
        np.testing.assert_array_equal(await face.blocks.getitem((1, 0)), data[10:, :10])
        out = np.empty((2, 30), data.dtype)
        assert await face.get_basic_selection(slice(0, 2), out=out) is out
        np.testing.assert_array_equal(out, data[:2])
        np.testing.assert_array_equal(await face.get_mask_selection(mask), data[mask])
        np.testing.assert_array_equal(await face.get_coordinate_selection(([1], [2])), [data[1, 2]])
        np.testing.assert_array_equal(await face.get_orthogonal_selection((0, [1, 2])), data[0, [1, 2]])
        np.testing.assert_array_equal(await face.get_block_selection((0, 0)), data[:10, :10])
        await face.setitem((slice(0, 2), slice(None)), 0)
        await face.oindex.setitem(([4], [5]), -1)
        await face.vindex.setitem(([4], [6]), -2)
        await face.blocks.setitem((1, 2), 9)
        assert array[4, 5:7].tolist() == [-1, -2] and array[12, 25] == 9 and not array[:2].any()

    asyncio.run(main())


def test_what_changes_an_array() -> None:
    async def main() -> None:
        array = await asynchronous.create_array(None, shape=4, dtype="i4", chunks=2)
        assert await array.append(np.ones(3, "i4")) == (7,)
        assert await array.nchunks_initialized() == await array.nshards_initialized() == 2
        await array.resize(5)
        assert array.shape == (5,) and await array.nbytes_stored() > 0
        assert (await array.update_attributes({"a": 1})).attrs["a"] == 1
        assert (await array.info_complete())["Shape"] == (5,)
        assert array.dtype == "i4" and array.chunks == (2,) and "AsyncArray" in repr(array)
        again = await terrazzo.AsyncArray.open(array.store_path)
        assert again == array and again.array == array.array
        for name in ("nope", "_cache", "append_all"):
            with pytest.raises(AttributeError):
                getattr(array, name)

    asyncio.run(main())


def test_fields() -> None:
    async def main() -> None:
        kind = [("a", "i4"), ("b", "f8")]
        array = await asynchronous.create_array(None, shape=3, dtype=kind, chunks=2)
        await array.setitem("b", [1.5, 2.5, 3.5])
        assert (await array.getitem("b")).tolist() == [1.5, 2.5, 3.5]
        assert (await array.getitem("a")).tolist() == [0, 0, 0]

    asyncio.run(main())


def test_groups() -> None:
    async def main() -> None:
        root = await asynchronous.open_group({}, attributes={"t": 1})
        assert root.attrs["t"] == 1 and "AsyncGroup" in repr(root) and root == terrazzo.AsyncGroup(root.group)
        await root.setitem("a/x", np.arange(3))
        x = await root.getitem("a/x")
        assert isinstance(x, terrazzo.AsyncArray) and (await x.getitem(...)).tolist() == [0, 1, 2]
        assert isinstance(await root.getitem("a"), terrazzo.AsyncGroup)
        assert await root.contains("a") and await root.get("zz", 5) == 5
        assert (await root.get_array("a/x")).shape == (3,) and (await root.get_group("a")).path == "a"
        await root.require_group("b")
        assert [group.path for group in await root.require_groups("c", "d")] == ["c", "d"]
        assert (await root.require_array("y", shape=2, dtype="i4")).shape == (2,)
        for make in (root.zeros, root.ones, root.empty):
            await make(name=f"by/{make.__name__}", shape=2)
        await root.full(name="by/full", shape=2, fill_value=3)
        for make in (root.zeros_like, root.ones_like, root.empty_like):
            await make(name=f"by/{make.__name__}", data=np.ones(2))
        await root.full_like(name="by/full_like", data=np.ones(2), fill_value=3)
        assert await (await root.get_group("by")).nmembers() == 8
        await root.delitem("by")
        assert [name async for name in root.keys()] == ["a", "b", "c", "d", "y"]
        assert [name async for name in root.array_keys()] == ["y"]
        assert [name async for name in root.group_keys()] == ["a", "b", "c", "d"]
        assert [array.path async for array in root.array_values()] == ["y"]
        assert [type(group) async for group in root.group_values()] == [terrazzo.AsyncGroup] * 4
        assert [name async for name, _ in root.groups()] == ["a", "b", "c", "d"]
        assert [(name, type(array)) async for name, array in root.arrays()] == [("y", terrazzo.AsyncArray)]
        assert [path async for path, _ in root.members(None)] == ["a", "b", "c", "d", "y", "a/x"]
        await root.move("a", "e")
        assert "x" in str(await root.tree()) and (await root.info_complete())["No. arrays"] == 2
        assert [path async for path, _ in root.create_hierarchy({"h": root.metadata})] == ["h"]
        await root.update_attributes({"u": 2})
        assert (await terrazzo.AsyncGroup.open(root.store_path)).attrs == {"t": 1, "u": 2}
        assert (await terrazzo.AsyncGroup.from_store({})).path == ""
        with pytest.raises(AttributeError, match=r"the Group itself is at \.group"):
            root.__getattr__("walk")

    asyncio.run(main())


def test_functions_take_and_give_either_face() -> None:
    async def main() -> None:
        source = await asynchronous.array(np.arange(4))
        copied = await asynchronous.from_array(None, data=source)
        assert (await copied.getitem(...)).tolist() == [0, 1, 2, 3]
        root = await asynchronous.group({})
        assert (await asynchronous.copy(source, root, "x")).copied == 1
        store: dict[str, Any] = {}
        await asynchronous.save(store, np.arange(3))
        assert (await asynchronous.load(store)).tolist() == [0, 1, 2]
        assert (await asynchronous.open(store, mode="r")).read_only
        assert [
            path for path, _ in await asynchronous.create_hierarchy(store={}, nodes={"a": root.metadata})
        ] == ["", "a"]
        with pytest.raises(GroupNotFoundError):
            await asynchronous.open_group({}, mode="r")
        with pytest.raises(ReadOnlyError):
            await (await asynchronous.open_array(store, mode="r")).setitem(0, 1)

    asyncio.run(main())


def test_many_at_once_do_not_wait_for_each_other() -> None:
    async def main() -> None:
        array = await asynchronous.zeros((64, 64), dtype="i4", chunks=(8, 8), shards=(32, 32))
        writes = [array.setitem((slice(i, i + 8), slice(None)), i) for i in range(0, 64, 8)]
        await asyncio.gather(*writes)  # several rows of chunks share a shard: none may be lost
        assert (await array.getitem((slice(None), 0))).tolist() == [i // 8 * 8 for i in range(64)]

    asyncio.run(main())


def test_settings_of_the_task_are_used() -> None:
    async def main() -> None:
        with terrazzo.config.set({"durability": "none"}):
            array = await asynchronous.create_array({}, shape=1, dtype="i4")
        assert array.options.durability == "none"

    asyncio.run(main())
