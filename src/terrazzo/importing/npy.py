"""npy: numpy's own file of one array, read where it is touched.

What it does not do: unpickle. A file of Python objects is refused, whatever it claims to be.
Specification: numpy.lib.format.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from terrazzo.errors import SourceError
from terrazzo.importing.source import Imported, mapped

__all__ = ["Npy", "open_file"]


def open_file(path: str, variable: str | None) -> Npy:
    if variable is not None:
        raise SourceError(f"{path!r}: a npy file holds one array and no name; leave {variable!r} out")
    return Npy(path)


class Npy(Imported):
    """The array of a npy file."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            try:
                version = np.lib.format.read_magic(file)
                header = (
                    np.lib.format.read_array_header_1_0(file)
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0(file)
                )
            except Exception as error:  # a hostile header raises what literal_eval and the tokenizer raise
                raise SourceError(f"{path!r} is not a whole npy file: {error}") from error
            start = file.tell()
            length = file.seek(0, 2) - start
        shape, fortran, dtype = header
        if dtype.hasobject:
            raise SourceError(
                f"{path!r} holds Python objects, which would have to be unpickled; it is not read"
            )
        count = 1
        for extent in shape:
            count *= int(extent)
        if any(extent < 0 for extent in shape) or count * dtype.itemsize > length:
            raise SourceError(
                f"{path!r} says {tuple(shape)} of {dtype}, {count * dtype.itemsize:,} bytes, and holds {length:,}: "
                "it was cut short"
            )
        super().__init__(path, shape, dtype)
        order: Literal["C", "F"] = "F" if fortran else "C"
        self._place = dtype, start, order

    def read(self, selection: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        dtype, start, order = self._place
        return mapped(self.path, dtype, start, self.shape, order, selection)
