"""Codecs that are named by the user are taken literally."""

import numpy as np

import terrazzo as zarr
from terrazzo.codecs import BloscCodec, BytesCodec, GzipCodec, TransposeCodec, ZstdCodec

values = np.arange(10_000, dtype="i4").reshape(100, 100)
for name, compressors in {
    "zstd": ZstdCodec(level=5),
    "gzip": [GzipCodec(level=1)],
    "blosc": BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle"),
    "none": None,
    "document": {"name": "zstd", "configuration": {"level": 1, "checksum": True}},
}.items():
    z = zarr.create_array(
        f"{name}.zarr", shape=values.shape, dtype="i4", chunks=(50, 50), compressors=compressors
    )
    z[:] = values
    np.testing.assert_array_equal(zarr.open_array(f"{name}.zarr", mode="r")[:], values)
    print(name, z.compressors, z.nbytes_stored())

z = zarr.create_array(
    "turned.zarr",
    data=values,
    chunks=(20, 100),
    filters=TransposeCodec(order=(1, 0)),
    serializer=BytesCodec(endian="big"),
    compressors=None,
)
assert len(z.filters) == 1 and z.compressors == ()
np.testing.assert_array_equal(z[30:40, 5], values[30:40, 5])
