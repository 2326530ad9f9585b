"""Foreign bytes: what shows that a shard is a file of another format too, so that it is not rewritten by mistake.

What it does not do: I/O, or read those formats. Only bytes that nothing of the shard covers can be foreign, and only
where the format has its signature: HDF5 at 0, 512, 1024, 2048, …; TIFF, NIfTI, npy and ZIP in the first bytes; and the
end record of a ZIP file right before a shard index that was put behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["places_to_look", "signature_in"]

Array = np.ndarray[Any, Any]
Places = list[tuple[int, int]]

HDF5 = b"\x89HDF\r\n\x1a\n"
#: (where it lies, the bytes, the format)
AT_START = (
    (0, HDF5, "HDF5"),
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
    (0, b"II+\0", "BigTIFF"),
    (0, b"MM\0+", "BigTIFF"),
    (344, b"n+1\0", "NIfTI-1"),
    (4, b"n+2\0\r\n\x1a\n", "NIfTI-2"),
    (0, b"\x93NUMPY", "npy"),
    (0, b"PK\x03\x04", "ZIP"),
)
END_OF_ZIP = b"PK\x05\x06"
#: where an HDF5 user block may end
USER_BLOCKS = [1 << k for k in range(9, 40)]
#: bytes of a ZIP end record without its comment
END_NBYTES = 22


def places_to_look(dead: Array, size: int) -> Places:
    """The (start, length) to read of an object of `size` bytes whose uncovered ranges are `dead`, int64 (k, 2).

    Few and short: none where nothing is uncovered, which is so for every shard that was written whole.
    """
    places: Places = []
    for start, length in dead.tolist():
        stop = start + length
        for at, words, _ in AT_START:
            if start <= at and at + len(words) <= stop:
                places.append((at, len(words)))
        places += [(at, len(HDF5)) for at in USER_BLOCKS if start <= at and at + len(HDF5) <= stop]
        if length >= END_NBYTES:
            places.append((stop - END_NBYTES, len(END_OF_ZIP)))
    return sorted({(at, n) for at, n in places if at + n <= size})


def signature_in(found: Mapping[tuple[int, int], Any]) -> str | None:
    """The format that the bytes at these places show, or None."""
    for (at, nbytes), buffer in found.items():
        piece = bytes(memoryview(buffer).cast("B"))
        for place, words, name in AT_START:
            if (at, nbytes) == (place, len(words)) and piece == words:
                return name
        if piece == HDF5:
            return "HDF5"
        if piece == END_OF_ZIP:
            return "ZIP"
    return None
