"""The errors of gridding: what is wrong with a configuration, a plan, a shard or a run.

What it does not do: raise. Configurations are refused before any task is submitted, with key, value, rule and remedy.

    TerrazzoError
    └── GriddingError
        ├── GridConfigError (ValueError)      `output.grid`, or another part of the configuration
        ├── SchemaError (ValueError)          a field: function, expression, source, type, fill value
        ├── GridMismatchError (ValueError)    a plan, or a store, that belongs to another grid
        ├── NotWholeShardError (ValueError)   a write that is not exactly one whole shard
        ├── DuplicateShardError (ValueError)  a shard that has a writer already
        ├── ChunkNotUniformError (ValueError) one value per chunk was declared, and the cells have several
        └── ShardFailedError (RuntimeError)   shards that could not be made; the others are there
"""

from __future__ import annotations

from typing import Any

from terrazzo.errors import TerrazzoError, TerrazzoWarning

__all__ = [
    "ChunkNotUniformError",
    "DuplicateShardError",
    "GridConfigError",
    "GridMismatchError",
    "GriddingError",
    "NoDataWarning",
    "NotWholeShardError",
    "SchemaError",
    "ShardFailedError",
]


class GriddingError(TerrazzoError):
    """Anything that gridding refuses."""


class GridConfigError(GriddingError, ValueError):
    """A configuration that cannot be used; nothing was written."""


class SchemaError(GriddingError, ValueError):
    """A field that cannot be computed as it is declared; nothing was written."""


class GridMismatchError(GriddingError, ValueError):
    """A plan or a store that was made for another grid; nothing was written."""


class NotWholeShardError(GriddingError, ValueError):
    """A write that is not exactly one whole shard; nothing was written."""


class DuplicateShardError(GriddingError, ValueError):
    """A shard that has a writer already; nothing was written."""


class ChunkNotUniformError(GriddingError, ValueError):
    """A field with one value per chunk has several in one chunk; the shard was not written."""


class ShardFailedError(GriddingError, RuntimeError):
    """Shards that could not be made. `failures` maps each shard's key to (attempts, sentence)."""

    def __init__(self, message: str, failures: dict[int, tuple[int, str]] | None = None) -> None:
        super().__init__(message)
        self.failures = failures or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.failures)


class NoDataWarning(TerrazzoWarning):
    """A run that no point fell into."""
