"""From what a caller gives as points to a Source.

What it does not do: read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from terrazzo.gridding.catalog import Catalog
from terrazzo.gridding.configuration import Config
from terrazzo.gridding.errors import GridConfigError
from terrazzo.gridding.inputs.columns import ColumnsSource
from terrazzo.gridding.inputs.files import FileSource
from terrazzo.gridding.inputs.source import Source
from terrazzo.gridding.inputs.spilled import SpilledSource

__all__ = ["source_from"]


def source_from(
    config: Config, points: Any = None, longitude: str = "longitude", latitude: str = "latitude"
) -> Source:
    """The points of a run.

    points: None for the files of the configuration, a Catalog of such files, a Source, a table of columns, or an
    iterator of tables.
    """
    if isinstance(points, Source):
        return points
    if isinstance(points, Catalog):
        if config.source is None:
            raise GridConfigError(
                "data_source is missing in the configuration: it says how the files of a catalog are read"
            )
        paths = tuple(one.path for one in points.granules)
        return FileSource(replace(config.source, files=paths, catalog=points))
    if points is None:
        if config.source is None:
            raise GridConfigError(
                "there are no points: data_source is missing in the configuration, and none were given"
            )
        return FileSource(config.source)
    if isinstance(points, Iterator):
        return SpilledSource(points, config.grid, longitude, latitude)
    return ColumnsSource(points, longitude, latitude)
