"""Settings for a block, and for one array."""

import numpy as np

import terrazzo as zarr

with zarr.config.set({"array.write_empty_chunks": True}):
    full = zarr.create_array("full.zarr", shape=(10,), chunks=(5,), dtype="i4", fill_value=0)
    full[:] = 0
assert full.nchunks_initialized == 2

sparse = zarr.create_array(
    "sparse.zarr", shape=(10,), chunks=(5,), dtype="i4", fill_value=0, config={"write_empty_chunks": False}
)
sparse[:] = 0
assert sparse.nchunks_initialized == 0
sparse[7] = 1
assert sparse.nchunks_initialized == 1
np.testing.assert_array_equal(sparse[:], [0] * 7 + [1, 0, 0])
assert zarr.config.get("array.write_empty_chunks") in (False, None)
