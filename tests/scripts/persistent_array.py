"""The modes of opening: w, r, r+, a."""

import numpy as np

import terrazzo as zarr

z1 = zarr.open("modes.zarr", mode="w", shape=(20, 20), chunks=(10, 10), dtype="i4")
z1[:] = 42

z2 = zarr.open("modes.zarr", mode="r")
assert (z2[:] == 42).all()
try:
    z2[0, 0] = 1
except (PermissionError, ValueError):
    pass
else:
    raise AssertionError("an array that was opened for reading was written to")

z3 = zarr.open("modes.zarr", mode="r+")
z3[0, 0] = 1
assert zarr.open_array("modes.zarr", mode="a")[0, 0] == 1

try:
    zarr.open_array("nowhere.zarr", mode="r")
except FileNotFoundError:
    pass
else:
    raise AssertionError("an array that is not there was opened")

np.testing.assert_array_equal(z2[0, :3], [1, 42, 42])
