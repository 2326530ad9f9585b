"""zstd: the format of RFC 8878.

What it does not do: dictionaries.
Specification: https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/zstd
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from terrazzo.codecs.codec import Step
from terrazzo.codecs.configuration import boolean, from_members, integer
from terrazzo.codecs.native import NativeCodec

__all__ = ["ZstdCodec"]


@dataclass(frozen=True, eq=False)
class ZstdCodec(NativeCodec):
    """Zstandard. level: -131072 (fastest) to 22 (smallest), 0 is the library's default; checksum: of the content."""

    level: int = 0
    checksum: bool = False

    name = "zstd"
    spelling = ("level", "checksum")

    def __post_init__(self) -> None:
        object.__setattr__(self, "level", integer(self.level, "level", -131072, 22))
        object.__setattr__(self, "checksum", boolean(self.checksum, "checksum"))
        object.__setattr__(self, "checksums", self.checksum)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], path: str) -> Self:
        return from_members(cls, configuration, path, ("level",), ("checksum",))

    def configuration(self) -> dict[str, Any]:
        # `checksum` is always written, as zarr-python writes it: some of its versions ask for it
        return {"level": self.level, "checksum": self.checksum}

    def step(self) -> Step:
        return ("zstd", self.level, self.checksum)
