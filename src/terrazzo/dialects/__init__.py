"""Dialects: hierarchies of Zarr 2, of the 2022 draft and of N5, each seen as a store of Zarr 3.

What it does not do: read or write chunks. A view renames keys and translates documents; whatever stands above it, the
flows, groups, care, knows Zarr 3 alone, and chunks are read and written as fast as anywhere.
"""

from terrazzo.dialects.detect import DIALECTS, as_stored, dialect_of, find_view, is_entry_point, view_of
from terrazzo.dialects.draft import DraftView
from terrazzo.dialects.n5 import N5View
from terrazzo.dialects.v2 import V2View
from terrazzo.dialects.view import DialectView

__all__ = [
    "DIALECTS",
    "DialectView",
    "DraftView",
    "N5View",
    "V2View",
    "as_stored",
    "dialect_of",
    "find_view",
    "is_entry_point",
    "view_of",
]
