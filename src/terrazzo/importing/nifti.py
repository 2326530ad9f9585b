"""NIfTI: a volume with its place in space, read from .nii and unpacked once from .nii.gz.

What it does not do: apply the slope and the intercept, or turn axes. Values are those of the file, as index (x, y, z,
…) into the array; scale and affine are in the attributes.
Specification: NIfTI-1 and NIfTI-2; read through nibabel.
"""

from __future__ import annotations

import gzip
import os
import tempfile
import zlib
from typing import Any

import numpy as np

from terrazzo.errors import SourceError
from terrazzo.importing.source import Imported, json_attributes, mapped, need, plain

__all__ = ["Nifti", "open_file"]

PIECE = 4 << 20


def open_file(path: str, variable: str | None) -> Nifti:
    if variable is not None:
        raise SourceError(f"{path!r}: a NIfTI file holds one volume and no name; leave {variable!r} out")
    return Nifti(path)


class Nifti(Imported):
    """The volume of a NIfTI file.

    Dimensions are x, y, z, t; colours (RGB) become a last dimension "channel". A compressed file is unpacked into an
    unnamed temporary file: inside a gzip stream there is no way back, and a copy in blocks would unpack it many times.
    """

    def __init__(self, path: str) -> None:
        nibabel = need("nibabel", "nibabel", "nifti", "reading NIfTI files")
        try:
            image = nibabel.load(path)
            header = image.header
            proxy = image.dataobj
            shape, offset = tuple(int(n) for n in image.shape), int(proxy.offset)
            dtype = np.dtype(header.get_data_dtype())
            slope, intercept = float(proxy.slope), float(proxy.inter)
        except Exception as error:  # nibabel raises its own, gzip's, zlib's and struct's errors
            raise SourceError(f"{path!r} is not a NIfTI file that can be read: {error}") from error
        nbytes = dtype.itemsize
        for extent in shape:
            nbytes *= extent
        self._file, start = _unpacked(path, offset, nbytes)
        names: list[str | None] = [*"xyzt"[: len(shape)], *[None] * (len(shape) - 4)]
        self._place = dtype, start, shape
        if dtype.names is not None:  # RGB and RGBA: one byte each
            shape, dtype = (*shape, len(dtype.names)), np.dtype(np.uint8)
            names.append("channel")
        super().__init__(
            path,
            shape,
            dtype,
            dimension_names=names,
            attributes=_attributes(image, slope, intercept),
        )

    def read(self, selection: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        dtype, start, shape = self._place
        values = mapped(self._file, dtype, start, shape, "F", selection[: len(shape)])
        if dtype.names is None:
            return values
        return values[..., None].view(np.uint8)[..., selection[-1]]

    def close(self) -> None:
        self._file.close()


def _unpacked(path: str, offset: int, nbytes: int) -> tuple[Any, int]:
    """An open file with the volume's bytes, and where in it they start; never more bytes than the header declares."""
    with open(path, "rb") as raw:
        compressed = raw.read(2) == b"\x1f\x8b"
    if not compressed:
        if os.path.getsize(path) < offset + nbytes:
            raise SourceError(f"{path!r} ends before the {nbytes:,} bytes of its volume: it was cut short")
        return open(path, "rb"), offset
    # a hostile header could declare more than the disk holds: gzip makes at most about 1,032 bytes of one
    if offset + nbytes > os.path.getsize(path) * 1040:
        raise SourceError(f"{path!r} is too small for the {nbytes:,} bytes of its volume: it was cut short")
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the volume)
    try:
        with gzip.open(path, "rb") as packed:
            skip, left = offset, nbytes
            while skip or left:
                piece = packed.read(min(PIECE, skip or left))
                if not piece:
                    raise SourceError(
                        f"{path!r} ends before the {nbytes:,} bytes of its volume: it was cut short"
                    )
                if skip:
                    skip -= len(piece)
                else:
                    left -= len(piece)
                    spool.write(piece)
        spool.flush()
    except (OSError, EOFError, zlib.error) as error:
        spool.close()
        raise SourceError(f"{path!r} does not unpack: {error}") from error
    except BaseException:
        spool.close()
        raise
    return spool, 0


def _attributes(image: Any, slope: float, intercept: float) -> dict[str, Any]:
    header = image.header
    nifti: dict[str, Any] = {
        "affine": plain(image.affine),
        "zooms": [float(z) for z in header.get_zooms()],
        "qform_code": int(header["qform_code"]),
        "sform_code": int(header["sform_code"]),
        "intent_code": int(header["intent_code"]),
        "descrip": plain(header["descrip"]),
    }
    space, when = header.get_xyzt_units()
    nifti["units"] = [space, when]
    attributes: dict[str, Any] = json_attributes({"nifti": nifti})
    if (slope, intercept) != (1.0, 0.0):
        attributes["scale_factor"], attributes["add_offset"] = plain(slope), plain(intercept)
    return attributes
