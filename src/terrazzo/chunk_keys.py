"""Chunk keys: the name a chunk has in the store, from its grid index and back.

What it does not do: know the array's prefix, or how many chunks there are.

Specification: Zarr v3 core, "Chunk key encoding" (`default`, `v2`).

An encoding of your own is a subclass of `ChunkKeys`, made known with `register_chunk_keys(name, build)`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from terrazzo.errors import MetadataError

__all__ = ["ChunkKeys", "DefaultKeys", "V2Keys", "chunk_keys_from_extension", "register_chunk_keys"]

Build: TypeAlias = Callable[[Mapping[str, Any], str], "ChunkKeys"]

NUMBER = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)  # the only way each index is written
LARGEST = 2**63 - 1
SEPARATORS = ("/", ".")


class ChunkKeys(ABC):
    """How grid indices become keys: the contract of every encoding."""

    name: str

    @abstractmethod
    def key(self, index: Sequence[int]) -> str:
        """The key of one chunk."""

    @abstractmethod
    def parse(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """The index whose key this is, or None if it is no chunk's key: `parse(key(index), len(index)) == index`."""

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """The `configuration` member of the array document."""

    def keys(self, indices: npt.NDArray[np.int64]) -> list[str]:
        """The keys of many chunks, from indices of shape (n, ndim)."""
        return [self.key(index) for index in indices.tolist()]

    def to_extension(self) -> dict[str, Any]:
        """The `chunk_key_encoding` member of the array document."""
        return {"name": self.name, "configuration": self.configuration()}


class _Joined(ChunkKeys):
    """Indices in decimal with a separator between them."""

    __slots__ = ("separator",)

    empty: str  # the key of the one chunk of an array without dimensions
    lead: tuple[str, ...]  # what stands before the first index

    def __init__(self, separator: str) -> None:
        if separator not in SEPARATORS:
            _refuse([("separator", _not_a_separator(separator))])
        self.separator = separator

    def key(self, index: Sequence[int]) -> str:
        return self.separator.join([*self.lead, *map(str, index)]) if len(index) else self.empty

    def keys(self, indices: npt.NDArray[np.int64]) -> list[str]:
        count, ndim = indices.shape
        if ndim == 0:
            return [self.empty] * count
        pattern = self.separator.join([*self.lead, *["%d"] * ndim])
        # columns, not rows: zip makes the tuples that formatting wants
        return [pattern % index for index in zip(*indices.T.tolist(), strict=True)]

    def parse(self, key: str, ndim: int) -> tuple[int, ...] | None:
        if ndim == 0:
            return () if key == self.empty else None
        parts = key.split(self.separator)
        skip = len(self.lead)
        if len(parts) != skip + ndim or tuple(parts[:skip]) != self.lead:
            return None
        numbers = parts[skip:]
        if not all(map(NUMBER.fullmatch, numbers)):
            return None
        index = tuple(map(int, numbers))
        return index if max(index) <= LARGEST else None

    def configuration(self) -> dict[str, Any]:
        return {"separator": self.separator}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.separator == self.separator

    def __hash__(self) -> int:
        return hash((self.name, self.separator))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.separator!r})"


class DefaultKeys(_Joined):
    """`c/1/23/45`; without dimensions `c`."""

    name = "default"
    empty = "c"
    lead = ("c",)
    usual = "/"

    def __init__(self, separator: str = "/") -> None:
        super().__init__(separator)


class V2Keys(_Joined):
    """`1.23.45`, as Zarr v2 named its chunks; without dimensions `0`."""

    name = "v2"
    empty = "0"
    lead = ()
    usual = "."

    def __init__(self, separator: str = ".") -> None:
        super().__init__(separator)


class Extension(Protocol):
    """A name and its configuration, as array documents hold them."""

    @property
    def name(self) -> str: ...

    @property
    def configuration(self) -> Mapping[str, Any] | None: ...


def chunk_keys_from_extension(extension: Extension, where: str = "") -> ChunkKeys:
    """The encoding an array document describes; its configuration may be absent. MetadataError lists every problem,
    after `where` (the document's key)."""
    build = _builders.get(extension.name)
    try:
        if build is None:
            known = ", ".join(sorted(name for name in _builders if not name.startswith("terrazzo.")))
            _refuse([("chunk_key_encoding.name", f"{extension.name!r:.60} is not known; known: {known}")])
            raise AssertionError
        return build(extension.configuration or {}, "chunk_key_encoding.configuration")
    except MetadataError as error:
        if where:
            raise MetadataError(f"{where}: {error}", error.problems) from None
        raise


def register_chunk_keys(name: str, build: Build) -> None:
    """Make an encoding known by its name in array documents: `build(configuration, path) -> ChunkKeys`."""
    _builders[name] = build


def _build_joined(kind: type[DefaultKeys] | type[V2Keys]) -> Build:
    def build(configuration: Mapping[str, Any], path: str) -> ChunkKeys:
        problems = [
            (f"{path}.{member}", 'not a member of this encoding; allowed: "separator"')
            for member in configuration
            if member != "separator"
        ]
        separator = configuration.get("separator", kind.usual)
        if separator not in SEPARATORS:
            problems.append((f"{path}.separator", _not_a_separator(separator)))
        _refuse(problems)
        return kind(separator)

    return build


def _not_a_separator(found: object) -> str:
    return f'found {found!r:.20}; allowed are "/" and "."'


def _refuse(problems: list[tuple[str, str]]) -> None:
    if problems:
        raise MetadataError("; ".join(f"{path}: {sentence}" for path, sentence in problems), tuple(problems))


_builders: dict[str, Build] = {"default": _build_joined(DefaultKeys), "v2": _build_joined(V2Keys)}
