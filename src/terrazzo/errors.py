"""The errors of terrazzo: one tree, each class also the builtin a caller expects.

What it does not do: raise. The room that knows the place (array, key, inner chunk, codec) adds it to the message.

    TerrazzoError
    ├── StoreError (OSError)                  a store failed: permissions, disk, server
    │   ├── ReadOnlyError (PermissionError)   a write through something opened for reading
    │   ├── UnsupportedError                  the store cannot do this (list, erase, write, patch)
    │   ├── KeyRefusedError (ValueError)      a key that could leave the store's root, or no store could hold
    │   ├── ConflictError                     the object changed since it was read (version tag)
    │   └── HeldError (TimeoutError)          another writer holds the object, for longer than one would wait
    ├── NodeError
    │   ├── NodeNotFoundError (FileNotFoundError, KeyError)
    │   │   ├── ArrayNotFoundError
    │   │   └── GroupNotFoundError
    │   └── ContainsNodeError (FileExistsError, ValueError)
    │       ├── ContainsArrayError
    │       └── ContainsGroupError
    ├── MetadataError (ValueError)            a document is wrong; every problem with its path
    │   ├── MetadataValidationError           (zarr-python's name for the same)
    │   │   └── NodeTypeValidationError
    │   ├── DataTypeValidationError
    │   └── UnknownCodecError
    ├── CodecError (ValueError)               encoded bytes that do not decode, values that do not encode
    │   └── ChecksumError                     bytes that are not those that were written
    ├── ShardError (ValueError)               a shard index that cannot be right
    ├── SourceError (ValueError)              a file of another format that cannot be read as an array
    ├── LimitError (ValueError)               larger than the limits in `options`
    ├── ChunkNotFoundError (KeyError)         a chunk that is not stored, where absence was declared an error
    └── SelectionError (IndexError)
        ├── BoundsCheckError
        ├── ArrayIndexError
        ├── NegativeStepError
        └── VindexInvalidSelectionError
"""

from __future__ import annotations

__all__ = [
    "ArrayIndexError",
    "ArrayNotFoundError",
    "BoundsCheckError",
    "ChecksumError",
    "ChunkNotFoundError",
    "CodecError",
    "ConflictError",
    "ContainsArrayError",
    "ContainsGroupError",
    "ContainsNodeError",
    "DataTypeValidationError",
    "GroupNotFoundError",
    "HeldError",
    "KeyRefusedError",
    "LimitError",
    "MetadataError",
    "MetadataValidationError",
    "NegativeStepError",
    "NodeError",
    "NodeNotFoundError",
    "NodeTypeValidationError",
    "ReadOnlyError",
    "SelectionError",
    "ShardError",
    "SourceError",
    "StoreError",
    "TerrazzoError",
    "TerrazzoWarning",
    "UnknownCodecError",
    "UnsupportedError",
    "VindexInvalidSelectionError",
]


class TerrazzoError(Exception):
    """Any error that terrazzo raises on purpose."""

    def __str__(self) -> str:
        # KeyError prints the repr of its argument; a message is a sentence, not a key
        return str(self.args[0]) if len(self.args) == 1 else super().__str__()


class StoreError(TerrazzoError, OSError):
    """A store failed: permissions, disk, server."""


class ReadOnlyError(StoreError, PermissionError):
    """A write through something that was opened for reading."""


class UnsupportedError(StoreError):
    """The store cannot do what was asked (list, erase, write, patch)."""


class KeyRefusedError(StoreError, ValueError):
    """A key that could leave the store's root, or that no store could hold."""


class ConflictError(StoreError):
    """The object is not the version that was read; nothing was written."""


class HeldError(StoreError, TimeoutError):
    """Another writer holds the object, for longer than the caller would wait; nothing was written."""


class NodeError(TerrazzoError):
    """Something about a node of the hierarchy."""


class NodeNotFoundError(NodeError, FileNotFoundError, KeyError):
    """There is no array or group at this path."""


class ArrayNotFoundError(NodeNotFoundError):
    """There is no array at this path."""


class GroupNotFoundError(NodeNotFoundError):
    """There is no group at this path."""


class ContainsNodeError(NodeError, FileExistsError, ValueError):
    """Something is already there."""


class ContainsArrayError(ContainsNodeError):
    """An array is already there."""


class ContainsGroupError(ContainsNodeError):
    """A group is already there."""


class MetadataError(TerrazzoError, ValueError):
    """A document is wrong. `problems` holds every (path, sentence) found in it."""

    def __init__(self, message: str, problems: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.problems)


class MetadataValidationError(MetadataError):
    """A document is wrong (zarr-python's name)."""


class NodeTypeValidationError(MetadataValidationError):
    """A document describes another kind of node than the one asked for."""


class DataTypeValidationError(MetadataError):
    """A data type that is unknown, or whose configuration is wrong."""


class UnknownCodecError(MetadataError):
    """A codec name that nothing is registered for."""


class CodecError(TerrazzoError, ValueError):
    """Encoded bytes that do not decode, or a value that a codec cannot encode."""


class ChecksumError(CodecError):
    """The bytes are not those that were written."""


class ShardError(TerrazzoError, ValueError):
    """A shard whose index cannot be right."""


class SourceError(TerrazzoError, ValueError):
    """A file of another format that cannot be read as an array."""


class LimitError(TerrazzoError, ValueError):
    """Larger than the limits in `options` allow."""


class ChunkNotFoundError(TerrazzoError, KeyError):
    """A chunk that is not stored, where absence was declared an error."""


class SelectionError(TerrazzoError, IndexError):
    """A selection that the array cannot answer."""


class BoundsCheckError(SelectionError):
    """An index outside the array."""


class ArrayIndexError(SelectionError):
    """An index array of a wrong type or shape."""


class NegativeStepError(SelectionError):
    """A slice with a negative step where none can be used."""


class VindexInvalidSelectionError(SelectionError):
    """A selection that is not a coordinate or mask selection."""


class TerrazzoWarning(UserWarning):
    """Something harmless that the format does not allow, or a choice the caller should know of."""
