"""Formats of files of points: HDF5 groups (ICESat-2 and its like), CSV, Parquet and Arrow, batch by batch.

What it does not do: filter, or know cells. What cannot be read is said with the file's name, and the line where there
are lines.
"""

from __future__ import annotations

import csv
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np

from terrazzo.gridding.errors import GridConfigError
from terrazzo.gridding.inputs.source import Array
from terrazzo.gridding.optional import required

__all__ = ["Reader", "reader_of"]

#: (path, group, {key: path or column name}, most) -> batches of columns
Reader = Callable[[str, str, Mapping[str, str], int], Iterator[dict[str, Array]]]


def reader_of(name: str) -> Reader:
    """The reader of a format, whose errors name the file."""
    read = _READERS[name]

    def named(path: str, group: str, paths: Mapping[str, str], most: int) -> Iterator[dict[str, Array]]:
        try:
            yield from read(path, group, paths, most)
        except GridConfigError:
            raise
        except OSError as error:
            if error.errno is not None:  # of the disk, not of what is written on it
                raise
            raise _unreadable(path, name, error) from None
        except (ValueError, KeyError, TypeError, EOFError, csv.Error, lzma.LZMAError, zlib.error) as error:
            raise _unreadable(path, name, error) from None

    return named


def _unreadable(path: str, name: str, error: Exception) -> GridConfigError:
    return GridConfigError(f"{path!r} cannot be read as {name}: {error or type(error).__name__}")


def _hdf5(path: str, group: str, paths: Mapping[str, str], most: int) -> Iterator[dict[str, Array]]:
    h5py = required("h5py", "HDF5 files", "hdf5")
    with h5py.File(path, "r") as file:
        if paths["longitude "] not in file:
            return  # a granule need not have every beam
        sets = {}
        for key, name in paths.items():
            if not isinstance(file.get(name), h5py.Dataset):
                raise GridConfigError(f"{os.path.basename(path)} has no dataset {name!r}")
            sets[key] = file[name]
            if not sets[key].shape:
                raise GridConfigError(
                    f"{os.path.basename(path)}: {name!r} is a single value; one per point is needed"
                )
        n = sets["longitude "].shape[0]
        for key, one in sets.items():
            if one.shape[0] != n:
                raise GridConfigError(
                    f"{os.path.basename(path)}: {paths[key]!r} has shape {one.shape}, and there are {n} points"
                )
        for start in range(0, n, most):
            yield {key: _meant(one[start : start + most], one.attrs) for key, one in sets.items()}


def _meant(values: Array, said: Mapping[str, Any]) -> Array:
    """What stored values mean by CF's attributes: NaN where they are `_FillValue`; scaled, and moved by an offset.

    Integers without any of these stay integers.
    """
    if values.dtype.kind not in "iuf":
        return values
    fill = np.ravel(said.get("_FillValue", ()))
    missing = (
        values == fill[0] if fill.size == 1 and fill.dtype.kind in "iuf" else np.zeros(values.shape, np.bool_)
    )
    scale, offset = (np.ravel(said.get(name, ())) for name in ("scale_factor", "add_offset"))
    found = values
    for each, function in ((scale, np.multiply), (offset, np.add)):
        if each.size == 1 and each.dtype.kind in "iuf":
            found = function(found, np.float64(each[0]), dtype=np.float64)
    if missing.any():
        found = np.where(missing, np.nan, found.astype(np.float64) if found.dtype.kind != "f" else found)
    return found


def _csv(path: str, group: str, paths: Mapping[str, str], most: int) -> Iterator[dict[str, Array]]:
    with _text(path) as file:
        rows = csv.reader(file)
        header = [name.strip() for name in next(rows, [])]
        _look(path, paths, header)
        at = {name: header.index(name) for name in set(paths.values())}
        kept: list[list[str]] = []
        lines: list[int] = []
        for row in rows:
            if len(row) != len(header):
                if not "".join(row).strip():
                    continue
                raise GridConfigError(
                    f"{os.path.basename(path)}, line {rows.line_num}: {len(row)} values; the header has {len(header)} "
                    "columns"
                )
            kept.append(row)
            lines.append(rows.line_num)
            if len(kept) == most:
                yield _numbers(kept, lines, at, paths, path)
                kept, lines = [], []
        if kept:
            yield _numbers(kept, lines, at, paths, path)


def _numbers(
    rows: list[list[str]], lines: list[int], at: Mapping[str, int], paths: Mapping[str, str], path: str
) -> dict[str, Array]:
    columns = {}
    for name, k in at.items():
        try:
            columns[name] = np.array([row[k].strip() or "nan" for row in rows], np.str_).astype(np.float64)
        except ValueError:
            line = next(line for row, line in zip(rows, lines, strict=True) if not _is_number(row[k]))
            found = rows[lines.index(line)][k]
            raise GridConfigError(
                f"{os.path.basename(path)}, line {line}: column {name!r} holds {found[:40]!r}, and no number"
            ) from None
    return {key: columns[name] for key, name in paths.items()}


def _is_number(text: str) -> bool:
    try:
        float(text.strip() or "nan")
    except ValueError:
        return False
    return True


def _text(path: str) -> IO[str]:
    if path.endswith(".gz"):
        import gzip

        return gzip.open(path, "rt", encoding="utf-8", newline="")
    if path.endswith(".xz"):
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
        if names.count(name) != 1:
            what = "has no column" if name not in names else f"has {names.count(name)} columns called"
            raise GridConfigError(
                f"{os.path.basename(path)} {what} {name!r}; there are {', '.join(names) or 'none'}"
            )


def _renamed(batch: Any, paths: Mapping[str, str]) -> dict[str, Array]:
    columns = {name: _from_arrow(batch, name) for name in set(paths.values())}
    return {key: columns[name] for key, name in paths.items()}


def _from_arrow(batch: Any, name: str) -> Array:
    column = batch.column(batch.schema.get_field_index(name))
    if column.null_count and str(column.type).startswith(("int", "uint", "bool")):
        column = column.cast("float64")  # numpy's integers have no place for a missing value
    return np.asarray(column.to_numpy(zero_copy_only=False))


_READERS: dict[str, Reader] = {"hdf5": _hdf5, "csv": _csv, "parquet": _parquet, "arrow": _arrow}
