"""What an array holds where nothing was written."""

import numpy as np

import terrazzo as zarr

z = zarr.create_array("fill.zarr", shape=(6, 6), chunks=(3, 3), dtype="f4", fill_value=np.nan)
assert np.isnan(z[:]).all()
z[0, 0] = 1
assert np.isnan(zarr.open_array("fill.zarr", mode="r")[:]).sum() == 35
assert z.nchunks_initialized == 1

flags = zarr.create_array("flags.zarr", shape=4, dtype=bool, fill_value=True)
assert flags[:].all()
colours = zarr.create_array("colours.zarr", shape=2, dtype="c16", fill_value=1 + 2j)
assert colours[0] == 1 + 2j
