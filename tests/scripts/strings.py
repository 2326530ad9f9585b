"""Text of any length, and of a fixed one."""

import numpy as np

import terrazzo as zarr

words = np.array(["one", "", "größer", "四", "a much longer piece of text"], dtype=np.dtypes.StringDType())
z = zarr.create_array("words.zarr", shape=words.shape, dtype=str, chunks=2)
z[:] = words
assert list(zarr.open_array("words.zarr", mode="r")[:]) == list(words)
z[1] = "two"
assert z[1] == "two"

fixed = np.array(["ab", "cde"], dtype="U3")
zarr.save_array("fixed.zarr", fixed)
np.testing.assert_array_equal(zarr.load("fixed.zarr"), fixed)
