"""Chunk keys: the name a chunk has in the store, from its grid index and back.

What it does not do: know the array's prefix, or how many chunks there are.

Specification: Zarr v3 core, "Chunk key encoding" (`default`, `v2`). `suffix` and `fanout` are only proposed: whoever
builds a layout asks whether they are wanted (options.DRAFTS).
https://github.com/zarr-developers/zarr-extensions/pull/28 and .../pull/31

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

__all__ = [
    "ChunkKeys",
    "DefaultKeys",
    "FanoutKeys",
    "SuffixKeys",
    "V2Keys",
    "chunk_keys_from_extension",
    "known_chunk_keys",
    "register_chunk_keys",
]

Build: TypeAlias = Callable[[Mapping[str, Any], str], "ChunkKeys"]

NUMBER = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)  # the only way each index is written
DIGITS = re.compile(r"[0-9]+", re.ASCII)
#: the end of a key, which no store could take for a folder
SUFFIX = re.compile(r"[^/\\\x00-\x1f]{1,64}")
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

    __slots__ = ("_start", "separator")

    empty: str  # the key of the one chunk of an array without dimensions
    lead: tuple[str, ...]  # what stands before the first index

    def __init__(self, separator: str) -> None:
        if separator not in SEPARATORS:
            _refuse([("separator", _not_a_separator(separator))])
        self.separator = separator
        self._start = separator.join([*self.lead, ""])

    def key(self, index: Sequence[int]) -> str:
        return self._start + self.separator.join(map(str, index)) if len(index) else self.empty

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


class SuffixKeys(ChunkKeys):
    """Another encoding's keys with an end of their own, such as ".tif": `c/1/0.tif`."""

    name = "suffix"

    def __init__(self, suffix: str, base: ChunkKeys | None = None) -> None:
        if not isinstance(suffix, str) or not SUFFIX.fullmatch(suffix):
            sentence = f"found {suffix!r:.60}; a text without slashes, such as '.tif', is allowed"
            _refuse([("suffix", sentence)])
        if isinstance(base, SuffixKeys):
            _refuse([("base_encoding", "found a suffix inside a suffix; state both in one")])
        self.suffix = suffix
        self.base = DefaultKeys() if base is None else base

    def key(self, index: Sequence[int]) -> str:
        return self.base.key(index) + self.suffix

    def parse(self, key: str, ndim: int) -> tuple[int, ...] | None:
        return self.base.parse(key.removesuffix(self.suffix), ndim) if key.endswith(self.suffix) else None

    def configuration(self) -> dict[str, Any]:
        return {"suffix": self.suffix, "base_encoding": self.base.to_extension()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SuffixKeys) and (other.suffix, other.base) == (self.suffix, self.base)

    def __hash__(self) -> int:
        return hash((self.suffix, self.base))

    def __repr__(self) -> str:
        return f"SuffixKeys({self.suffix!r}, {self.base!r})"


class FanoutKeys(ChunkKeys):
    """Indices cut into groups of digits, so that no folder has more than `max_children`: 1234567 is `2/001/234/567`.

    max_children: a power of ten, at least 100. The number before each index says how many groups follow the first.
    """

    name = "fanout"

    def __init__(self, max_children: int = 1000) -> None:
        known = isinstance(max_children, int) and not isinstance(max_children, bool)
        if not known or not 100 <= max_children <= LARGEST:
            _refuse([("max_children", f"found {max_children!r:.40}; an integer of at least 100 is allowed")])
        self.digits = len(str(max_children)) - 1
        self.max_children = 10**self.digits

    def key(self, index: Sequence[int]) -> str:
        parts = ["c"]
        for one in index:
            groups = self._groups(one)
            parts += [str(len(groups) - 1), *groups]
        return "/".join(parts)

    def _groups(self, index: int) -> list[str]:
        text = str(index)
        text = text.zfill(-(-len(text) // self.digits) * self.digits)
        return [text[start : start + self.digits] for start in range(0, len(text), self.digits)]

    def parse(self, key: str, ndim: int) -> tuple[int, ...] | None:
        lead, *parts = key.split("/")
        if lead != "c":
            return None
        index: list[int] = []
        place = 0
        for _ in range(ndim):
            if place >= len(parts) or not NUMBER.fullmatch(parts[place]) or len(parts[place]) > 2:
                return None
            stop = place + 2 + int(parts[place])
            text = "".join(parts[place + 1 : stop])
            if stop > len(parts) or not DIGITS.fullmatch(text) or len(text) > 30:
                return None
            index.append(int(text))
            place = stop
        found = tuple(index)
        return found if max(found, default=0) <= LARGEST and self.key(found) == key else None

    def configuration(self) -> dict[str, Any]:
        return {"max_children": self.max_children}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FanoutKeys) and other.max_children == self.max_children

    def __hash__(self) -> int:
        return hash((self.name, self.max_children))

    def __repr__(self) -> str:
        return f"FanoutKeys({self.max_children})"


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
            known = ", ".join(known_chunk_keys())
            _refuse([("chunk_key_encoding.name", f"{extension.name!r:.60} is not known; known: {known}")])
            raise AssertionError
        return build(extension.configuration or {}, "chunk_key_encoding.configuration")
    except MetadataError as error:
        if where:
            raise MetadataError(f"{where}: {error}", error.problems) from None
        raise


def known_chunk_keys() -> tuple[str, ...]:
    """Every name that documents may use, in alphabetical order."""
    return tuple(sorted(name for name in _builders if not name.startswith("terrazzo.")))


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


def _build_suffix(configuration: Mapping[str, Any], path: str) -> ChunkKeys:
    """`base_encoding`, or `base-encoding` as the proposal also has it; without one `default`."""
    bases = [member for member in ("base_encoding", "base-encoding") if member in configuration]
    _only(configuration, ("suffix", *bases[:1]), path)
    base: ChunkKeys | None = None
    if bases:
        found = configuration[bases[0]]
        named: Any = {"name": found} if isinstance(found, str) else found
        name = named.get("name") if isinstance(named, Mapping) else None
        build = _builders.get(name) if isinstance(name, str) else None
        if build is None or name == SuffixKeys.name:
            _refuse(
                [(f"{path}.{bases[0]}", f"found {found!r:.60}; an encoding such as 'default' is allowed")]
            )
        assert build is not None
        inner: Any = named.get("configuration") or {}
        if not isinstance(inner, Mapping):
            _refuse([(f"{path}.{bases[0]}.configuration", f"found {inner!r:.60}, must be an object")])
        base = build(inner, f"{path}.{bases[0]}.configuration")
    return _placed(path, SuffixKeys, configuration.get("suffix"), base)


def _build_fanout(configuration: Mapping[str, Any], path: str) -> ChunkKeys:
    _only(configuration, ("max_children",), path)
    return _placed(path, FanoutKeys, configuration.get("max_children", 1000))


def _only(configuration: Mapping[str, Any], members: Sequence[str], path: str) -> None:
    allowed = f"not a member of this encoding; allowed: {', '.join(members)}"
    _refuse([(f"{path}.{member}", allowed) for member in configuration if member not in members])


def _placed(path: str, kind: Callable[..., ChunkKeys], *arguments: Any) -> ChunkKeys:
    try:
        return kind(*arguments)
    except MetadataError as error:
        _refuse([(f"{path}.{where}", sentence) for where, sentence in error.problems])
        raise


def _not_a_separator(found: object) -> str:
    return f'found {found!r:.20}; allowed are "/" and "."'


def _refuse(problems: list[tuple[str, str]]) -> None:
    if problems:
        raise MetadataError("; ".join(f"{path}: {sentence}" for path, sentence in problems), tuple(problems))


_builders: dict[str, Build] = {
    DefaultKeys.name: _build_joined(DefaultKeys),
    V2Keys.name: _build_joined(V2Keys),
    SuffixKeys.name: _build_suffix,
    FanoutKeys.name: _build_fanout,
}
