"""netCDF: one variable of a classic (netCDF-3) or netCDF-4 file, with its CF attributes.

What it does not do: mask or scale. Values are those of the file; scale_factor, add_offset and valid_range stay
attributes, and `_FillValue` becomes the fill value as well.
Specification: netCDF classic format and netCDF-4; CF conventions; read through netCDF4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from terrazzo.errors import SourceError
from terrazzo.importing.choice import chosen
from terrazzo.importing.source import Imported, fill_attribute, json_attributes, need

__all__ = ["NetCDF", "open_file"]


def open_file(path: str, variable: str | None) -> NetCDF:
    return NetCDF(path, variable)


class NetCDF(Imported):
    """A variable of a netCDF file; `variable` may lead through groups, as in "forecast/temperature"."""

    def __init__(self, path: str, variable: str | None) -> None:
        package = need("netCDF4", "netCDF4", "netcdf", "reading netCDF files")
        try:
            self._dataset = package.Dataset(path, "r")
        except Exception as error:
            raise SourceError(f"{path!r} is not a netCDF file that can be read: {error}") from error
        try:
            found = dict(_variables(self._dataset, ""))
            # a coordinate variable describes a dimension; where one other variable is left, that is meant
            main = [name for name, held in found.items() if held.name not in held.dimensions]
            name = chosen(path, variable, found, main, "variable")
            held = found[name]
            held.set_auto_maskandscale(False)
            held.set_auto_chartostring(False)
            strings = held.dtype is str
            if not strings and not isinstance(held.datatype, np.dtype):
                raise SourceError(
                    f"{path!r}: variable {name!r} has the user-defined type {held.datatype.name!r}, "
                    "which cannot be imported"
                )
            attributes = {key: held.getncattr(key) for key in held.ncattrs()}
            fill = attributes.pop("_FillValue", None)
            chunking = held.chunking()
            kept = json_attributes(attributes)
            if fill is not None and not strings:
                kept["_FillValue"] = fill_attribute(fill)
            super().__init__(
                path,
                held.shape,
                np.dtypes.StringDType() if strings else held.dtype,
                variable=name,
                dimension_names=held.dimensions,
                attributes=kept,
                fill_value=None if strings else fill,
                chunks=chunking if isinstance(chunking, (list, tuple)) else None,
            )
            self._held: Any = held
        except BaseException:
            self._dataset.close()
            raise

    def read(self, selection: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        try:
            values = self._held[selection if self.shape else ...]
        except Exception as error:  # the C library's RuntimeError and OSError
            raise SourceError(
                f"{self.path!r}: variable {self.variable!r} does not read at {selection}: {error}"
            ) from error
        return np.asarray(values).astype(self.dtype, copy=False)

    def close(self) -> None:
        if self._dataset.isopen():
            self._dataset.close()


def _variables(group: Any, prefix: str) -> list[tuple[str, Any]]:
    found = [(prefix + name, held) for name, held in group.variables.items()]
    for name, child in group.groups.items():
        found += _variables(child, f"{prefix}{name}/")
    return found
