"""optional: a value or none, a data type that is only proposed (see options.DRAFTS).

What it does not do: hold elements of any length. In memory an element is a record of `present` and `value`; where it is
not present its value is zero. `numpy.ma.array(a["value"], mask=~a["present"])` is the masked array of both.

https://github.com/zarr-developers/zarr-extensions/pull/33
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from terrazzo.errors import DataTypeValidationError, MetadataError
from terrazzo.metadata.data_types import registry
from terrazzo.metadata.data_types.contract import DataType, Fill, check_size, frozen_bytes, scalar
from terrazzo.metadata.problems import describe, join, refuse

__all__ = ["Optional"]

DEEPEST = 16


@dataclass(frozen=True)
class Optional(DataType):
    """A value of `data_type`, or none."""

    data_type: DataType

    names: ClassVar[tuple[str, ...]] = ("optional", "zarrs.optional")

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        at = join(path, "configuration")
        inner = {key: value for key, value in configuration.items() if key in ("name", "configuration")}
        if inner != configuration or "name" not in inner:
            sentence = (
                f"found {describe(configuration)}, must be the `name` and `configuration` of a data type"
            )
            refuse(at, sentence, DataTypeValidationError)
        if path.count(".configuration") >= DEEPEST:
            refuse(at, f"found more than {DEEPEST} levels of optional values", DataTypeValidationError)
        data_type = registry.data_type_from_json(inner, at)
        if not isinstance(data_type, Optional) and data_type.itemsize is None:
            sentence = (
                f"found {data_type.name}, whose elements differ in size; optional ones must be of one size"
            )
            refuse(join(at, "name"), sentence, DataTypeValidationError)
        check_size(data_type.numpy.itemsize + 1, path)
        return cls(data_type)

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        return None  # a record of the two would be as likely

    @property
    def name(self) -> str:
        return "optional"

    @property
    def configuration(self) -> dict[str, Any]:
        inner = self.data_type.configuration
        return {"name": self.data_type.name, "configuration": inner}

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype([("present", np.bool_), ("value", self.data_type.numpy)])

    @property
    def itemsize(self) -> int | None:
        return None  # what is not there takes no bytes

    @property
    def units(self) -> tuple[int, ...]:
        return ()

    def default_fill(self) -> Fill:
        return frozen_bytes(bytes(self.numpy.itemsize), self.numpy)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        if value is None:
            return self.default_fill()
        if not isinstance(value, list) or len(value) != 1:
            refuse(path, f"found {describe(value)}, must be null, or a list of one value")
        return self._present(self.data_type.fill_from_json(value[0], join(path, 0), strict=strict))

    def fill_to_json(self, fill: Fill) -> Any:
        if not fill["present"]:
            return None
        return [self.data_type.fill_to_json(frozen_bytes(fill["value"].tobytes(), self.data_type.numpy))]

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        if value is None or value is np.ma.masked:
            return self.default_fill()
        if isinstance(value, np.void) and value.dtype == self.numpy:
            return (
                self._present(self.data_type.cast_fill(value["value"]))
                if value["present"]
                else self.cast_fill(None)
            )
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        try:
            return self._present(self.data_type.cast_fill(value))
        except MetadataError as error:
            self.not_a_fill(value, f"None, or a value: {error}")

    def _present(self, fill: Fill) -> Fill:
        return frozen_bytes(b"\x01" + fill.tobytes(), self.numpy)
