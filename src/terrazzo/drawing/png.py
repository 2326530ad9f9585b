"""PNG: pixels and a palette as the bytes of a picture.

What it does not do: choose colours, scale, or filter lines; pictures here are small.
Specification: PNG (ISO/IEC 15948), palette images with one transparent entry, and text in them.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

__all__ = ["png"]

Array = np.ndarray[Any, Any]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png(pixels: Array, palette: Array, words: str = "") -> bytes:
    """A picture of uint8 (height, width) numbers into a palette, uint8 (n, 3), whose entry 0 is transparent.

    words: what it shows, for programs that read a picture's description.
    """
    height, width = pixels.shape
    lines = np.zeros((height, width + 1), np.uint8)  # every line begins with its filter: 0, none
    lines[:, 1:] = pixels
    told = [_piece(b"iTXt", b"Description\0\0\0\0\0" + words.encode())] if words else []
    return b"".join(
        [
            _SIGNATURE,
            _piece(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _piece(b"PLTE", palette.tobytes()),
            _piece(b"tRNS", b"\x00"),
            *told,
            _piece(b"IDAT", zlib.compress(lines.tobytes(), 6)),
            _piece(b"IEND", b""),
        ]
    )


def _piece(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
