"""Structured values: several named fields in each element."""

import numpy as np

import terrazzo as zarr

kind = np.dtype([("id", "<i4"), ("weight", "<f8")])
values = np.array([(1, 1.5), (2, 2.5), (3, 3.5)], dtype=kind)
z = zarr.create_array("fields.zarr", shape=3, dtype=kind, chunks=2)
z[:] = values
np.testing.assert_array_equal(z[:], values)
np.testing.assert_array_equal(z[:]["weight"], values["weight"])
np.testing.assert_array_equal(z[1:]["id"], values["id"][1:])
assert zarr.open_array("fields.zarr", mode="r").dtype.names == ("id", "weight")
