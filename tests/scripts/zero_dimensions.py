"""Arrays without dimensions, and without elements."""

import numpy as np

import terrazzo as zarr

z = zarr.create_array("scalar.zarr", shape=(), dtype="f8")
z[()] = 2.5
assert float(z[()]) == 2.5 and z.ndim == 0 and z.size == 1
nothing = zarr.create_array("nothing.zarr", shape=(0, 3), dtype="f8")
assert nothing[:].shape == (0, 3)
nothing.append(np.ones((2, 3)))
assert nothing[:].sum() == 6
