"""Nodes opened by path, straight from the store."""

import terrazzo as zarr

zarr.create_array("deep.zarr", name="a/b/c", shape=(5,), dtype="u2", chunks=(5,))
assert sorted(zarr.open_group("deep.zarr", mode="r").members(max_depth=None))[0][0] == "a"
assert zarr.open_array("deep.zarr", path="a/b/c").shape == (5,)
assert zarr.open("deep.zarr", path="a/b", mode="r").path == "a/b"
assert zarr.open_group("deep.zarr", path="a", mode="r").get("b/c").dtype == "uint16"
assert zarr.open_group("deep.zarr", mode="r").get("b/c", "absent") == "absent"

try:
    zarr.create_array("deep.zarr", name="a/b/c/d", shape=(1,), dtype="u1")
except ValueError:
    pass
else:
    raise AssertionError("a node was made below an array")
