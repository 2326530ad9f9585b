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
from terrazzo.metadata.problems import describe, refuse

__all__ = ["OBJECTS_REFUSED", "Objects"]

OBJECTS_REFUSED = (
    "Python objects of any kind have no data type in Zarr 3; where all are text or all are bytes, read them and write "
    'them as "string" or "bytes"'
)


@dataclass(frozen=True)
class Objects(DataType):
    """Anything; the fill value is a number, a text, a bool or None."""

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
        if not isinstance(value, str | int | float | bool | None):
            refuse(path, f"found {describe(value)}, must be a number, a text, true, false or null")
        return self.cast_fill(value)

    def fill_to_json(self, fill: Fill) -> Any:
        return fill[()]

    def cast_fill(self, value: object) -> Fill:
        fill = np.empty((), object)
        fill[()] = value
        fill.setflags(write=False)
        return fill
