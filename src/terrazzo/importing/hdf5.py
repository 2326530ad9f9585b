"""HDF5: one dataset of a file, by its path.

What it does not do: follow links into other files, or read compound types, references and variable-length sequences.
Specification: HDF5 file format; dimension scales; read through h5py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from terrazzo.errors import SourceError
from terrazzo.importing.choice import chosen
from terrazzo.importing.source import Imported, fill_attribute, json_attributes, need

__all__ = ["Hdf5", "open_file"]

#: attributes by which HDF5 and netCDF-4 keep their own books
BOOKKEEPING = (
    *("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"),
    *("_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict", "_NCProperties", "_FillValue"),
)
#: the name netCDF-4 gives to the scale of a dimension without a variable
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"


def open_file(path: str, variable: str | None) -> Hdf5:
    return Hdf5(path, variable)


class Hdf5(Imported):
    """A dataset of an HDF5 file; `variable` is its path, as in "gt1l/heights/h_ph"."""

    def __init__(self, path: str, variable: str | None) -> None:
        self._h5py = need("h5py", "h5py", "hdf5", "reading HDF5 files")
        try:
            self._file = self._h5py.File(path, "r")
        except OSError as error:
            raise SourceError(f"{path!r} is not an HDF5 file that can be read: {error}") from error
        try:
            names = self._datasets()
            main = [name for name in names if not _is_scale(self._file[name])]
            name = chosen(path, variable, names, main, "dataset")
            self._held: Any = self._file[name]
            dtype, attributes = self._type(path, name)
            fill = self._held.attrs.get("_FillValue")
            if isinstance(fill, np.ndarray):
                fill = fill.reshape(-1)[0] if fill.size else None
            strings = dtype.kind == "T"
            if fill is not None and not strings:
                attributes["_FillValue"] = fill_attribute(fill)
            super().__init__(
                path,
                self._held.shape,
                dtype,
                variable=name,
                dimension_names=self._dimension_names(),
                attributes=attributes,
                # what was never written reads as the dataset's own fill value
                fill_value=None if strings else fill if fill is not None else self._held.fillvalue,
                chunks=self._held.chunks,
            )
        except BaseException:
            self._file.close()
            raise

    def read(self, selection: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        held = self._held.asstr("utf-8", "replace") if self.dtype.kind == "T" else self._held
        try:
            values = held[selection if self.shape else ()]
        except (OSError, ValueError, KeyError) as error:
            raise SourceError(
                f"{self.path!r}: dataset {self.variable!r} does not read at {selection}: {error}"
            ) from error
        return np.asarray(values).astype(self.dtype, copy=False)

    def close(self) -> None:
        self._file.close()

    def _datasets(self) -> list[str]:
        found: list[str] = []

        def visit(name: str, node: Any) -> None:
            if isinstance(node, self._h5py.Dataset) and node.shape is not None:
                found.append(name)

        self._file.visititems(visit)
        return found

    def _type(self, path: str, name: str) -> tuple[np.dtype[Any], dict[str, Any]]:
        """The type of the values, and the attributes with what the type adds to them."""
        attributes = json_attributes(dict(_readable(self._held.attrs)), BOOKKEEPING)
        dtype = self._held.dtype
        if self._h5py.check_string_dtype(dtype) is not None and dtype.kind == "O":
            return np.dtype(np.dtypes.StringDType()), attributes
        meanings = self._h5py.check_enum_dtype(dtype)
        if meanings is not None and dtype.kind in "iu":
            words = sorted((int(value), str(word).replace(" ", "_")) for word, value in meanings.items())
            attributes["flag_values"] = [value for value, _ in words]
            attributes["flag_meanings"] = " ".join(word for _, word in words)
            return np.dtype(dtype.str), attributes
        if dtype.kind not in "biufcSV" or dtype.names is not None or dtype.kind == "O":
            raise SourceError(
                f"{path!r}: dataset {name!r} has the type {dtype}; numbers, booleans, strings and opaque bytes "
                "can be imported"
            )
        return np.dtype(dtype.str), attributes

    def _dimension_names(self) -> list[str | None] | None:
        names: list[str | None] = []
        for dimension in self._held.dims:
            name = dimension.label or None
            if name is None and len(dimension):
                scale = dimension[0]
                given = scale.attrs.get("NAME", b"")
                words = given.decode("utf-8", "replace") if isinstance(given, bytes) else str(given)
                name = scale.name.rpartition("/")[2] if not words or words.startswith(NO_VARIABLE) else words
                name = name.rpartition("/")[2] or None
            names.append(name)
        return names if any(names) else None


def _readable(attributes: Any) -> list[tuple[str, Any]]:
    """Attributes that h5py can read; a few types of the format it cannot."""
    found = []
    for name in attributes:
        try:
            found.append((name, attributes[name]))
        except (OSError, TypeError, ValueError):
            continue
    return found


def _is_scale(dataset: Any) -> bool:
    value = dataset.attrs.get("CLASS", b"")
    return bytes(value if isinstance(value, bytes) else str(value).encode()) == b"DIMENSION_SCALE"
