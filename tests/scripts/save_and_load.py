"""numpy arrays to disk and back in one call."""

import numpy as np

import terrazzo as zarr

values = np.arange(1000).reshape(10, 100)
zarr.save("one.zarr", values)
np.testing.assert_array_equal(zarr.load("one.zarr"), values)

zarr.save("several.zarr", values, times=np.arange(10.0))
group = zarr.open("several.zarr", mode="r")
assert sorted(group.array_keys()) == ["arr_0", "times"]
np.testing.assert_array_equal(group["arr_0"][:], values)

zarr.save_array("third.zarr", values)
zarr.save_group("fourth.zarr", a=values, b=values + 1)
assert zarr.open_group("fourth.zarr", mode="r")["b"][0, 0] == 1
