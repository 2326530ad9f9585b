"""Storage transformers: a store over a store, between an array and the place where its chunks lie.

What it does not do: change documents; those are read and written past every transformer.
Specification: Zarr core 3.0, "Storage transformers". None is in the core; names that nobody registered are refused.
"""

from terrazzo.transformers.sharding import Sharding, ShardingStore
from terrazzo.transformers.transformer import (
    Transformer,
    known_transformers,
    register_transformer,
    transformed,
    transformer_from_extension,
)

__all__ = [
    "Sharding",
    "ShardingStore",
    "Transformer",
    "known_transformers",
    "register_transformer",
    "transformed",
    "transformer_from_extension",
]
