"""crc32c: the bytes, and behind them their CRC-32C (RFC 3720) in little-endian order.

What it does not do: mend.
Specification: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/crc32c/index.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from terrazzo.codecs.codec import Step
from terrazzo.codecs.configuration import from_members
from terrazzo.codecs.native import NativeCodec

__all__ = ["Crc32cCodec"]

CRC_NBYTES = 4


@dataclass(frozen=True, eq=False)
class Crc32cCodec(NativeCodec):
    """A checksum that is verified whenever a chunk is decoded."""

    name = "crc32c"
    checksums = True

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return from_members(cls, configuration, path)

    def configuration(self) -> dict[str, Any]:
        return {}

    def encoded_nbytes(self, nbytes: int) -> int:
        return nbytes + CRC_NBYTES

    def step(self) -> Step:
        return ("crc32c",)
