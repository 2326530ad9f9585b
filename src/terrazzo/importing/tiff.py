"""TIFF: one series of pages, read by the tiles or strips that a selection touches.

What it does not do: read pyramids as groups (one level is one array), or interpret OME-XML and GeoTIFF keys; their text
stays in the attributes.
Specification: TIFF 6.0 and BigTIFF; read through tifffile (compressions beyond deflate and LZMA need imagecodecs).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from terrazzo.errors import SourceError
from terrazzo.importing.source import Imported, mapped, need

__all__ = ["Tiff", "open_file"]

#: tifffile's letters for axes, as words
AXES = {"X": "x", "Y": "y", "Z": "z", "T": "t", "C": "c", "S": "sample", "R": "r", "P": "position"}


def open_file(path: str, variable: str | None) -> Tiff:
    return Tiff(path, variable)


class Tiff(Imported):
    """A series of a TIFF file; `variable` is its number, or "number.level" inside a pyramid. The first is default."""

    def __init__(self, path: str, variable: str | None) -> None:
        tifffile = need("tifffile", "tifffile", "tiff", "reading TIFF files")
        try:
            self._file = tifffile.TiffFile(path)
        except Exception as error:  # tifffile raises struct's, zlib's and its own errors
            raise SourceError(f"{path!r} is not a TIFF file that can be read: {error}") from error
        try:
            self._series = self._chosen(path, variable)
            shape, axes = self._series.shape, self._series.axes
            page = self._series.keyframe
            if self._series.dtype is None:
                raise SourceError(f"{path!r}: the samples of this series have several types or none")
            chunks: tuple[int, ...] | None = None
            if page.ndim <= len(shape) and tuple(page.shape) == tuple(shape[len(shape) - page.ndim :]):
                chunks = (1,) * (len(shape) - len(page.chunks)) + tuple(page.chunks)
            attributes: dict[str, Any] = {"tiff": {"axes": axes}}
            if page.description:
                attributes["tiff"]["description"] = page.description[:65536]
            super().__init__(
                path,
                shape,
                self._series.dtype,
                variable=variable,
                dimension_names=[AXES.get(letter) for letter in axes],
                attributes=attributes,
                fill_value=page.nodata if page.nodata else None,
                chunks=chunks,
            )
            self._whole = self._piece()
        except SourceError:
            self._file.close()
            raise
        except Exception as error:
            self._file.close()
            raise SourceError(f"{path!r} is not a TIFF file that can be read: {error}") from error

    def _chosen(self, path: str, variable: str | None) -> Any:
        series = self._file.series
        if not series:
            raise SourceError(f"{path!r} holds no images")
        number, _, level = (variable or "0").partition(".")
        if not number.isdigit() or (level and not level.isdigit()):
            raise SourceError(
                f"{path!r}: {variable!r} is not the number of a series, as in 0, or 0.2 for a level of it"
            )
        if int(number) >= len(series):
            raise SourceError(
                f"{path!r} has {len(series)} series, 0 to {len(series) - 1}; there is no {number}"
            )
        levels = series[int(number)].levels
        if int(level or 0) >= len(levels):
            raise SourceError(f"{path!r}: series {number} has {len(levels)} levels; there is no {level}")
        return levels[int(level or 0)]

    def _piece(self) -> tuple[np.dtype[Any], int] | None:
        """Type and offset of the whole series, where it lies in the file in one uncompressed piece."""
        offset = self._series.dataoffset
        if offset is None or not self._series.size:
            return None
        return self._series.dtype.newbyteorder(self._file.byteorder), int(offset)

    def read(self, selection: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        if self._whole is not None:
            return mapped(self.path, *self._whole, self.shape, "C", selection)
        shape = tuple(s.stop - s.start for s in selection)
        out = np.empty(shape, self.dtype)
        if not out.size:
            return out
        ndim = self._series.keyframe.ndim
        lead = len(selection) - ndim
        try:
            for place in product(*(range(s.start, s.stop) for s in selection[:lead])):
                number = int(np.ravel_multi_index(place, self.shape[:lead])) if lead else 0
                target = out[tuple(p - s.start for p, s in zip(place, selection, strict=False))]
                self._read_page(number, selection[lead:], target)
        except SourceError:
            raise
        except Exception as error:
            raise SourceError(f"{self.path!r} does not read at {selection}: {error}") from error
        return out

    def _read_page(self, number: int, selection: tuple[slice, ...], target: np.ndarray[Any, Any]) -> None:
        page = self._series.pages[number]
        if page is None:  # a hole in the series
            target[...] = self.fill_value or 0
            return
        frame = page.keyframe
        if tuple(frame.shape) != tuple(self.shape[len(self.shape) - frame.ndim :]):
            raise SourceError(f"{self.path!r}: the pages of this series have several shapes")
        # separate planes: tifffile leaves their extent of 1 out
        chunks = (1,) * (frame.ndim - len(frame.chunks)) + tuple(frame.chunks)
        for index, region in _segments(chunks, frame.chunked, frame.shape, selection):
            length = page.databytecounts[index]
            if length == 0:
                values: Any = np.full([s.stop - s.start for s in region], frame.nodata or 0, self.dtype)
            else:
                handle = self._file.filehandle
                handle.seek(page.dataoffsets[index])
                encoded = handle.read(length)
                if len(encoded) != length:
                    raise SourceError(f"{self.path!r} ends inside a tile or strip: it was cut short")
                decoded, _, _ = frame.decode(encoded, index, jpegtables=frame.jpegtables)
                extents = tuple(s.stop - s.start for s in region)
                # tiles come with their padding, the last strip without
                whole = decoded.size == prod(chunks)
                values = decoded.reshape(chunks if whole else extents)[tuple(slice(0, n) for n in extents)]
            inside = [
                slice(max(a.start, r.start), min(a.stop, r.stop))
                for a, r in zip(selection, region, strict=True)
            ]
            to = tuple(
                slice(i.start - a.start, i.stop - a.start) for i, a in zip(inside, selection, strict=True)
            )
            of = tuple(
                slice(i.start - r.start, i.stop - r.start) for i, r in zip(inside, region, strict=True)
            )
            target[to] = values[of]

    def close(self) -> None:
        self._file.close()


def _segments(
    chunks: tuple[int, ...], chunked: tuple[int, ...], shape: tuple[int, ...], selection: tuple[slice, ...]
) -> Iterator[tuple[int, tuple[slice, ...]]]:
    """Number and extent of the tiles or strips that a selection of one page touches."""
    touched = [range(s.start // c, -(-s.stop // c)) for s, c in zip(selection, chunks, strict=True)]
    for place in product(*touched):
        region = tuple(
            slice(p * c, min((p + 1) * c, n)) for p, c, n in zip(place, chunks, shape, strict=True)
        )
        yield int(np.ravel_multi_index(place, chunked)) if place else 0, region
