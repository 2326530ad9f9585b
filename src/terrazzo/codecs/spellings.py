"""The words that settings of codecs may have, as enumerations with zarr-python's names.

What it does not do: check settings; a plain text says the same, and every member is one.
Specification: the pages of `blosc`, `bytes` and `sharding_indexed`.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["BloscCname", "BloscShuffle", "Endian", "ShardingCodecIndexLocation"]


class BloscCname(StrEnum):
    """What compresses inside of blosc.

    >>> BloscCname.zstd == "zstd"
    True
    """

    lz4 = "lz4"
    lz4hc = "lz4hc"
    blosclz = "blosclz"
    snappy = "snappy"
    zlib = "zlib"
    zstd = "zstd"


class BloscShuffle(StrEnum):
    """How blosc orders bytes or bits before it compresses."""

    noshuffle = "noshuffle"
    shuffle = "shuffle"
    bitshuffle = "bitshuffle"


class Endian(StrEnum):
    """The order of an element's bytes."""

    big = "big"
    little = "little"


class ShardingCodecIndexLocation(StrEnum):
    """Where a shard has its index."""

    start = "start"
    end = "end"
