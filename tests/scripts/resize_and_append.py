"""Arrays that grow and shrink."""

import numpy as np

import terrazzo as zarr

z = zarr.create_array(
    "grow.zarr", shape=(100, 10), dtype="i4", chunks=(30, 10), shards=(60, 10), fill_value=-1
)
z[:] = 7
z.resize((150, 10))
assert z.shape == (150, 10)
assert (z[100:] == -1).all() and (z[:100] == 7).all()

shape = z.append(np.full((20, 10), 5))
assert tuple(shape) == (170, 10) or z.shape == (170, 10)
assert (z[150:] == 5).all()
z.append(np.zeros((170, 2)), axis=1)
assert z.shape == (170, 12)

z.resize((10, 12))
z.shape = (20, 12)
assert zarr.open_array("grow.zarr", mode="r").shape == (20, 12)
assert (z[:10, :10] == 7).all()
