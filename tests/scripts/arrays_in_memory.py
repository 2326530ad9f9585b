"""Arrays without a place on disk, filled in the usual ways."""

import numpy as np

import terrazzo as zarr

z = zarr.zeros((1000, 1000), chunks=(100, 100), dtype="i4")
z[:] = 42
z[0, :] = np.arange(1000)
z[:, 0] = np.arange(1000)
assert z[0, 0] == 0 and z[-1, -1] == 42
np.testing.assert_array_equal(z[0, :], np.arange(1000))

assert zarr.ones(3)[:].sum() == 3
assert (zarr.full((2, 2), 7, dtype="u1")[:] == 7).all()
assert zarr.empty((2, 3)).shape == (2, 3)

copied = zarr.array(np.arange(12).reshape(3, 4), chunks=(2, 2))
assert copied.chunks == (2, 2)
assert zarr.zeros_like(copied).shape == copied.shape
assert zarr.full_like(copied, fill_value=5)[1, 1] == 5
