"""Points in time and spans of it, as numpy counts them.

What it does not do: calendars or time zones. An element is an int64; its least value is "not a time".

https://github.com/zarr-developers/zarr-extensions/tree/main/data-types/numpy.datetime64
https://github.com/zarr-developers/zarr-extensions/tree/main/data-types/numpy.timedelta64
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from terrazzo.errors import DataTypeValidationError
from terrazzo.metadata.data_types.contract import DataType, Fill, frozen, only_members, scalar
from terrazzo.metadata.data_types.numeric import integer_from_json
from terrazzo.metadata.problems import describe, join, refuse

__all__ = ["NumpyTime"]

UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic")
MICRO = {"\u03bcs": "us", "\u00b5s": "us"}
NAT = -(1 << 63)


@dataclass(frozen=True)
class NumpyTime(DataType):
    """A point in time (datetime64) or a span of it (timedelta64), counted in `scale` times `unit`."""

    kind: Literal["datetime64", "timedelta64"]
    unit: str
    scale: int = 1

    names: ClassVar[tuple[str, ...]] = ("numpy.datetime64", "numpy.timedelta64")

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        only_members(configuration, ("unit", "scale_factor"), path, name)
        at = join(path, "configuration")
        unit, scale = configuration["unit"], configuration["scale_factor"]
        if not isinstance(unit, str) or MICRO.get(unit, unit) not in UNITS:
            refuse(
                join(at, "unit"),
                f"found {describe(unit)}, must be one of {', '.join(UNITS)}",
                DataTypeValidationError,
            )
        if isinstance(scale, bool) or not isinstance(scale, int) or not 1 <= scale < 1 << 31:
            sentence = f"found {describe(scale)}, must be an integer from 1 to {(1 << 31) - 1}"
            refuse(join(at, "scale_factor"), sentence, DataTypeValidationError)
        unit = MICRO.get(unit, unit)
        if unit == "generic" and scale != 1:
            sentence = f"found {scale}, must be 1 for the generic unit"
            refuse(join(at, "scale_factor"), sentence, DataTypeValidationError)
        return cls("datetime64" if name == "numpy.datetime64" else "timedelta64", unit, scale)

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        if dtype.kind not in "mM":
            return None
        unit, scale = np.datetime_data(dtype)
        return cls("datetime64" if dtype.kind == "M" else "timedelta64", unit, scale)

    @property
    def name(self) -> str:
        return f"numpy.{self.kind}"

    @property
    def configuration(self) -> dict[str, Any]:
        return {"unit": self.unit, "scale_factor": self.scale}

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.kind if self.unit == "generic" else f"{self.kind}[{self.scale}{self.unit}]")

    @property
    def units(self) -> tuple[int, ...]:
        return (8,)

    def default_fill(self) -> Fill:
        return self._fill(NAT)

    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        if value == "NaT":
            return self._fill(NAT)
        if isinstance(value, str):
            refuse(path, f'found {describe(value)}, must be an integer of 64 bits or "NaT"')
        return self._fill(integer_from_json(value, path, 64, True))

    def fill_to_json(self, fill: Fill) -> int | str:
        count = int(fill.view(np.int64)[()])
        return "NaT" if count == NAT else count

    def cast_fill(self, value: object) -> Fill:
        value = scalar(value)
        fill = None
        if isinstance(value, str | datetime.date | datetime.timedelta | np.datetime64 | np.timedelta64):
            fill = self._cast(value)
        elif (
            isinstance(value, int | np.integer)
            and not isinstance(value, bool)
            and NAT <= int(value) < 1 << 63
        ):
            fill = self._fill(int(value))
        if fill is None:
            self.not_a_fill(value, self._allowed())
        return fill

    def _cast(self, value: Any) -> Fill | None:
        """A time of another unit, where no part of it is lost."""
        make: Any = np.datetime64 if self.kind == "datetime64" else np.timedelta64
        if isinstance(value, str) and self.kind == "timedelta64" and value != "NaT":
            return None
        if getattr(value, "tzinfo", None) is not None:
            return None
        try:
            exact = make(value)
            cast = exact.astype(self.numpy)
            same = bool(np.isnat(exact)) or bool(cast.astype(exact.dtype) == exact)
        except (TypeError, ValueError, OverflowError):
            return None
        return self._fill(int(cast.astype(np.int64))) if same else None

    def _fill(self, count: int) -> Fill:
        return frozen(np.int64(count), np.dtype(np.int64)).view(self.numpy)

    def _allowed(self) -> str:
        return f'a {self.kind} that counts whole steps of {self.scale} {self.unit}, an integer of 64 bits, or "NaT"'
