"""Codecs: what turns a chunk into bytes and back.

What it does not do: stores, arrays, or where chunks lie.
Specification: Zarr core 3.0, "Codecs"; names as registered in zarr-extensions.
"""

from terrazzo.codecs import numcodecs_arrays
from terrazzo.codecs.bitround import BitRound
from terrazzo.codecs.blosc import BloscCodec
from terrazzo.codecs.bytes import BytesCodec
from terrazzo.codecs.cast_value import CastValue
from terrazzo.codecs.chain import Chain
from terrazzo.codecs.codec import (
    ArrayArrayCodec,
    ArrayBytesCodec,
    BytesBytesCodec,
    ChunkSpec,
    Codec,
    Context,
    PartialReader,
)
from terrazzo.codecs.conditional import Conditional
from terrazzo.codecs.crc32c import Crc32cCodec
from terrazzo.codecs.gzip import GzipCodec
from terrazzo.codecs.n5 import N5DefaultCodec
from terrazzo.codecs.optional import OptionalCodec
from terrazzo.codecs.packbits import PackBits
from terrazzo.codecs.registry import (
    codec_from,
    codec_from_extension,
    codec_from_string,
    known_codecs,
    register_codec,
    register_family,
)
from terrazzo.codecs.reshape import Reshape
from terrazzo.codecs.scale_offset import ScaleOffset
from terrazzo.codecs.sharding import ShardingCodec, ShardingIndexed
from terrazzo.codecs.spellings import BloscCname, BloscShuffle, Endian, ShardingCodecIndexLocation
from terrazzo.codecs.transpose import TransposeCodec
from terrazzo.codecs.vlen import VLenBytesCodec, VLenUTF8Codec
from terrazzo.codecs.zfp import ZfpCodec
from terrazzo.codecs.zstd import ZstdCodec

__all__ = [
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "BitRound",
    "BloscCname",
    "BloscCodec",
    "BloscShuffle",
    "BytesBytesCodec",
    "BytesCodec",
    "CastValue",
    "Chain",
    "ChunkSpec",
    "Codec",
    "Conditional",
    "Context",
    "Crc32cCodec",
    "Endian",
    "GzipCodec",
    "N5DefaultCodec",
    "OptionalCodec",
    "PackBits",
    "PartialReader",
    "Reshape",
    "ScaleOffset",
    "ShardingCodec",
    "ShardingCodecIndexLocation",
    "ShardingIndexed",
    "TransposeCodec",
    "VLenBytesCodec",
    "VLenUTF8Codec",
    "ZfpCodec",
    "ZstdCodec",
    "codec_from",
    "codec_from_extension",
    "codec_from_string",
    "known_codecs",
    "register_codec",
    "register_family",
]

register_codec(BytesCodec, aliases=("endian",))
register_codec(OptionalCodec, aliases=("zarrs.optional",))
for _codec in (
    *(TransposeCodec, BitRound, CastValue, ScaleOffset, Reshape),
    *(ShardingCodec, VLenUTF8Codec, VLenBytesCodec, PackBits, ZfpCodec, N5DefaultCodec),
    *(BloscCodec, Conditional, Crc32cCodec, GzipCodec, ZstdCodec),
):
    register_codec(_codec)
register_family(numcodecs_arrays.PREFIX, numcodecs_arrays.make, numcodecs_arrays.names)
