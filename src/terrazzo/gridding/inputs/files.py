"""Files as granules: read when their turn comes, batch by batch, filtered, and kept for a while where they are small.

What it does not do: know formats (formats.py does), or fetch files; paths are local.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from terrazzo.gridding.covering import covering
from terrazzo.gridding.errors import GridConfigError
from terrazzo.gridding.grid import Grid
from terrazzo.gridding.inputs.filters import chosen, expression_columns, wanted
from terrazzo.gridding.inputs.formats import reader_of
from terrazzo.gridding.inputs.source import Array, Batch, Source, Survey
from terrazzo.gridding.origin import DataSource

__all__ = ["FileSource"]

#: bytes of points of small files that a source keeps, because their shards come one after another
KEPT_NBYTES = 128 << 20
#: files that are looked at for a first point
_LOOKED_AT = 5


class FileSource(Source):
    """Files of `data_source`, sorted by how they are named there; one file is one granule."""

    def __init__(self, source: DataSource) -> None:
        if not source.files:
            raise GridConfigError(
                "data_source.files is missing: a path, a pattern such as data/*.h5, or a list of them; or a catalog"
            )
        missing = [path for path in source.files if not os.path.isfile(path)]
        if missing:
            raise FileNotFoundError(f"data_source.files: there is no file {missing[0]!r}")
        self.source = replace(source, files=(), catalog=None)
        self.files: Mapping[int, str] = dict(enumerate(source.files))
        self.catalog = source.catalog
        self._kept: dict[tuple[int, frozenset[str], int], list[Batch]] = {}
        self._lock = threading.Lock()
        self._groups: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        kept = {"source": self.source, "files": self.files, "catalog": self.catalog}
        kept["_groups"] = set()
        return {**kept, "_kept": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    @property
    def names(self) -> Sequence[str]:
        return [os.path.basename(path) for path in self.files.values()]

    def check(self, columns: frozenset[str]) -> None:
        """Read one point, with all of its columns, so that names that are wrong are known before a shard is begun."""
        if self.catalog is None:
            for granule in list(self.files)[:_LOOKED_AT]:
                if next(self._read(granule, columns, 1), None) is not None:
                    break

    def survey(self, granule: int, grid: Grid, most: int) -> Survey:
        """As in Source; a granule with a footprint is not opened."""
        if self.catalog is None:
            return super().survey(granule, grid, most)
        shards = covering(grid, self.catalog.granules[granule].region, self.catalog.margin)
        return Survey(shards, 0, 0, 0, counted=False)

    def unseen(self) -> Sequence[str]:
        if self.catalog is not None:
            return ()
        missing = [group for group in self.source.groups if group and group not in self._groups]
        where = self.source.longitude
        return [
            f"data_source.groups: {group!r} is in none of {len(self.files)} files, or has no points: there is no "
            f"{where.replace('{group}', group)!r}"
            for group in missing
        ]

    def part(self, shard: int, granules: Sequence[int], columns: frozenset[str]) -> FileSource:
        """The source with no other files than a shard's: a plan of many granules is not sent with every task."""
        part = FileSource.__new__(FileSource)
        part.__dict__.update(self.__dict__)
        part.files, part.catalog = {granule: self.files[granule] for granule in granules}, None
        return part

    def batches(self, granule: int, columns: frozenset[str], most: int) -> Iterator[Batch]:
        """As in Source; small granules are kept for the other shards that they touch."""
        key = (granule, columns, most)
        kept = self._kept.get(key)
        if kept is not None:
            yield from kept
            return
        batches: list[Batch] | None = []
        nbytes = 0
        for batch in self._read(granule, columns, most):
            yield batch
            nbytes += len(batch) * 8 * (2 + len(columns))
            if batches is not None and nbytes <= KEPT_NBYTES // 4:
                batches.append(batch)
            else:
                batches = None
        if batches is not None:
            with self._lock:
                while self._kept and sum(map(_nbytes, self._kept.values())) + nbytes > KEPT_NBYTES:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = batches

    def _read(self, granule: int, columns: frozenset[str], most: int) -> Iterator[Batch]:
        source = self.source
        paths = {"longitude ": source.longitude, "latitude ": source.latitude}
        for name in columns | (expression_columns(source.filters) & set(source.variables)):
            paths[name] = source.variables[name]
        paths |= wanted(source.filters)
        read = reader_of(source.reader)
        for group in source.groups:
            plain = {key: _path(how, group) for key, how in paths.items()}
            for found in read(self.files[granule], group, plain, most):
                self._groups.add(group)
                for name, how in paths.items():
                    found[name] = self._column(granule, plain[name], found[name], how)
                n = len(found["longitude "])
                keep = chosen(source.filters, found, n)
                batch = Batch(
                    found["longitude "], found["latitude "], {name: found[name] for name in columns}
                )
                if not keep.all():
                    batch = batch.select(keep)
                    batch.filtered = n - len(batch)
                yield batch

    def _column(self, granule: int, path: str, values: Array, how: Any) -> Array:
        """One dimension of numbers, of a dataset that may have two."""
        where = f"{os.path.basename(self.files[granule])}: {path!r}"
        if isinstance(how, Mapping) and "column" in how:
            k = how["column"]
            if values.ndim != 2 or type(k) is not int or not -values.shape[1] <= k < values.shape[1]:
                raise GridConfigError(
                    f"{where} has shape {('points', *values.shape[1:])}, and column is {k!r}; a column of its second "
                    "dimension is needed"
                )
            values = values[:, k]
        # a filter says itself which column it looks at
        if values.ndim != 1 and not isinstance(how, Mapping) and how not in self._filtered:
            raise GridConfigError(
                f"{where} has {values.ndim} dimensions; path: and column: name one column of it"
            )
        if values.dtype.kind not in "biuf":
            raise GridConfigError(f"{where} holds {values.dtype}; numbers are needed")
        return values

    @property
    def _filtered(self) -> set[Any]:
        return set(wanted(self.source.filters).values())

    def fingerprint(self, shard: int, granules: Sequence[int]) -> str:
        seen = hashlib.blake2b(digest_size=16)
        for granule in granules:
            path = self.files[granule]
            seen.update(f"{os.path.basename(path)}:{_hash(path)};".encode())
        return seen.hexdigest()


def _nbytes(batches: list[Batch]) -> int:
    return sum(len(batch) * 8 * (2 + len(batch.columns)) for batch in batches)


def _path(how: Any, group: str) -> str:
    text: str = how["path"] if isinstance(how, Mapping) else how
    return text.replace("{group}", group)


def _hash(path: str) -> str:
    """The hash of a file's bytes, all of them; of a file that has not changed, read once in a process."""
    found = os.stat(path)
    return _hash_of(path, found.st_size, found.st_mtime_ns, found.st_ino)


@lru_cache(maxsize=100_000)
def _hash_of(path: str, size: int, changed: int, number: int) -> str:
    seen = hashlib.blake2b(str(size).encode(), digest_size=16)
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            seen.update(part)
    return seen.hexdigest()
