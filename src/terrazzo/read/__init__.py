"""The read room: the flows (flow.py, small.py), what is asked of each object first (looks.py, far.py), where chunks lie
(locate.py), which bytes are fetched (spans.py, pieces.py), rows to elements (decode.py), parts of chunks (parts.py),
and the cache of decoded chunks (chunk_cache.py, cached.py)."""

from terrazzo.read.chunk_cache import ChunkCache
from terrazzo.read.decode import bytes_of, place, raise_failures
from terrazzo.read.flow import read, read_many
from terrazzo.read.locate import MAX_FAR_OBJECTS, MAX_OBJECTS, MAX_ROWS, max_objects, size_of
from terrazzo.read.pieces import fetch_pieces

__all__ = [
    "MAX_FAR_OBJECTS",
    "MAX_OBJECTS",
    "MAX_ROWS",
    "ChunkCache",
    "bytes_of",
    "fetch_pieces",
    "max_objects",
    "place",
    "raise_failures",
    "read",
    "read_many",
    "size_of",
]
