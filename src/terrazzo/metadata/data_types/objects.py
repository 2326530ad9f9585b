"""Python objects of any kind, as Zarr 2 stores them: `|O` with json2, msgpack2, vlen-array or pickle.

What it does not do: appear in documents of Zarr 3, which has no such data type. Text and bytes among objects are
`string` and `bytes`.

https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#data-type-encoding
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from terrazzo.metadata.data_types.contract import DataType, Fill, only_members

__all__ = ["Objects"]


@dataclass(frozen=True)
class Objects(DataType):
    """Anything; what JSON says is the fill value."""

    names: ClassVar[tuple[str, ...]] = ("terrazzo.objects",)

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        only_members(configuration, (), path, name)
        return cls()

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        return None  # an array of objects does not say what they are

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(object)

    @property
    def itemsize(self) -> int | None:
        return None

    @property
    def units(self) -> tuple[int, ...]:
        return ()

    def default_fill(self) -> Fill:
        return self.cast_fill(None)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        return self.cast_fill(value)

    def fill_to_json(self, fill: Fill) -> Any:
        return fill[()]

    def cast_fill(self, value: object) -> Fill:
        fill = np.empty((), object)
        fill[()] = value
        fill.setflags(write=False)
        return fill
