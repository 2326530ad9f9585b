"""A new array like another, with other chunks and codecs."""

import numpy as np

import terrazzo as zarr

source = zarr.create_array(
    "source.zarr", data=np.arange(400).reshape(20, 20), chunks=(5, 5), attributes={"a": 1}
)
same = zarr.from_array("same.zarr", data=source)
assert same.chunks == (5, 5) and same.attrs["a"] == 1
np.testing.assert_array_equal(same[:], source[:])

sharded = zarr.from_array("sharded.zarr", data=source, shards=(20, 20), compressors=None)
assert sharded.shards == (20, 20) and sharded.chunks == (5, 5)
np.testing.assert_array_equal(sharded[3:9], source[3:9])

empty = zarr.from_array("empty.zarr", data=source, write_data=False)
assert not empty[:].any()
from_numpy = zarr.from_array("plain.zarr", data=np.ones(7))
assert from_numpy[:].sum() == 7
