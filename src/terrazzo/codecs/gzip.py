"""gzip: the format of RFC 1952.

What it does not do: seek; a chunk is one stream (or several, one behind the other).
Specification: https://zarr-specs.readthedocs.io/en/latest/v3/codecs/gzip/index.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from terrazzo.codecs.codec import Step
from terrazzo.codecs.configuration import from_members, integer
from terrazzo.codecs.native import NativeCodec

__all__ = ["GzipCodec"]


@dataclass(frozen=True, eq=False)
class GzipCodec(NativeCodec):
    """gzip. level: 0 (stored as it is) to 9 (smallest)."""

    level: int = 5

    name = "gzip"
    spelling = ("level",)
    checksums = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", integer(self.level, "level", 0, 9))

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return from_members(cls, configuration, path, ("level",))

    def configuration(self) -> dict[str, Any]:
        return {"level": self.level}

    def step(self) -> Step:
        return ("gzip", self.level)
