"""A tree of groups and arrays."""

import numpy as np

import terrazzo as zarr

root = zarr.create_group(store="tree.zarr")
foo = root.create_group("foo")
bar = foo.create_group("bar")
z = bar.create_array("baz", shape=(100, 100), chunks=(10, 10), dtype="i4")
z[:] = 1

assert root["foo/bar/baz"].path == "foo/bar/baz"
assert root["foo"]["bar"].name == "/foo/bar"
assert "foo/bar" in root and "nope" not in root
assert [name for name, _ in foo.groups()] == ["bar"]
assert [name for name, _ in bar.arrays()] == ["baz"]
assert root.nmembers(max_depth=None) == 3
assert len(root) == 1 and list(root) == ["foo"]

same = root.require_group("foo/bar")
assert same == bar
again = bar.require_array("baz", shape=(100, 100), dtype="i4")
assert again[0, 0] == 1

root["scalars"] = np.arange(3)
del root["scalars"]
assert "scalars" not in root
print(root.tree())
print(root.info)
print(root.info_complete())
assert dict(root.members(max_depth=None)).keys() == {"foo", "foo/bar", "foo/bar/baz"}
