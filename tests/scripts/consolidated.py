"""All documents of a hierarchy in one."""

import warnings

import terrazzo as zarr

group = zarr.create_group("many.zarr")
group.create_array("lat", shape=180, dtype="f4")
group.create_group("sub").create_array("x", shape=(3, 4), dtype="i2")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    zarr.consolidate_metadata("many.zarr")

found = zarr.open_consolidated("many.zarr", mode="r")
assert sorted(found) == ["lat", "sub"]
assert found["sub/x"].shape == (3, 4)
assert zarr.open_group("many.zarr", mode="r", use_consolidated=False)["lat"].shape == (180,)
assert zarr.open_group("many.zarr", mode="r")["sub"]["x"].dtype == "int16"

zarr.create_group("plain.zarr")
try:
    zarr.open_group("plain.zarr", mode="r", use_consolidated=True)
except ValueError:
    pass
else:
    raise AssertionError("consolidated metadata were used that are not there")
