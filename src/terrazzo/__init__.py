"""Zarr v3 arrays with sharding: read fast, written safely, looked after.

`import terrazzo as zarr` runs the common scripts. Public names, and nothing else.

    >>> import terrazzo
    >>> array = terrazzo.create_array(
    ...     "rain.zarr", shape=(365, 1000, 1000), dtype="f4", chunks="1MB", shards="auto"
    ... )
    >>> array[0, :10, :10] = 2.5
    >>> terrazzo.open("rain.zarr", mode="r")[0, 5, 8:12].tolist()
    [2.5, 2.5, 0.0, 0.0]
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from terrazzo import api, codecs, errors, storage
from terrazzo.api.synchronous import (
    array,
    consolidate_metadata,
    copy,
    copy_all,
    copy_store,
    create,
    create_array,
    create_group,
    create_hierarchy,
    empty,
    empty_like,
    from_array,
    full,
    full_like,
    group,
    load,
    move,
    ones,
    ones_like,
    open,
    open_array,
    open_consolidated,
    open_group,
    open_like,
    print_debug_info,
    save,
    save_array,
    save_group,
    tree,
    zeros,
    zeros_like,
)
from terrazzo.arrays import Array
from terrazzo.chunk_grid import register_chunk_grid
from terrazzo.chunk_keys import register_chunk_keys
from terrazzo.codecs import register_codec
from terrazzo.config import config
from terrazzo.groups import Group
from terrazzo.metadata import register_data_type
from terrazzo.options import Limits, Options
from terrazzo.strategy import Append, InPlace, Replace
from terrazzo.transformers import register_transformer

if _TYPE_CHECKING:
    from terrazzo.arrays.asynchronous import AsyncArray
    from terrazzo.groups.asynchronous import AsyncGroup

    __version__: str

__all__ = [
    "Append",
    "Array",
    "AsyncArray",
    "AsyncGroup",
    "Group",
    "InPlace",
    "Limits",
    "Options",
    "Replace",
    "__version__",
    "api",
    "array",
    "codecs",
    "config",
    "consolidate_metadata",
    "copy",
    "copy_all",
    "copy_store",
    "create",
    "create_array",
    "create_group",
    "create_hierarchy",
    "empty",
    "empty_like",
    "errors",
    "from_array",
    "full",
    "full_like",
    "group",
    "load",
    "move",
    "ones",
    "ones_like",
    "open",
    "open_array",
    "open_consolidated",
    "open_group",
    "open_like",
    "print_debug_info",
    "register_chunk_grid",
    "register_chunk_keys",
    "register_codec",
    "register_data_type",
    "register_transformer",
    "save",
    "save_array",
    "save_group",
    "storage",
    "tree",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> object:
    """What takes long to import, once somebody asks for it."""
    found: object
    if name == "AsyncArray":
        from terrazzo.arrays import asynchronous as arrays

        found = arrays.AsyncArray
    elif name == "AsyncGroup":
        from terrazzo.groups import asynchronous as groups

        found = groups.AsyncGroup
    elif name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("terrazzo")
        except PackageNotFoundError:  # run from a source tree
            found = "0+unknown"
    else:
        raise AttributeError(f"module 'terrazzo' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
