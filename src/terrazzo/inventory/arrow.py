"""Columns of numpy as an Arrow stream, for any library that takes one.

What it does not do: need an Arrow library; a stream is three structures of C and a PyCapsule around them.
Specification: Arrow C data, C stream and PyCapsule interfaces; primitive columns, and text by dictionary.

Whoever takes a structure calls its `release` once; until then the numpy arrays behind it are kept in `_kept`.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["BATCH", "Column", "stream_capsule"]

Array = np.ndarray[Any, Any]

#: rows of a batch
BATCH = 1 << 16
_FORMATS = {"int64": b"l", "uint64": b"L", "int32": b"i"}
_EINVAL = 22


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A name and its values; with `words`, values are numbers of them."""

    name: str
    values: Array
    words: Sequence[str] | None = None


class _Schema(ctypes.Structure):
    pass


class _Batch(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_FREE_SCHEMA = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))
_FREE_BATCH = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Batch))
_FREE_STREAM = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))
_GIVE_SCHEMA = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))
_GIVE_BATCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Batch))
_GIVE_WORDS = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Stream))

_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
_Batch._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Batch))),
    ("dictionary", ctypes.POINTER(_Batch)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", ctypes.c_void_p),
    ("get_next", ctypes.c_void_p),
    ("get_last_error", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

#: what structures that are out in the world stand on, by the number in their private_data
_kept: dict[int, Any] = {}
_numbers = itertools.count(1)


def _keep(*things: Any) -> int:
    number = next(_numbers)
    _kept[number] = things
    return number


def _release(pointer: Any) -> None:
    """Mark a structure as released, those below it first, and let go of what it stood on."""
    it = pointer.contents
    if not it.release:
        return
    for k in range(it.n_children):
        child = it.children[k]
        if child and child.contents.release:
            _release(child)
    if it.dictionary and it.dictionary.contents.release:
        _release(it.dictionary)
    it.release = None
    _kept.pop(it.private_data, None)


def _release_stream(pointer: Any) -> None:
    pointer.contents.release = None
    _kept.pop(pointer.contents.private_data, None)


def _next_schema(stream: Any, out: Any) -> int:
    try:
        columns, _ = _kept[stream.contents.private_data]
        _fill_schema(out.contents, columns)
        return 0
    except Exception:  # nothing may pass through C
        return _EINVAL


def _next_batch(stream: Any, out: Any) -> int:
    try:
        columns, starts = _kept[stream.contents.private_data]
        start = next(starts, None)
        if start is None:
            out.contents.release = None  # the end of the stream
        else:
            _fill_batch(out.contents, columns, start)
        return 0
    except Exception:
        return _EINVAL


# what C calls; kept alive here
_free_schema = _FREE_SCHEMA(_release)
_free_batch = _FREE_BATCH(_release)
_free_stream = _FREE_STREAM(_release_stream)
_give_schema = _GIVE_SCHEMA(_next_schema)
_give_batch = _GIVE_BATCH(_next_batch)
_give_no_words = _GIVE_WORDS(lambda stream: None)


def stream_capsule(columns: Sequence[Column], *, schema_only: bool = False) -> object:
    """A PyCapsule "arrow_array_stream" over columns of one length (or "arrow_schema")."""
    if schema_only:
        schema = _Schema()
        _fill_schema(schema, columns)
        return _capsule(schema, b"arrow_schema", _drop_schema)
    rows = len(columns[0].values) if columns else 0
    stream = _Stream()
    stream.get_schema = _address(_give_schema)
    stream.get_next = _address(_give_batch)
    stream.get_last_error = _address(_give_no_words)
    stream.release = _address(_free_stream)
    stream.private_data = _keep(list(columns), iter(range(0, rows, BATCH)))
    return _capsule(stream, b"arrow_array_stream", _drop_stream)


def _fill_schema(schema: _Schema, columns: Sequence[Column]) -> None:
    children = []
    for column in columns:
        child = _Schema()
        name = column.name.encode()
        values = _numbered(column)
        child.format, child.name, child.flags = _FORMATS[values.dtype.name], name, 0
        child.release, below = _address(_free_schema), None
        if column.words is not None:
            below = _Schema()
            below.format, below.name, below.release = b"u", b"", _address(_free_schema)
            below.private_data = _keep(below)
            child.dictionary = ctypes.pointer(below)
        child.private_data = _keep(child, below, name)
        children.append(child)
    pointers = (ctypes.POINTER(_Schema) * len(children))(*[ctypes.pointer(c) for c in children])
    ctypes.memset(ctypes.addressof(schema), 0, ctypes.sizeof(schema))  # the taker's, with anything in it
    schema.format, schema.name = b"+s", b""
    schema.n_children = len(children)
    schema.children = ctypes.cast(pointers, ctypes.POINTER(ctypes.POINTER(_Schema)))
    schema.release = _address(_free_schema)
    schema.private_data = _keep(pointers, children)


def _fill_batch(batch: _Batch, columns: Sequence[Column], start: int) -> None:
    children = []
    length = 0
    for column in columns:
        values = _numbered(column)[start : start + BATCH]
        length = len(values)
        child = _plain(length, [values])
        if column.words is not None:
            text = [word.encode() for word in column.words]
            ends = np.zeros(len(text) + 1, np.int32)
            np.cumsum([len(word) for word in text], out=ends[1:])
            child.dictionary = ctypes.pointer(
                _plain(len(text), [ends, np.frombuffer(b"".join(text) or b"\0", np.uint8)])
            )
        children.append(child)
    pointers = (ctypes.POINTER(_Batch) * len(children))(*[ctypes.pointer(c) for c in children])
    buffers = (ctypes.c_void_p * 1)(None)
    ctypes.memset(ctypes.addressof(batch), 0, ctypes.sizeof(batch))
    batch.length, batch.n_buffers, batch.n_children = length, 1, len(children)
    batch.buffers = ctypes.cast(buffers, ctypes.POINTER(ctypes.c_void_p))
    batch.children = ctypes.cast(pointers, ctypes.POINTER(ctypes.POINTER(_Batch)))
    batch.release = _address(_free_batch)
    batch.private_data = _keep(pointers, children, buffers)


def _plain(length: int, arrays: Sequence[Array]) -> _Batch:
    """A column: no nulls, then its buffers."""
    it = _Batch()
    arrays = [np.ascontiguousarray(array) for array in arrays]
    buffers = (ctypes.c_void_p * (1 + len(arrays)))(None, *[array.ctypes.data for array in arrays])
    it.length, it.n_buffers = length, 1 + len(arrays)
    it.buffers = ctypes.cast(buffers, ctypes.POINTER(ctypes.c_void_p))
    it.release = _address(_free_batch)
    it.private_data = _keep(it, buffers, arrays)
    return it


def _numbered(column: Column) -> Array:
    """Values in the type that goes out: numbers of words have 32 bits, as dictionaries mostly have."""
    return column.values.astype(np.int32) if column.words is not None else column.values


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _DESTRUCTOR]
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


def _drop(capsule: int, name: bytes, kind: Any, free: Any) -> None:
    """The capsule dies: release what nobody took, and the structure itself."""
    address = _get_pointer(capsule, name)
    pointer = ctypes.cast(address, ctypes.POINTER(kind))
    if pointer.contents.release:
        free(pointer)
    _kept.pop(-address, None)


_drop_schema = _DESTRUCTOR(lambda capsule: _drop(capsule, b"arrow_schema", _Schema, _free_schema))
_drop_stream = _DESTRUCTOR(lambda capsule: _drop(capsule, b"arrow_array_stream", _Stream, _free_stream))


def _capsule(structure: Any, name: bytes, destructor: Any) -> object:
    address = ctypes.addressof(structure)
    _kept[-address] = structure
    return _new_capsule(address, name, destructor)
