"""Documents changed at random, opened and read: only errors of terrazzo's own tree may come of it.

`python -m tests.faults.documents --count 100000 --seed 1` runs long and prints every other exception with its document;
the suite has a short form (test_hostile_documents.py).
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import terrazzo
from terrazzo.errors import TerrazzoError

__all__ = ["mutated", "search", "seeds"]

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}
GZIP = {"name": "gzip", "configuration": {"level": 1}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": True}}
BLOSC = {
    "name": "blosc",
    "configuration": {"cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
}
TRANSPOSE = {"name": "transpose", "configuration": {"order": [1, 0]}}
CODECS: list[dict[str, Any]] = [
    GZIP,
    ZSTD,
    BLOSC,
    CRC,
    TRANSPOSE,
    {"name": "packbits", "configuration": {"padding_encoding": "first_byte", "first_bit": 0, "last_bit": 3}},
    {"name": "bitround", "configuration": {"keepbits": 3}},
    {"name": "vlen-utf8"},
    {"name": "vlen-bytes"},
    {"name": "cast_value", "configuration": {"data_type": "uint8", "rounding": "nearest-even"}},
    {"name": "scale_offset", "configuration": {"offset": 1.5, "scale": 10}},
    {"name": "reshape", "configuration": {"shape": [[0, 1], -1]}},
    {"name": "numcodecs.zlib", "configuration": {"level": 1}},
    {"name": "numcodecs.bz2", "configuration": {"level": 1}},
    {"name": "numcodecs.lzma", "configuration": {"format": 3, "filters": [{"id": 33, "preset": 1}]}},
    {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}},
    {"name": "numcodecs.delta", "configuration": {"dtype": "<i4", "astype": "<i4"}},
    {
        "name": "numcodecs.fixedscaleoffset",
        "configuration": {"offset": 1, "scale": 2, "dtype": "<f4", "astype": "<i2"},
    },
    {"name": "numcodecs.pickle"},
    {"name": "numcodecs.crc32"},
]
TYPES: list[Any] = [
    "bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64", "complex64", "complex128",
    "string", "bytes", "variable_length_bytes", "bfloat16", "float8_e4m3", "int4", "uint2", "r16", "r8", "r7",
    {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}},
    {"name": "numpy.timedelta64", "configuration": {"unit": "generic", "scale_factor": 1}},
    {"name": "fixed_length_utf32", "configuration": {"length_bytes": 16}},
    {"name": "null_terminated_bytes", "configuration": {"length_bytes": 10}},
    {"name": "raw_bytes", "configuration": {"length_bytes": 10}},
    {"name": "struct", "configuration": {"fields": [["a", "int32"], ["b", "float64"]]}},
    {"name": "structured", "configuration": {"fields": [["a", "int32"], ["b", "float64"]]}},
]  # fmt: skip
HOSTILE: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 255, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1,
    2**64, 10**30, -(2**63), -(2**70), 0.5, -0.0, 1e308, 3.0, "", "a", "0", "/", ".", "..", "\0", "NaN", "Infinity",
    "-Infinity", "0x00", "0xzz", "0x" + "f" * 40, "default", "v2", "regular", "little", "big", "end", "start", [], [[]],
    {}, [0], [1], [-1], [2**40], [1, 1], [1] * 65, {"name": "x"}, {"configuration": {}}, {"name": None}, [None],
    "\U0001f600", "é" * 100, "AAAA", "MTIz", {"name": "regular"}, {"must_understand": False}, "float32", "string",
    {"name": "zstd", "configuration": {"level": 2**40}}, [{"name": "bytes"}, {"name": "bytes"}], 1.0e19, "1e400", 1024,
]  # fmt: skip


def seeds() -> list[tuple[str, Any]]:
    """(key, document) of sound arrays and groups, and of some that are nearly sound."""
    base: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [6, 10],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 8]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [BYTES, ZSTD],
        "attributes": {"a": [1, {"b": None}]},
        "dimension_names": ["y", None],
    }

    def shards(codecs: list[Any], shape: list[int], location: str = "end") -> dict[str, Any]:
        inside = {
            "chunk_shape": shape,
            "codecs": codecs,
            "index_codecs": [BYTES, CRC],
            "index_location": location,
        }
        return {"name": "sharding_indexed", "configuration": inside}

    found: list[tuple[str, Any]] = [("zarr.json", base)]
    for codecs in (
        [shards([BYTES, GZIP], [2, 4])],
        [shards([shards([BYTES], [1, 2]), CRC], [2, 4], "start")],
        [TRANSPOSE, shards([TRANSPOSE, BYTES, BLOSC], [4, 2]), GZIP],
    ):
        found.append(("zarr.json", {**base, "codecs": codecs}))
    edges = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[2, 4], [[5, 2]]]}}
    found.append(("zarr.json", {**base, "chunk_grid": edges}))
    for data_type in TYPES:
        for fill in (0, 0.0, "", [0.0, 0.0], False, "AAAA"):
            found.append(("zarr.json", {**base, "data_type": data_type, "fill_value": fill}))
    for codec in CODECS:
        found.append(("zarr.json", {**base, "codecs": [codec, BYTES]}))
        found.append(("zarr.json", {**base, "codecs": [BYTES, codec]}))
        found.append(("zarr.json", {**base, "codecs": [codec]}))
    member = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    consolidated = {
        "kind": "inline",
        "must_understand": False,
        "metadata": {"a": base, "g": member, "g/b": base},
    }
    found.append(("zarr.json", {**member, "consolidated_metadata": consolidated}))
    second = {
        "zarr_format": 2,
        "shape": [6, 10],
        "chunks": [4, 8],
        "dtype": "<i4",
        "compressor": {"id": "zlib", "level": 1},
        "fill_value": 0,
        "order": "C",
        "filters": [{"id": "delta", "dtype": "<i4", "astype": "<i4"}],
        "dimension_separator": ".",
    }
    found.append((".zarray", second))
    for kind in ("<f8", "|b1", "|S5", "<U3", "<M8[s]", "|V4", "|O", [["a", "<i4"], ["b", "|S2"]]):
        found.append((".zarray", {**second, "dtype": kind, "filters": None}))
    return found


def _places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield way
    if isinstance(value, dict):
        for name in value:
            yield from _places(value[name], (*way, name))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from _places(one, (*way, at))


def mutated(document: Any, dice: random.Random, others: list[tuple[str, Any]]) -> Any:
    """One to three places changed: a hostile value, a part of another document, a member gone, doubled or renamed."""
    document = copy.deepcopy(document)
    for _ in range(dice.choice([0, 1, 1, 1, 1, 2, 3])):
        ways = [way for way in _places(document) if way]
        if not ways:
            break
        *folders, name = dice.choice(ways)
        holder = document
        for step in folders:
            holder = holder[step]
        kind = dice.randrange(8)
        if kind == 0:
            del holder[name]
        elif kind == 1 and isinstance(holder, list):
            holder.insert(name, copy.deepcopy(holder[name]))
        elif kind == 1:
            holder[dice.choice(["x", "name", "configuration", "must_understand", name + "_"])] = holder.pop(
                name
            )
        elif kind == 2:
            other = dice.choice(others)[1]
            part = other
            for step in dice.choice(list(_places(other))):
                part = part[step]
            holder[name] = copy.deepcopy(part)
        elif kind == 3:
            holder[name] = copy.deepcopy(dice.choice(CODECS))
        elif kind == 4:
            holder[name] = [holder[name]] * dice.choice([1, 2, 3, 33])
        elif kind == 5 and isinstance(holder[name], int) and not isinstance(holder[name], bool):
            holder[name] += dice.choice([-1, 1, 2**31, 2**62, -(2**40)])
        else:
            holder[name] = copy.deepcopy(dice.choice(HOSTILE))
    return document


def _bytes(document: Any, dice: random.Random) -> bytes:
    text = bytearray(json.dumps(document).encode())
    if dice.random() < 0.15:
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(text))
            kind = dice.randrange(3)
            if kind == 0:
                text[at] = dice.randrange(256)
            elif kind == 1:
                del text[at : at + dice.randint(1, 9)]
            else:
                text[at:at] = dice.choice([b"[", b"{", b'"', b"\\u0000", b"9" * 40, b"\xff", b",", b"NaN"])
            if not text:
                break
    return bytes(text)


def look(store: dict[str, bytes], strict: bool, went: list[str]) -> None:
    """Opens what is in a store, and reads a little of it; `went` takes how far it went."""
    with terrazzo.config.set({"strict": strict}):
        node = terrazzo.open(store, mode="r")
        went.append("opened")
        repr(node)
        if not isinstance(node, terrazzo.Array):
            for name, member in node.members():
                assert name
                repr(member)
            return
        node._repr_html_()
        if 0 in node.shape or node.dtype.itemsize > 1 << 20:
            return
        node[(slice(0, 1),) * node.ndim]
        node[tuple(extent - 1 for extent in node.shape)]
        went.append("read")


def search(count: int, seed: int) -> tuple[Counter[str], list[tuple[bytes, str]]]:
    """(how far they went, what came out that must not: the document and the traceback)."""
    every = seeds()
    sound = [(key, document) for key, document in every if _is_sound(key, document)]
    found: Counter[str] = Counter(refused=0, opened=0, read=0)
    wrong = []
    for number in range(count):
        dice = random.Random(f"{seed} {number}")
        key, document = dice.choice(every if dice.random() < 0.1 else sound)
        text = _bytes(mutated(document, dice, every), dice)
        store = {key: text}
        for chunk in ("c/0/0", "0.0", "c/1/1"):
            if dice.random() < 0.5:
                store[chunk] = dice.randbytes(dice.choice([0, 1, 4, 20, 68, 128, 132, 300]))
        went = ["refused"]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                look(store, dice.random() < 0.5, went)
        except TerrazzoError:
            pass
        except Exception:
            wrong.append((text, traceback.format_exc(limit=-6)))
        found[went[-1]] += 1
    return found, wrong


def _is_sound(key: str, document: Any) -> bool:
    went: list[str] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            look({key: json.dumps(document).encode()}, True, went)
    except TerrazzoError:
        return False
    except Exception:
        return True  # what the search is to find
    return bool(went)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    import terrazzo.read.flow as flow

    flow.time.sleep = lambda _: None  # type: ignore[assignment]
    reached, wrong = search(asked.count, asked.seed)
    for text, trace in wrong[:20]:
        print(text.decode(errors="replace"), trace, sep="\n")
    print(json.dumps({"documents": asked.count, "seed": asked.seed, **reached, "wrong": len(wrong)}))
    sys.exit(bool(wrong))
