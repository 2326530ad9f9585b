"""Codecs as the drafts of 2023 wrote them, completed to what Zarr 3 says: indexes, serializers and orders left unsaid.

What it does not do: change a document; it keeps what it says, whoever builds a layout completes it. The name `endian`
needs nothing here, it is an alias of `bytes` (registry).

The sharding codec of March 2023 had a plain index, that of May one with a CRC-32C behind it; neither wrote so down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from terrazzo.codecs.codec import ArrayArrayCodec, ArrayBytesCodec
from terrazzo.codecs.registry import codec_from_extension
from terrazzo.errors import MetadataError
from terrazzo.metadata import DataType, Extension

__all__ = ["CHECKED_INDEX", "PLAIN_INDEX", "completed", "lacks_index_codecs"]

Json = dict[str, Any]
PLAIN_INDEX: list[Json] = [{"name": "bytes", "configuration": {"endian": "little"}}]
CHECKED_INDEX: list[Json] = [*PLAIN_INDEX, {"name": "crc32c"}]
#: what makes bytes of an array, so that most documents need no second look
SERIALIZERS = frozenset(
    {
        *("bytes", "endian", "sharding_indexed", "vlen-utf8", "vlen-bytes", "packbits"),
        *("zfp", "n5_default", "optional"),
    }
)


def completed(
    codecs: Sequence[Extension], data_type: DataType, ndim: int, index_codecs: Sequence[Json] = CHECKED_INDEX
) -> tuple[Extension, ...]:
    """The same codecs with all that Zarr 3 wants said; `index_codecs`: of shards whose document names none."""
    if not any(map(_is_early, codecs)) and any(codec.name in SERIALIZERS for codec in codecs):
        return tuple(codecs)
    return tuple(_complete(list(codecs), data_type, ndim, index_codecs))


def lacks_index_codecs(codecs: Sequence[Extension]) -> bool:
    """Whether some shard's index is of a form that only its bytes can tell."""
    for codec in codecs:
        if codec.name == "sharding_indexed":
            if "index_codecs" not in codec.configuration:
                return True
            inner = codec.configuration.get("codecs")
            if lacks_index_codecs(_extensions(inner) or ()):
                return True
    return False


def _is_early(codec: Extension) -> bool:
    configuration = codec.configuration
    if codec.name == "transpose":
        return isinstance(configuration.get("order"), str)
    if codec.name != "sharding_indexed":
        return False
    if "index_codecs" not in configuration or "codecs" not in configuration:
        return True
    inner = _extensions(configuration["codecs"])
    return inner is not None and (
        any(map(_is_early, inner)) or not any(one.name in SERIALIZERS for one in inner)
    )


def _complete(
    codecs: list[Extension], data_type: DataType, ndim: int, index_codecs: Sequence[Json]
) -> list[Extension]:
    done = []
    for codec in codecs:
        configuration = dict(codec.configuration)
        if codec.name == "transpose" and configuration.get("order") in ("C", "F"):
            dimensions = list(range(ndim))
            configuration["order"] = dimensions if configuration["order"] == "C" else dimensions[::-1]
        elif codec.name == "sharding_indexed":
            configuration.setdefault("index_codecs", list(index_codecs))
            inner = configuration.get("codecs")
            known = _extensions([] if inner is None else inner)
            if known is not None:
                extensions = _complete(known, data_type, ndim, index_codecs)
                configuration["codecs"] = [one.to_json() for one in extensions]
        done.append(Extension(codec.name, configuration, codec.must_understand))
    return _with_serializer(done, data_type)


def _with_serializer(codecs: list[Extension], data_type: DataType) -> list[Extension]:
    """Elements in C order, little-endian, where nothing makes bytes of them."""
    after = 0
    for i, codec in enumerate(codecs):
        if codec.name in SERIALIZERS:
            return codecs
        try:
            kind = codec_from_extension(codec)
        except MetadataError:
            return codecs  # the chain tells what is wrong with it
        if isinstance(kind, ArrayBytesCodec):
            return codecs
        if isinstance(kind, ArrayArrayCodec):
            after = i + 1
    endian = {"endian": "little"} if data_type.needs_endian else {}
    return [*codecs[:after], Extension("bytes", endian), *codecs[after:]]


def _extensions(found: Any) -> list[Extension] | None:
    """None for what is no list of codecs: whoever reads the codec tells what is wrong."""
    if not isinstance(found, list | tuple):
        return None
    try:
        return [Extension.from_json(one, ignorable=True) for one in found]
    except MetadataError:
        return None
