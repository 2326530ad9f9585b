"""Points and spans of time."""

import numpy as np

import terrazzo as zarr

days = np.arange("2024-02-27", "2024-03-03", dtype="M8[D]")
z = zarr.create_array("days.zarr", shape=days.shape, dtype=days.dtype, chunks=3)
z[:] = days
z[0] = np.datetime64("NaT")
again = zarr.open_array("days.zarr", mode="r")
assert again.dtype == np.dtype("M8[D]")
np.testing.assert_array_equal(again[1:], days[1:])
assert np.isnat(again[0])

spans = zarr.array(np.array([1, 60, 3600], dtype="m8[s]"))
assert spans[2] == np.timedelta64(1, "h")
