"""Origin: where points are read from, and which of them count; the section `data_source` of a configuration.

What it does not do: open files. Paths and patterns are looked up, so that a wrong one is known at once.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terrazzo.gridding.catalog import Catalog, read_catalog
from terrazzo.gridding.checking import boolean, check_known, mapping, one_of
from terrazzo.gridding.errors import GridConfigError
from terrazzo.gridding.statistics import Expression

__all__ = ["READERS", "SOURCE", "DataSource", "source_of"]

SOURCE = (
    *("reader", "files", "groups", "coordinates", "variables", "quality_filter", "filters"),
    *("read_workers", "shard_workers", "granule_workers", "driver"),
)
READERS = {
    "hdf5": "hdf5",
    "h5coro": "hdf5",
    "csv": "csv",
    "parquet": "parquet",
    "arrow": "arrow",
    "columns": "columns",
}


@dataclass(frozen=True)
class DataSource:
    """Where points are read from, and which of them count.

    groups, coordinates, variables: as paths with `{group}` in HDF5, as column names elsewhere. catalog: footprints of
    the files, from which shards are found without opening them.
    """

    reader: str
    files: tuple[str, ...]
    longitude: str
    latitude: str
    variables: Mapping[str, Any]
    groups: tuple[str, ...] = ("",)
    filters: tuple[Mapping[str, Any], ...] = ()
    catalog: Catalog | None = None

    def describe(self) -> dict[str, Any]:
        """What decides which values are read from a file, but for the file."""
        return {
            "reader": self.reader,
            "groups": list(self.groups),
            "coordinates": [self.longitude, self.latitude],
            "variables": dict(sorted(self.variables.items())),
            "filters": [dict(one) for one in self.filters],
        }


def source_of(given: object, catalog: object, folder: Path) -> DataSource | None:
    """The section `data_source`, and the `catalog` beside it; folder: what relative paths are relative to."""
    if given is None:
        return None
    keys = mapping(given, "data_source")
    check_known(
        keys,
        SOURCE,
        "data_source",
        elsewhere={
            "index": "files are read whole",
            "assets": "join the products first",
            "levels": "read one level",
            "credentials_provider": "give a reader of your own",
        },
    )
    reader = READERS[one_of(keys.get("reader", "hdf5"), tuple(READERS), "data_source.reader")]
    coordinates = mapping(keys.get("coordinates"), "data_source.coordinates")
    check_known(coordinates, ("longitude", "latitude"), "data_source.coordinates")
    for name in ("longitude", "latitude"):
        if not isinstance(coordinates.get(name), str):
            raise GridConfigError(
                f"data_source.coordinates.{name} is missing: a path or column name is needed"
            )
    variables = mapping(keys.get("variables"), "data_source.variables")
    for name, how in variables.items():
        if not isinstance(how, str) and not (isinstance(how, Mapping) and isinstance(how.get("path"), str)):
            raise GridConfigError(
                f"data_source.variables.{name} is {how!r}; a path, or path: and column:, are needed"
            )
        if isinstance(how, Mapping):
            check_known(how, ("path", "column"), f"data_source.variables.{name}")
    granules = _catalog(catalog, folder)
    if granules is not None and keys.get("files") is not None:
        raise GridConfigError(
            "data_source.files and catalog are both given; the catalog names the files: leave one out"
        )
    return DataSource(
        reader,
        _files(keys.get("files"), folder)
        if granules is None
        else tuple(one.path for one in granules.granules),
        coordinates["longitude"],
        coordinates["latitude"],
        dict(variables),
        _groups(keys.get("groups")),
        _filters(keys),
        granules,
    )


def _groups(given: object) -> tuple[str, ...]:
    if given is None:
        return ("",)
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not names or not all(isinstance(one, str) for one in names):
        raise GridConfigError(
            f"data_source.groups is {given!r}; a list of names such as [gt1l, gt1r] is needed"
        )
    return tuple(names)


def _catalog(given: object, folder: Path) -> Catalog | None:
    """`catalog`: a file, a list of granules, or `path` and `margin`."""
    if given is None:
        return None
    margin: Any = 0.0
    if isinstance(given, Mapping) and "path" in given and "bbox" not in given:
        check_known(given, ("path", "margin"), "catalog")
        margin, given = given.get("margin", 0.0), given["path"]
        if isinstance(margin, bool) or not isinstance(margin, int | float):
            raise GridConfigError(f"catalog.margin is {margin!r}; degrees from 0 up are needed")
    return read_catalog(given, margin=float(margin), folder=folder)


def _files(given: object, folder: Path) -> tuple[str, ...]:
    """Paths, sorted, of a list of paths and patterns."""
    if given is None:
        return ()
    patterns = [given] if isinstance(given, str | os.PathLike) else given
    if not isinstance(patterns, Sequence):
        raise GridConfigError(
            f"data_source.files is {given!r}; a path, a pattern such as data/*.h5, or a list are needed"
        )
    found: list[str] = []
    for pattern in patterns:
        path = Path(pattern)
        base, rest = (
            (Path(path.anchor), str(path.relative_to(path.anchor)))
            if path.is_absolute()
            else (folder, str(path))
        )
        matches = (
            sorted(str(one) for one in base.glob(rest))
            if any(c in rest for c in "*?[")
            else [str(base / rest)]
        )
        if not matches:
            raise GridConfigError(f"data_source.files: nothing matches {str(pattern)!r} below {str(base)!r}")
        found += matches
    return tuple(found)


_OPERATIONS = ("eq", "ne", "ge", "le", "lt", "gt", "in", "not_in")


def _filters(keys: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """quality_filter and filters, as filters."""
    found: list[Mapping[str, Any]] = []
    quality = mapping(keys.get("quality_filter"), "data_source.quality_filter")
    if quality:
        check_known(quality, ("dataset", "value"), "data_source.quality_filter")
        kept = {"op": "eq", "value": 0, **quality}
        _check_operands(kept, "eq", "data_source.quality_filter")
        found.append({"dataset": quality.get("dataset"), "op": "eq", "value": kept["value"]})
    given = keys.get("filters") or []
    if not isinstance(given, list | tuple):
        raise GridConfigError(f"data_source.filters is {given!r}; a list is needed")
    for k, one in enumerate(given):
        where = f"data_source.filters[{k}]"
        one = mapping(one, where)
        if "expression" in one:
            check_known(one, ("expression",), where)
            _check_columns(one["expression"], mapping(keys.get("variables"), "data_source.variables"), where)
            found.append({"expression": one["expression"]})
            continue
        check_known(one, ("dataset", "op", "value", "values", "column", "keep"), where)
        _check_operands(one, one_of(one.get("op"), _OPERATIONS, f"{where}.op"), where)
        found.append(dict(one))
    for k, one in enumerate(found):
        if "expression" not in one and not isinstance(one.get("dataset"), str):
            raise GridConfigError(
                f"filter {k} of data_source names no dataset: a path or column name is needed"
            )
    return tuple(found)


def _check_columns(expression: Any, variables: Mapping[str, Any], where: str) -> None:
    missing = sorted(Expression(expression, f"{where}.expression").columns - set(variables))
    if missing:
        raise GridConfigError(
            f"{where}.expression uses {', '.join(missing)}, which data_source.variables does not name; there are "
            f"{', '.join(variables) or 'none'}"
        )


def _check_operands(one: Mapping[str, Any], operation: str, where: str) -> None:
    """Every operation has what it compares with; a filter that nothing can pass is no filter."""
    several = operation in ("in", "not_in")
    name, other = ("values", "value") if several else ("value", "values")
    given = one.get(name)
    if other in one:
        raise GridConfigError(f"{where}.{other} does not go with op {operation}; give {name}")
    numbers = list(given) if isinstance(given, list | tuple) else []
    if not several:
        numbers = [given]
    if not numbers or not all(isinstance(v, int | float) and math.isfinite(v) for v in numbers):
        wanted = "a list of finite numbers" if several else "a finite number"
        raise GridConfigError(f"{where}.{name} is {given!r}; op {operation} needs {wanted}")
    column = one.get("column", 0)
    if isinstance(column, bool) or not isinstance(column, int):
        raise GridConfigError(f"{where}.column is {column!r}; the number of a column is needed")
    boolean(one.get("keep", True), f"{where}.keep")
