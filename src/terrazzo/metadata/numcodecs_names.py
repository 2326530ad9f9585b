"""Codecs as numcodecs configures them ({"id": "blosc", ...}) to what Zarr 3 says, and back.

What it does not do: make codecs. Zarr 2 and the 2022 draft of zarr-python share these configurations.

https://numcodecs.readthedocs.io/en/stable/
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from terrazzo.errors import UnknownCodecError
from terrazzo.metadata.numpy_types import ElementType
from terrazzo.metadata.problems import describe, join, refuse

__all__ = ["chain_from_numcodecs", "chain_to_numcodecs", "objects_of"]

SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
#: from array to array
FILTERS = frozenset({"delta", "fixedscaleoffset", "quantize", "bitround", "astype", "packbits", "categorize"})
#: what the objects that a first filter takes are, by the names of data types in documents of Zarr 3
OBJECTS = {
    "vlen-utf8": "string",
    "vlen-bytes": "bytes",
    "categorize": "string",
    **dict.fromkeys(("json2", "msgpack2", "vlen-array", "pickle"), "terrazzo.objects"),
}
#: from array to bytes
SERIALIZERS = frozenset({"zfpy", "pcodec", *OBJECTS} - {"categorize"})
#: their names are the same in Zarr 3
NAMED_ALIKE = ("vlen-utf8", "vlen-bytes")
Json = dict[str, Any]


def objects_of(filters: object) -> str | None:
    """The data type that the first filter gives to objects, by its name in documents of Zarr 3."""
    first = filters[0] if isinstance(filters, list) and filters else None
    identity = first.get("id") if isinstance(first, dict) else None
    return OBJECTS.get(identity) if isinstance(identity, str) else None


def chain_from_numcodecs(
    filters: Sequence[Any],
    compressor: Any,
    element: ElementType,
    order: str,
    ndim: int,
    paths: tuple[str, str] = ("filters", "compressor"),
) -> list[Json]:
    """The codecs of Zarr 3, in order: layout, filters, bytes, compressor."""
    chain: list[Json] = []
    if order == "F" and ndim > 1:
        chain.append({"name": "transpose", "configuration": {"order": list(reversed(range(ndim)))}})
    given = [(one, join(paths[0], i)) for i, one in enumerate(filters)]
    if compressor is not None:
        given.append((compressor, paths[1]))
    serialized = own = False
    endian = element.endian
    itemsize = element.dtype.itemsize if element.dtype.kind not in "OT" else 1
    for config, path in given:
        identity, members = _parts(config, path)
        if identity in FILTERS:
            if serialized:
                refuse(
                    path, f"{describe(identity)} takes an array, but a filter before it has made bytes of it"
                )
            endian, itemsize = _after(members, identity, endian, itemsize, path)
            chain.append(_named(f"numcodecs.{identity}", members))
            continue
        if identity in SERIALIZERS:
            if serialized:
                refuse(
                    path, f"{describe(identity)} takes an array, but a filter before it has made bytes of it"
                )
            chain.append(_named(identity if identity in NAMED_ALIKE else f"numcodecs.{identity}", members))
            serialized = True
            continue
        if "://" in identity and endian != "big" and not serialized:
            # somebody's own, known by its address: its class tells whether it takes an array, and so where `bytes` goes
            chain.append(_named(identity, members))
            own = True
            continue
        if not serialized and not own:
            chain.append(_named("bytes", {} if endian is None else {"endian": endian}))
            serialized = True
        chain.append(_compressor(identity, members, itemsize))
    if not serialized and not own:
        chain.append(_named("bytes", {} if endian is None else {"endian": endian}))
    return chain


def chain_to_numcodecs(
    codecs: Sequence[Json], ndim: int, dtype: str | None, path: str = "codecs"
) -> tuple[list[Json], Json | None, str, str | None]:
    """Filters, compressor, order ("C" or "F") and byte order that say the same; refused with the reason where none do.

    dtype: numpy's spelling of the elements, for filters that have to state it.
    """
    order, endian = "C", None
    filters: list[Json] = []
    compressor: Json | None = None
    after = False
    for i, codec in enumerate(codecs):
        name, members = codec["name"], dict(codec.get("configuration", {}))
        at = join(path, i)
        if name == "transpose":
            if i or list(members.get("order", ())) != list(reversed(range(ndim))):
                refuse(
                    at,
                    "this format stores chunks in C or F order alone: a transpose must come first and reverse all",
                )
            order = "F" if ndim > 1 else "C"
        elif name == "bytes":
            endian, after = members.get("endian"), True
        elif name in NAMED_ALIKE:
            filters.append({"id": name})
            after = True
        else:
            found = _config(name, members, dtype, at)
            serializes = name.removeprefix("numcodecs.") in SERIALIZERS
            after = after or serializes
            if after and not (serializes and dtype is None):
                if compressor is not None:
                    filters.append(compressor)
                compressor = found
            else:
                filters.append(found)
    return filters, compressor, order, endian


def _parts(config: Any, path: str) -> tuple[str, Json]:
    identity = config.get("id") if isinstance(config, dict) else None
    if not isinstance(identity, str) or not identity:
        refuse(path, f"found {describe(config)}, must be an object with an `id`, or null")
    return identity, {name: value for name, value in config.items() if name != "id"}


def _after(
    members: Json, identity: str, endian: str | None, itemsize: int, path: str
) -> tuple[str | None, int]:
    """Byte order and size of what a filter makes."""
    taken = members.get("decode_dtype" if identity == "astype" else "dtype")
    made = members.get("encode_dtype" if identity == "astype" else "astype", taken)
    if identity == "packbits":
        return None, 1
    for spelled in (taken, made):
        if spelled is not None and not isinstance(spelled, str):
            refuse(path, f'found the type {describe(spelled)}, must be a text such as "<i4"')
    try:
        before = None if taken is None else np.dtype(taken)
        dtype = None if made is None else np.dtype(made)
    except (TypeError, ValueError) as error:
        refuse(path, f"found a type that is none: {error}")
    if before is not None and before.itemsize > 1 and endian is not None and _endian(before) != endian:
        refuse(path, f"the filter takes {before.str}, and elements are stored with {endian}-endian bytes")
    if dtype is None:
        return endian, itemsize
    return (_endian(dtype) if dtype.itemsize > 1 else None), dtype.itemsize


def _endian(dtype: np.dtype[Any]) -> str:
    return "big" if dtype.newbyteorder(">") == dtype and dtype.newbyteorder("<") != dtype else "little"


def _compressor(identity: str, members: Json, itemsize: int) -> Json:
    if "://" in identity:
        return _named(identity, members)
    if identity == "blosc":
        shuffle = members.get("shuffle", 1)
        if isinstance(shuffle, int) and -1 <= shuffle <= 2:
            shuffle = SHUFFLES[(2 if itemsize == 1 else 1) if shuffle == -1 else shuffle]
        found = {
            "cname": members.get("cname", "lz4"),
            "clevel": members.get("clevel", 5),
            "shuffle": shuffle,
            "typesize": members.get("typesize") or max(1, itemsize),
            "blocksize": members.get("blocksize", 0),
        }
        return _named("blosc", found)
    if identity == "gzip":
        return _named("gzip", {"level": members.get("level", 1)})
    if identity == "zstd":
        return _named("zstd", {"level": members.get("level", 0), "checksum": bool(members.get("checksum"))})
    if identity == "shuffle":
        members.setdefault("elementsize", 4)
    return _named(f"numcodecs.{identity}", members)


def _config(name: str, members: Json, dtype: str | None, path: str) -> Json:
    if name == "blosc":
        shuffle = members.pop("shuffle", "shuffle")
        members.pop("typesize", None)
        return {"id": "blosc", **members, "shuffle": SHUFFLES.index(shuffle)}
    if name in ("gzip", "zstd"):
        if not members.get("checksum", True):
            members.pop("checksum")
        return {"id": name, **members}
    if name == "crc32c":
        return {"id": "crc32c"}
    if "://" in name:
        return {"id": name, **members}
    if name.startswith("numcodecs."):
        identity = name.removeprefix("numcodecs.")
        if identity in ("delta", "fixedscaleoffset", "quantize") and dtype is not None:
            members.setdefault("dtype", dtype)
        if identity == "astype" and dtype is not None:
            members.setdefault("decode_dtype", dtype)
        return {"id": identity, **members}
    if name == "sharding_indexed":
        refuse(path, "this format has no shards; leave shards out, or choose Zarr 3")
    sentence = f"this format has no codec {describe(name)}; choose one of numcodecs, or Zarr 3"
    raise UnknownCodecError(f"{path}: {sentence}", ((path, sentence),))


def _named(name: str, configuration: Json) -> Json:
    return {"name": name, "configuration": configuration} if configuration else {"name": name}
