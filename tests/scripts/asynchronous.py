"""The same for callers that await."""

import asyncio

import numpy as np

import terrazzo as zarr
from terrazzo.api import asynchronous


async def main() -> None:
    group = await asynchronous.open_group("later.zarr", mode="w")
    array = await group.create_array("x", shape=(100, 100), chunks=(10, 10), dtype="f4")
    await array.setitem(slice(None), np.ones((100, 100)))
    parts = await asyncio.gather(*(array.getitem((slice(i, i + 10), 0)) for i in range(0, 100, 10)))
    assert sum(float(part.sum()) for part in parts) == 100
    assert (await group.getitem("x")).shape == (100, 100)
    assert [name async for name in group.array_keys()] == ["x"]
    found = await asynchronous.open_array(store="later.zarr", path="x")
    rows = await found.oindex.getitem(([1, 5], slice(0, 3)))
    assert rows.shape == (2, 3)
    assert await group.nmembers() == 1


asyncio.run(main())
assert zarr.open_array("later.zarr", path="x", mode="r")[0, 0] == 1
