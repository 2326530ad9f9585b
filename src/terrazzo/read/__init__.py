"""The read room: the flows (flow.py), where chunks lie (locate.py), rows to elements (decode.py), and the cache of
decoded chunks (chunk_cache.py, cached.py)."""

from terrazzo.read.chunk_cache import ChunkCache
from terrazzo.read.decode import bytes_of, place, raise_failures
from terrazzo.read.flow import read, read_many
from terrazzo.read.locate import MAX_OBJECTS, MAX_ROWS, max_objects, size_of

__all__ = [
    "MAX_OBJECTS",
    "MAX_ROWS",
    "ChunkCache",
    "bytes_of",
    "max_objects",
    "place",
    "raise_failures",
    "read",
    "read_many",
    "size_of",
]
