"""Codecs: what turns a chunk into bytes and back.

What it does not do: stores, arrays, or where chunks lie.
Specification: Zarr core 3.0, "Codecs"; names as registered in zarr-extensions.
"""

from terrazzo.codecs.blosc import BloscCodec
from terrazzo.codecs.bytes import BytesCodec
from terrazzo.codecs.chain import Chain
from terrazzo.codecs.codec import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec, ChunkSpec, Codec, Context
from terrazzo.codecs.crc32c import Crc32cCodec
from terrazzo.codecs.gzip import GzipCodec
from terrazzo.codecs.registry import (
    codec_from,
    codec_from_extension,
    codec_from_string,
    known_codecs,
    register_codec,
    register_family,
)
from terrazzo.codecs.sharding import ShardingCodec, ShardingIndexed
from terrazzo.codecs.transpose import TransposeCodec
from terrazzo.codecs.zstd import ZstdCodec

__all__ = [
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "BloscCodec",
    "BytesBytesCodec",
    "BytesCodec",
    "Chain",
    "ChunkSpec",
    "Codec",
    "Context",
    "Crc32cCodec",
    "GzipCodec",
    "ShardingCodec",
    "ShardingIndexed",
    "TransposeCodec",
    "ZstdCodec",
    "codec_from",
    "codec_from_extension",
    "codec_from_string",
    "known_codecs",
    "register_codec",
    "register_family",
]

register_codec(BytesCodec, aliases=("endian",))
for _codec in (BloscCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec):
    register_codec(_codec)
