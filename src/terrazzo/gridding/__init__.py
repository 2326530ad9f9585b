"""Gridding: point observations to statistics per cell, one worker per shard, and the readers of what comes out.

>>> import numpy as np
>>> from terrazzo import gridding
>>> config = gridding.Config.from_dict(
...     {
...         "aggregation": {"variables": {"n": "count"}},
...         "output": {
...             "grid": {"type": "healpix", "parent_order": 2, "child_order": 6},
...             "store": "points.zarr",
...         },
...     }
... )
>>> config.grid.k
1
"""

from terrazzo.gridding.catalog import Catalog, read_catalog
from terrazzo.gridding.configuration import Config, load_config
from terrazzo.gridding.errors import (
    ChunkNotUniformError,
    DuplicateShardError,
    GridConfigError,
    GriddingError,
    GridMismatchError,
    NoDataWarning,
    NotWholeShardError,
    SchemaError,
    ShardFailedError,
)
from terrazzo.gridding.grid import Grid
from terrazzo.gridding.healpix import HealpixGrid
from terrazzo.gridding.plan import Plan, make_plan
from terrazzo.gridding.reader import Cellwise, GridStore, open_grid
from terrazzo.gridding.rectilinear import RectilinearGrid
from terrazzo.gridding.run import Report, run
from terrazzo.gridding.schema import json_schema

__all__ = [
    "Catalog",
    "Cellwise",
    "ChunkNotUniformError",
    "Config",
    "DuplicateShardError",
    "Grid",
    "GridConfigError",
    "GridMismatchError",
    "GridStore",
    "GriddingError",
    "HealpixGrid",
    "NoDataWarning",
    "NotWholeShardError",
    "Plan",
    "RectilinearGrid",
    "Report",
    "SchemaError",
    "ShardFailedError",
    "json_schema",
    "load_config",
    "make_plan",
    "open_grid",
    "read_catalog",
    "run",
]
