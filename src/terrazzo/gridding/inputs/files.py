"""Files as granules: HDF5 groups (ICESat-2 and its like), CSV, Parquet and Arrow.

What it does not do: fetch them; paths are local. A file is opened when its turn comes, read batch by batch, and closed.
"""

from __future__ import annotations

import csv
import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import IO, Any

import numpy as np

from terrazzo.gridding.configuration import DataSource
from terrazzo.gridding.covering import covering
from terrazzo.gridding.errors import GridConfigError
from terrazzo.gridding.grid import Grid
from terrazzo.gridding.inputs.columns import columns_of
from terrazzo.gridding.inputs.filters import chosen, expression_columns, wanted
from terrazzo.gridding.inputs.source import Array, Batch, Source, Survey
from terrazzo.gridding.optional import required

__all__ = ["FileSource"]

#: bytes of points of small files that a source keeps, because their shards come one after another
KEPT_NBYTES = 128 << 20
#: (path, group, {key: path or column name}, most) -> batches of columns
Reader = Callable[[str, str, Mapping[str, str], int], Iterator[dict[str, Array]]]


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

    def survey(self, granule: int, grid: Grid, most: int) -> Survey:
        """As in Source; a granule with a footprint is not opened."""
        if self.catalog is None:
            return super().survey(granule, grid, most)
        shards = covering(grid, self.catalog.granules[granule].region, self.catalog.margin)
        return Survey(shards, 0, 0, 0, counted=False)

    def unseen(self) -> Sequence[str]:
        if self.catalog is not None:
            return ()
        missing = [group for group in self.source.groups if group not in self._groups]
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
        read = _READERS[source.reader]
        for group in source.groups:
            plain = {key: _path(how, group) for key, how in paths.items()}
            for found in read(self.files[granule], group, plain, most):
                self._groups.add(group)
                for name, how in paths.items():
                    if isinstance(how, Mapping) and "column" in how:
                        found[name] = found[name][:, how["column"]]
                n = len(found["longitude "])
                keep = chosen(source.filters, found, n)
                batch = Batch(
                    found["longitude "], found["latitude "], {name: found[name] for name in columns}
                )
                if not keep.all():
                    batch = batch.select(keep)
                    batch.filtered = n - len(batch)
                yield batch

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


def _hdf5(path: str, group: str, paths: Mapping[str, str], most: int) -> Iterator[dict[str, Array]]:
    h5py = required("h5py", "HDF5 files", "hdf5")
    with h5py.File(path, "r") as file:
        if paths["longitude "] not in file:
            return  # a granule need not have every beam
        sets = {}
        for key, name in paths.items():
            if name not in file:
                raise GridConfigError(f"{os.path.basename(path)} has no dataset {name!r}")
            sets[key] = file[name]
        n = sets["longitude "].shape[0]
        for key, one in sets.items():
            if not one.shape or one.shape[0] != n:
                raise GridConfigError(
                    f"{os.path.basename(path)}: {paths[key]!r} has shape {one.shape}, and there are {n} points"
                )
        for start in range(0, n, most):
            yield {key: one[start : start + most] for key, one in sets.items()}


def _csv(path: str, group: str, paths: Mapping[str, str], most: int) -> Iterator[dict[str, Array]]:
    with _text(path) as file:
        rows = csv.reader(file)
        header = [name.strip() for name in next(rows, [])]
        for name in paths.values():
            if name not in header:
                raise GridConfigError(
                    f"{os.path.basename(path)} has no column {name!r}; there are {', '.join(header)}"
                )
        at = {name: header.index(name) for name in set(paths.values())}
        kept: list[list[str]] = []
        for row in rows:
            if row:
                kept.append(row)
            if len(kept) == most:
                yield _numbers(kept, at, paths, path)
                kept = []
        if kept:
            yield _numbers(kept, at, paths, path)


def _numbers(
    rows: list[list[str]], at: Mapping[str, int], paths: Mapping[str, str], path: str
) -> dict[str, Array]:
    columns = {}
    for name, k in at.items():
        try:
            columns[name] = np.array([row[k] or "nan" for row in rows], np.str_).astype(np.float64)
        except (ValueError, IndexError) as error:
            raise GridConfigError(
                f"{os.path.basename(path)}: column {name!r} holds something else than numbers: {error}"
            ) from None
    return {key: columns[name] for key, name in paths.items()}


def _text(path: str) -> IO[str]:
    if path.endswith(".gz"):
        import gzip

        return gzip.open(path, "rt", encoding="utf-8", newline="")
    if path.endswith(".xz"):
        import lzma

        return lzma.open(path, "rt", encoding="utf-8", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def _parquet(path: str, group: str, paths: Mapping[str, str], most: int) -> Iterator[dict[str, Array]]:
    parquet = required("pyarrow.parquet", "Parquet files", "parquet")
    with parquet.ParquetFile(path) as file:
        _look(path, paths, file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=most, columns=sorted(set(paths.values()))):
            yield _renamed(batch, paths)


def _arrow(path: str, group: str, paths: Mapping[str, str], most: int) -> Iterator[dict[str, Array]]:
    ipc = required("pyarrow.ipc", "Arrow files", "parquet")
    with open(path, "rb") as file:
        reader = ipc.open_file(file)
        _look(path, paths, reader.schema.names)
        for k in range(reader.num_record_batches):
            batch = reader.get_batch(k)
            for start in range(0, batch.num_rows, most):
                yield _renamed(batch.slice(start, most), paths)


def _look(path: str, paths: Mapping[str, str], names: Sequence[str]) -> None:
    for name in paths.values():
        if name not in names:
            raise GridConfigError(
                f"{os.path.basename(path)} has no column {name!r}; there are {', '.join(names)}"
            )


def _renamed(batch: Any, paths: Mapping[str, str]) -> dict[str, Array]:
    columns = columns_of({name: columns_of_arrow(batch, name) for name in set(paths.values())})
    return {key: columns[name] for key, name in paths.items()}


def columns_of_arrow(batch: Any, name: str) -> Array:
    column = batch.column(batch.schema.get_field_index(name))
    if column.null_count:
        column = column.cast("float64")
    return np.asarray(column.to_numpy(zero_copy_only=False))


_READERS: dict[str, Reader] = {"hdf5": _hdf5, "csv": _csv, "parquet": _parquet, "arrow": _arrow}
