"""Many chunks in one object."""

import numpy as np

import terrazzo as zarr

a = zarr.create_array("shards.zarr", shape=(400, 400), shards=(200, 200), chunks=(20, 20), dtype="u1")
assert a.shards == (200, 200) and a.chunks == (20, 20)
a[:] = (np.arange(160_000) % 251).astype("u1").reshape(400, 400)
a[37:141, 3] = 9
assert a[100, 3] == 9
print(a.info_complete())

b = zarr.open_array("shards.zarr", mode="r")
np.testing.assert_array_equal(a[190:210, 190:210], b[190:210, 190:210])
assert b.nchunks == 400
assert b.blocks[0, 0].shape[0] in (20, 200)
