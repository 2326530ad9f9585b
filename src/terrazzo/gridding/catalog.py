"""Catalogs: granules with their footprints, from GeoJSON, STAC items, mappings, JSON or (Geo)Parquet.

What it does not do: fetch granules, or read points: with a catalog, shards are found from footprints alone.
Specification: GeoJSON (RFC 7946), STAC 1.0 items, GeoParquet 1.1 (geometries as WKB).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terrazzo.gridding.errors import GridConfigError
from terrazzo.gridding.optional import required
from terrazzo.gridding.regions import Box, Polygon, Region, Regions
from terrazzo.gridding.wkb import polygons_of

__all__ = ["Catalog", "Granule", "read_catalog"]


@dataclass(frozen=True)
class Granule:
    """A file of points, and where on the Earth they are."""

    id: str
    path: str
    region: Region


@dataclass(frozen=True)
class Catalog:
    """Granules, in the order in which their points are taken; `margin`: how far (degrees) points may lie outside."""

    granules: tuple[Granule, ...]
    margin: float = 0.0

    def __post_init__(self) -> None:
        if not self.granules:
            raise GridConfigError("the catalog is empty: at least one granule is needed")
        if not math.isfinite(self.margin) or self.margin < 0:
            raise GridConfigError(f"the catalog's margin is {self.margin!r}; degrees from 0 up are needed")
        names = [one.id for one in self.granules]
        if len(set(names)) < len(names):
            twice = next(name for k, name in enumerate(names) if name in names[:k])
            raise GridConfigError(
                f"the catalog has the granule {twice!r} more than once; each has its own id"
            )

    def __len__(self) -> int:
        return len(self.granules)


def read_catalog(given: Any, *, margin: float = 0.0, folder: str | os.PathLike[str] = ".") -> Catalog:
    """The granules of a catalog, in the order of their ids.

    given: the path of a .json, .geojson or .parquet file; a GeoJSON FeatureCollection; or a list of mappings with
    `path`, optionally `id`, and `bbox` ([west, south, east, north]), `polygon` (corners) or `geometry` (GeoJSON).
    margin: degrees that points may lie beside their footprint. folder: what relative paths are relative to; in a
    file, the file's folder.
    """
    where = "catalog"
    if isinstance(given, Catalog):
        return given
    if isinstance(given, str | os.PathLike):
        file = Path(given) if Path(given).is_absolute() else Path(folder) / given
        where, folder = str(given), file.parent
        if not file.is_file():
            raise FileNotFoundError(f"catalog: there is no file {str(file)!r}")
        given = _parquet(file) if file.suffix == ".parquet" else _json(file)
    if isinstance(given, Mapping):
        if given.get("type") != "FeatureCollection" or not isinstance(given.get("features"), list):
            raise GridConfigError(
                f"{where}: a GeoJSON FeatureCollection, or a list of granules, is needed; found a mapping with "
                f"{', '.join(map(str, list(given)[:5])) or 'nothing'}"
            )
        given = given["features"]
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise GridConfigError(f"{where} is {type(given).__name__}; a file, or a list of granules, is needed")
    granules = [_granule(one, f"{where}[{k}]", Path(folder)) for k, one in enumerate(given)]
    return Catalog(tuple(sorted(granules, key=lambda one: one.id)), margin)


def _granule(given: Any, where: str, folder: Path) -> Granule:
    if not isinstance(given, Mapping):
        raise GridConfigError(f"{where} is {given!r}; a mapping with path, and bbox or geometry, is needed")
    path = _path(given, where)
    name = given.get("id")
    label = str(name) if name is not None else os.path.basename(path)
    try:
        region = _region(given)
    except KeyError as error:
        raise GridConfigError(f"{where} ({label}): its footprint has no {error}") from None
    except (TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise GridConfigError(f"{where} ({label}): {error}") from None
    if region is None:
        raise GridConfigError(
            f"{where} ({label}) has no footprint: bbox: [west, south, east, north], polygon: [[lon, lat], …] or "
            "geometry: (GeoJSON) is needed"
        )
    return Granule(label, path if "://" in path or os.path.isabs(path) else str(folder / path), region)


def _path(given: Mapping[str, Any], where: str) -> str:
    """The granule's file: `path` or `href`, of itself or its properties; else its asset with the role data."""
    properties = given.get("properties")
    for one in (given, properties if isinstance(properties, Mapping) else {}):
        for key in ("path", "href"):
            if isinstance(one.get(key), str) and one[key]:
                return str(one[key])
    assets = given.get("assets")
    if isinstance(assets, Mapping):
        all_ = [
            one for one in assets.values() if isinstance(one, Mapping) and isinstance(one.get("href"), str)
        ]
        chosen = [one for one in all_ if "data" in (one.get("roles") or ())] or all_
        if len(chosen) == 1:
            return str(chosen[0]["href"])
    raise GridConfigError(f"{where} names no file: path (or href, or one asset with the role data) is needed")


def _region(given: Mapping[str, Any]) -> Region | None:
    """The narrowest footprint that is given: polygons before boxes."""
    if given.get("polygon") is not None:
        return Polygon(given["polygon"])
    geometry = given.get("geometry")
    if isinstance(geometry, bytes | bytearray | memoryview):
        return _joined(list(polygons_of(bytes(geometry))))
    if geometry is not None:
        return _joined(list(_geojson(geometry)))
    box = given.get("bbox")
    if box is None:
        return None
    if isinstance(box, Mapping):
        box = [box[key] for key in ("xmin", "ymin", "xmax", "ymax")]
    numbers = [float(v) for v in box]
    if len(numbers) == 6:  # with heights
        numbers = [*numbers[0:2], *numbers[3:5]]
    if len(numbers) != 4:
        raise ValueError(f"bbox has {len(numbers)} numbers; [west, south, east, north] are needed")
    return Box(*numbers)


def _joined(polygons: Sequence[Sequence[Any]]) -> Region:
    parts = [Polygon(rings[0], rings[1:]) for rings in polygons if len(rings)]
    return parts[0] if len(parts) == 1 else Regions(parts)


def _geojson(geometry: Any) -> Iterator[Sequence[Any]]:
    """The rings of each polygon of a GeoJSON geometry."""
    kind = geometry.get("type") if isinstance(geometry, Mapping) else None
    if kind == "Polygon":
        yield geometry["coordinates"]
    elif kind == "MultiPolygon":
        yield from geometry["coordinates"]
    elif kind == "GeometryCollection":
        for one in geometry["geometries"]:
            yield from _geojson(one)
    else:
        raise ValueError(f"a geometry of type {kind!r}; Polygon and MultiPolygon are footprints")


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise GridConfigError(f"catalog: {str(file)!r} is no JSON: {error}") from None


def _parquet(file: Path) -> list[dict[str, Any]]:
    """The rows of a Parquet file: of its columns, those that say something of a granule."""
    parquet = required("pyarrow.parquet", "Parquet files", "parquet")
    known = ("id", "path", "href", "bbox", "geometry", "polygon", "assets")
    with parquet.ParquetFile(file) as opened:
        names = [name for name in opened.schema_arrow.names if name in known]
        rows: list[dict[str, Any]] = opened.read(columns=names).to_pylist()
    return rows
