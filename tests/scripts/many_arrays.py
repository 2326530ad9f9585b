"""A hierarchy of many nodes, walked."""

import terrazzo as zarr

root = zarr.create_group("walk.zarr")
for year in range(2020, 2024):
    group = root.create_group(str(year))
    for month in ("01", "02"):
        group.zeros(name=month, shape=(31, 24), chunks=(31, 24), dtype="f4")

assert root.nmembers() == 4 and root.nmembers(max_depth=None) == 12
arrays = [path for path, node in root.members(max_depth=None) if isinstance(node, zarr.Array)]
assert len(arrays) == 8 and "2021/02" in arrays
assert sorted(root.group_keys()) == ["2020", "2021", "2022", "2023"]
assert root["2020"].ones(name="extra", shape=3)[:].sum() == 3
assert list(root["2020"].array_keys()).count("extra") == 1
assert len(root.require_groups("2030", "2031")) == 2
del root["2021"]
assert "2021/02" not in root
