"""The formats that can be imported, by the first bytes and the ending of a file.

What it does not do: read; each format has its own file, imported when it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

from terrazzo.errors import SourceError
from terrazzo.importing.source import Imported

__all__ = ["FORMATS", "Format", "open_source"]


@dataclass(frozen=True, slots=True)
class Format:
    """One format. signatures: first bytes of its files. opener: the module with `open_file(path, variable)`.

    extra: what to install for it, as in `pip install 'terrazzo[extra]'`; None where numpy is enough.
    """

    name: str
    endings: tuple[str, ...]
    signatures: tuple[bytes, ...]
    opener: str
    extra: str | None = None

    def open(self, path: str, variable: str | None) -> Imported:
        opener: Callable[[str, str | None], Imported] = import_module(self.opener).open_file
        return opener(path, variable)


_HDF5 = b"\x89HDF\r\n\x1a\n"
_GZIP = b"\x1f\x8b"

#: in the order in which they are tried: an ending that matches counts before a signature that does
FORMATS = (
    Format("npy", (".npy",), (b"\x93NUMPY",), "terrazzo.importing.npy"),
    Format("nifti", (".nii", ".nii.gz"), (), "terrazzo.importing.nifti", "nifti"),
    Format(
        "netcdf",
        (".nc", ".nc3", ".nc4", ".cdf"),
        (b"CDF\x01", b"CDF\x02", b"CDF\x05"),
        "terrazzo.importing.netcdf",
        "netcdf",
    ),
    Format("hdf5", (".h5", ".hdf5", ".he5", ".hdf", ".mat"), (_HDF5,), "terrazzo.importing.hdf5", "hdf5"),
    Format(
        "tiff",
        (".tif", ".tiff", ".btf"),
        (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
        "terrazzo.importing.tiff",
        "tiff",
    ),
)


def open_source(
    path: str | os.PathLike[str], variable: str | None = None, format: str | None = None
) -> Imported:
    """An array in a file of another format, to be read piece by piece; close it, or use it in a `with` block.

    path: of a local file, or a file:// address. variable: which array, where the file holds several (the path of an
    HDF5 dataset, the name of a netCDF variable, the number of a TIFF series). format: a name from FORMATS, where
    neither the ending nor the first bytes tell. Raises FileNotFoundError, SourceError where the file is not what it
    should be, and ImportError where a package is missing.
    """
    name = _local(os.fspath(path))
    if not os.path.exists(name):
        raise FileNotFoundError(f"there is no file {name!r}")
    if os.path.isdir(name):
        raise SourceError(
            f"{name!r} is a folder; a Zarr hierarchy is copied by `terrazzo.copy`, not imported"
        )
    return _format_of(name, format).open(name, variable)


def _local(path: str) -> str:
    if path.startswith("file://"):
        return unquote(urlsplit(path).path)
    if "://" in path:
        raise SourceError(
            f"{path!r} is not a local file; files of other formats are read from disk: download it first"
        )
    return path


def _format_of(path: str, asked: str | None) -> Format:
    known = ", ".join(entry.name for entry in FORMATS)
    if asked is not None:
        for entry in FORMATS:
            if entry.name == asked:
                return entry
        raise SourceError(f"format {asked!r} is not known; {known} are")
    ending = path.lower()
    with Path(path).open("rb") as file:
        head = file.read(8)
    by_ending = next((entry for entry in FORMATS if ending.endswith(entry.endings)), None)
    by_signature = next((entry for entry in FORMATS if head.startswith(entry.signatures)), None)
    if by_ending is None and by_signature is None:
        raise SourceError(
            f"{path!r} is of no known format ({known}); where it is one of them, say so (format=)"
        )
    if by_ending is None or (by_signature is not None and not _may_be(by_ending, head)):
        assert by_signature is not None
        return by_signature
    return by_ending


def _may_be(entry: Format, head: bytes) -> bool:
    """Whether the first bytes allow what the ending says."""
    if entry.name == "netcdf":
        return head.startswith((*entry.signatures, _HDF5))
    if not entry.signatures:
        return not any(head.startswith(other.signatures) for other in FORMATS if other.signatures)
    return head.startswith(entry.signatures)
