"""Documents of N5: `attributes.json` of a dataset or a group to the document that Zarr 3 would have.

What it does not do: touch a store, or write N5's documents. The shape is as N5 states it, first dimension first; blocks
are those of the codec `n5_default`.

https://github.com/saalfeldlab/n5#file-system-specification
https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default
"""

from __future__ import annotations

from typing import Any

from terrazzo.errors import UnknownCodecError
from terrazzo.metadata.problems import Problems, describe, join, refuse

__all__ = ["is_n5", "node_from_n5"]

Json = dict[str, Any]
#: what a dataset has to say, and what may stand beside it
MEMBERS = ("dimensions", "blockSize", "dataType")
OWN = frozenset({*MEMBERS, "compression", "compressionType", "n5"})
SIZES = {
    **{f"{kind}{bits}": bits // 8 for kind in ("uint", "int") for bits in (8, 16, 32, 64)},
    "float32": 4,
    "float64": 8,
}
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
USUAL_LEVEL = 6


def is_n5(found: object) -> bool:
    """Whether an `attributes.json` is N5's: of a dataset, or of a root that states the version."""
    return isinstance(found, dict) and (set(MEMBERS) <= found.keys() or isinstance(found.get("n5"), str))


def node_from_n5(found: object) -> Json:
    """What Zarr 3 says where N5 says `found`; raises MetadataError with every problem and its path."""
    if not isinstance(found, dict):
        refuse("", f"found {describe(found)}, must be an object")
    attributes = {name: value for name, value in found.items() if name not in OWN}
    if "dimensions" not in found:
        return {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    problems = Problems()
    for member in MEMBERS:
        if member not in found:
            problems.add(member, "is missing")
    problems.raise_any("")
    shape, blocks, kind = (found[member] for member in MEMBERS)
    if not isinstance(kind, str) or kind not in SIZES:
        problems.add("dataType", f"found {describe(kind)}, must be one of {', '.join(SIZES)}")
    if not isinstance(shape, list) or not shape:
        problems.add("dimensions", f"found {describe(shape)}, must be a list of at least one extent")
    problems.raise_any("")
    compressor = None
    with problems.collected():
        compressor = _compressor(found, SIZES[kind])
    problems.raise_any("")
    codecs: list[Json] = [
        {"name": "transpose", "configuration": {"order": list(reversed(range(len(shape))))}},
        {"name": "bytes", "configuration": {"endian": "big"}} if SIZES[kind] > 1 else {"name": "bytes"},
    ]
    if compressor is not None:
        codecs.append(compressor)
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": kind,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": blocks}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "n5_default", "configuration": {"codecs": codecs}}],
        "attributes": attributes,
    }


def _compressor(found: Json, itemsize: int) -> Json | None:
    """The codec of Zarr for `compression`, or for the older `compressionType`; None for raw blocks."""
    said = found.get("compression", {"type": found.get("compressionType")})
    if not isinstance(said, dict) or not isinstance(said.get("type"), str):
        refuse("compression", f"found {describe(said)}, must be an object with a `type`")
    kind, level = said["type"], said.get("level", -1)
    at = join("compression", "level")
    if isinstance(level, bool) or not isinstance(level, int):
        refuse(at, f"found {describe(level)}, must be an integer")
    if kind == "raw":
        return None
    if kind == "gzip":
        name = "numcodecs.zlib" if said.get("useZlib") else "gzip"
        return {"name": name, "configuration": {"level": level if 0 <= level <= 9 else USUAL_LEVEL}}
    if kind == "zstd":
        return {"name": "zstd", "configuration": {"level": said.get("level", 3), "checksum": False}}
    if kind == "bzip2":
        return {"name": "numcodecs.bz2", "configuration": {"level": said.get("blockSize", 9)}}
    if kind == "xz":
        return {
            "name": "numcodecs.lzma",
            "configuration": {"format": 1, "preset": said.get("preset", USUAL_LEVEL)},
        }
    if kind == "blosc":
        shuffle = said.get("shuffle", 0)
        if isinstance(shuffle, bool) or not isinstance(shuffle, int) or not 0 <= shuffle <= 2:
            refuse("compression.shuffle", f"found {describe(shuffle)}, must be 0, 1 or 2")
        members = {"cname": said.get("cname", "blosclz"), "clevel": said.get("clevel", USUAL_LEVEL)}
        return {
            "name": "blosc",
            "configuration": {
                **members,
                "shuffle": SHUFFLES[shuffle],
                "typesize": itemsize,
                "blocksize": said.get("blocksize", 0),
            },
        }
    reason = "its frames are those of a Java library" if kind == "lz4" else "it is not known"
    sentence = (
        f"found {describe(kind)}, which cannot be read: {reason}; raw, gzip, zstd, blosc, bzip2 and xz can"
    )
    raise UnknownCodecError(f"compression.type: {sentence}", (("compression.type", sentence),))
