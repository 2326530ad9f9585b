"""Importing: files of other formats, read piece by piece and copied into an array.

What it does not do: write other formats, or read them in place as shards; the file is read and left as it is.
Formats: npy, NIfTI, netCDF, HDF5, TIFF; each is a file here and a line in `formats.py`.
"""

from __future__ import annotations

from terrazzo.importing.copying import import_array
from terrazzo.importing.formats import FORMATS, Format, open_source
from terrazzo.importing.source import Imported

__all__ = ["FORMATS", "Format", "Imported", "import_array", "open_source"]
