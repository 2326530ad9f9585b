"""Selections beyond slices."""

import numpy as np

import terrazzo as zarr

data = np.arange(600).reshape(20, 30)
z = zarr.array(data, chunks=(7, 8))

np.testing.assert_array_equal(z[3:15:4, ::7], data[3:15:4, ::7])
np.testing.assert_array_equal(z[-1], data[-1])
np.testing.assert_array_equal(z[..., 2], data[..., 2])
np.testing.assert_array_equal(z.vindex[[1, 4, 19], [0, 29, 5]], data[[1, 4, 19], [0, 29, 5]])
np.testing.assert_array_equal(z.oindex[[1, 4, 4], [0, 29]], data[np.ix_([1, 4, 4], [0, 29])])
np.testing.assert_array_equal(z.oindex[5, [0, 29]], data[5, [0, 29]])
mask = data % 11 == 0
np.testing.assert_array_equal(z.vindex[mask], data[mask])
np.testing.assert_array_equal(z.get_mask_selection(mask), data[mask])
rows = np.zeros(20, bool)
rows[[2, 3, 11]] = True
np.testing.assert_array_equal(z.get_orthogonal_selection((rows, slice(4, 9))), data[rows, 4:9])
np.testing.assert_array_equal(z.blocks[1, 2], data[7:14, 16:24])
np.testing.assert_array_equal(z.get_basic_selection((slice(2, 4), 3)), data[2:4, 3])

z.vindex[[0, 1], [0, 1]] = [-1, -2]
z.oindex[[5, 6], [7, 8, 9]] = 100
z.set_coordinate_selection(([10, 11], [12, 13]), 200)
z.set_mask_selection(mask, 0)
data[[0, 1], [0, 1]] = [-1, -2]
data[np.ix_([5, 6], [7, 8, 9])] = 100
data[[10, 11], [12, 13]] = 200
data[mask] = 0
np.testing.assert_array_equal(z[:], data)

try:
    z[40]
except IndexError:
    pass
else:
    raise AssertionError("an index outside the array was read")
