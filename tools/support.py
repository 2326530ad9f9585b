"""Write docs/support.md: every codec, data type, grid, key encoding, transformer and dialect, and what was checked.

usage: python -m tools.support     (development environment, all extras; `--check` compares instead)

Nothing in the page is claimed: "written" means that an array with it was made, written and read back just now, and the
libraries named are those whose committed bytes (tests/fixtures) were opened just now.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import terrazzo
from terrazzo.chunk_keys import known_chunk_keys
from terrazzo.codecs import known_codecs
from terrazzo.dialects import DIALECTS
from terrazzo.errors import TerrazzoError
from terrazzo.metadata import ArrayMetadata, data_type_from_json
from terrazzo.metadata.data_types import known_data_types
from terrazzo.options import DRAFTS
from terrazzo.transformers import known_transformers

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "support.md"
FIXTURES = ROOT / "tests" / "fixtures"
ALL = {"drafts": "all", "allow_pickle": True}
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
Names = dict[tuple[str, str], set[str]]

#: configurations of codecs that need one, and the chains of those that do not stand alone
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "transpose": {"order": [1, 0]},
    "bytes": {"endian": "little"},
    "endian": {"endian": "little"},
    "bitround": {"keepbits": 10},
    "cast_value": {"data_type": "float64"},
    "scale_offset": {"offset": 1, "scale": 2},
    "reshape": {"shape": [-1]},
    "gzip": {"level": 1},
    "zstd": {"level": 1},
    "blosc": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
    "conditional": {"codecs": [{"name": "gzip", "configuration": {"level": 1}}]},
    "sharding_indexed": {
        "chunk_shape": [2, 2],
        "codecs": [LITTLE],
        "index_codecs": [LITTLE, {"name": "crc32c"}],
    },
    "zfp": {"mode": "reversible"},
    "n5_default": {
        "codecs": [
            {"name": "transpose", "configuration": {"order": [1, 0]}},
            {"name": "bytes", "configuration": {"endian": "big"}},
        ]
    },
    "numcodecs.fixedscaleoffset": {"offset": 0, "scale": 1, "dtype": "<f4", "astype": "<f4"},
    "numcodecs.delta": {"dtype": "<f4"},
    "numcodecs.quantize": {"digits": 3, "dtype": "<f4"},
    "numcodecs.astype": {"encode_dtype": "<f8", "decode_dtype": "<f4"},
    "numcodecs.bitround": {"keepbits": 10},
    "numcodecs.zfpy": {"mode": 4, "tolerance": 0.01},
    "numcodecs.categorize": {"labels": ["a", "b"]},
    "numcodecs.vlen-array": {"dtype": "<i4"},
    "numcodecs.shuffle": {"elementsize": 4},
    "optional": {"mask_codecs": [{"name": "packbits"}], "data_codecs": [LITTLE]},
}
OPTIONAL = {"name": "optional", "configuration": {"name": "float32", "configuration": {}}}
#: what each codec is given, where it is not float32
TYPES: dict[str, Any] = {
    "vlen-utf8": "string",
    "vlen-bytes": "bytes",
    "numcodecs.packbits": "bool",
    "numcodecs.categorize": "string",
    "optional": OPTIONAL,
    "zarrs.optional": OPTIONAL,
    **{f"numcodecs.{name}": "terrazzo.objects" for name in ("json2", "msgpack2", "vlen-array", "pickle")},
}
TYPE_CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "fixed_length_utf32": {"length_bytes": 16},
    "null_terminated_bytes": {"length_bytes": 4},
    "raw_bytes": {"length_bytes": 4},
    "numpy.datetime64": {"unit": "s", "scale_factor": 1},
    "numpy.timedelta64": {"unit": "s", "scale_factor": 1},
    "struct": {"fields": [{"name": "x", "data_type": "int16"}]},
    "structured": {"fields": [["x", "int16"]]},
    "optional": {"name": "float32", "configuration": {}},
    "zarrs.optional": {"name": "float32", "configuration": {}},
}
NOTES = {
    "zfp": "written in every mode but expert",
    "n5_default": "blocks cut at the border are read; written ones are full",
    "rectangular": "ZEP 3's draft of `rectilinear`",
    "numcodecs.pickle": "only with `allow_pickle`",
    "n5": "values can be changed, datasets are not made",
    "endian": "alias of `bytes`, of early 2023",
    "sharding": "of the 2022 draft, as a store over a store",
}


def document(kind: str, codecs: list[Any], **members: Any) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4, 6],
        "data_type": kind,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 4]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": _fill(kind),
        "codecs": codecs,
        "attributes": {},
        **members,
    }


def _fill(kind: Any) -> Any:
    data_type = data_type_from_json(kind)
    return data_type.fill_to_json(data_type.default_fill())


def chain_of(name: str) -> tuple[Any, list[Any]]:
    """The data type and the codecs of an array that shows one codec."""
    from terrazzo.codecs import ArrayArrayCodec, ArrayBytesCodec, codec_from

    key = name.removeprefix("zarrs.")
    said = {"name": name, "configuration": CONFIGURATIONS.get(key, {})}
    kind = TYPES.get(name, "float32")
    codec = codec_from(said)
    if isinstance(codec, ArrayBytesCodec):
        return kind, [said]
    if not isinstance(codec, ArrayArrayCodec):
        return kind, [LITTLE, said]
    single = name in ("numcodecs.packbits", "numcodecs.categorize")
    return kind, [said, {"name": "bytes"} if single else LITTLE]


def works(made: dict[str, Any], store: dict[str, bytes] | None = None) -> bool:
    """Whether values go in, and come out of the array when it is opened again."""
    store = {} if store is None else store
    store["zarr.json"] = json.dumps(made).encode()
    try:
        array = terrazzo.open_array(store, config=ALL)
        values = _values(array)
        array[...] = values
        found = terrazzo.open_array(store, config=ALL)[...]
    except TerrazzoError:
        return False
    return any(key != "zarr.json" for key in store) and bool(
        repr(found.tolist()) == repr(values.tolist()) or _near(found, values)
    )


def _near(found: Any, values: Any) -> bool:
    return bool(found.dtype.kind == "f" and np.allclose(found, values, rtol=0.02))


def _values(array: Any) -> Any:
    values = np.zeros(array.shape, array.dtype)
    if array.dtype.kind == "T" or array.metadata.data_type.name == "string":
        values[...] = "a"
    elif array.dtype.kind == "O":
        item: Any = b"a" if array.metadata.data_type.name == "bytes" else 3
        if array.metadata.codecs[0].name == "numcodecs.vlen-array":
            item = np.array([1, 2], "i4")
        for place in np.ndindex(values.shape):
            values[place] = item
    elif array.dtype.names is not None:
        raw = values.view(np.uint8).reshape(-1, array.dtype.itemsize)
        raw[:, 0] = 1
    elif array.dtype.kind in "biufc":
        values[...] = np.arange(values.size).reshape(values.shape) % 2 + 1
    else:
        raw = values.reshape(-1).view(np.uint8)
        raw[::2] = 1
    return values


# what other libraries wrote


def checked() -> Names:
    """Of each kind and name the libraries whose bytes have it."""
    found: Names = defaultdict(set)
    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for archive in sorted(FIXTURES.glob("*.zip")):
            with zipfile.ZipFile(archive) as content:
                folder = Path(temporary) / archive.stem
                content.extractall(folder)
            manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            objects = {name: {"store": "v2", "path": name} for name in manifest.get("objects", {})}
            for name, entry in {**manifest["arrays"], **objects}.items():
                place = folder / "arrays" / entry.get("store", name)
                array = terrazzo.open_array(place, path=entry.get("path", ""), mode="r", config=ALL)
                _note(found, array.metadata, _way(array), manifest["writer"])
    for place in sorted((FIXTURES / "documents" / "zarrs" / "v3").glob("array_optional*")):
        array = terrazzo.open_array(place / "array", mode="r", config=ALL)
        _note(found, array.metadata, "v3", "zarrs 0.24")
    return found


def _way(array: Any) -> str:
    store = array.store
    while not hasattr(store, "way") and hasattr(store, "store"):
        store = store.store
    return getattr(store, "way", array.metadata.dialect)


def _note(found: Names, metadata: ArrayMetadata, dialect: str, writer: str) -> None:
    writer = re.sub(r"(\d+\.\d+)\.\d+", r"\1", writer)
    for name in _codec_names([codec.to_json() for codec in metadata.codecs]):
        found["codec", name].add(writer)
    for name in _type_names(metadata.data_type.to_json()):
        found["type", name].add(writer)
    found["grid", metadata.chunk_grid.name].add(writer)
    found["keys", metadata.chunk_key_encoding.name].add(writer)
    found["dialect", dialect].add(writer)
    if dialect in ("P", "D") and metadata.codecs[0].name == "sharding_indexed":
        found["transformer", "sharding"].add(writer)


def _codec_names(codecs: Any) -> Iterator[str]:
    for codec in codecs:
        said = codec if isinstance(codec, dict) else {"name": codec}
        yield said["name"]
        for member in ("codecs", "index_codecs", "mask_codecs", "data_codecs"):
            yield from _codec_names(said.get("configuration", {}).get(member, []))


def _type_names(spelled: Any) -> Iterator[str]:
    said = spelled if isinstance(spelled, dict) else {"name": spelled}
    yield "r8, r16, …" if re.fullmatch(r"r\d+", said["name"]) else said["name"]
    for one in said.get("configuration", {}).get("fields", []):
        yield from _type_names(one["data_type"])


# the page


def table(head: str, rows: list[tuple[str, str, str, str, str]]) -> list[str]:
    lines = [f"| {head} | read | written | checked against | |", "| --- | --- | --- | --- | --- |"]
    return [
        *lines,
        *(
            f"| `{name}` | {read} | {written} | {peers} | {note} |"
            for name, read, written, peers, note in rows
        ),
    ]


def _row(
    found: Names, kind: str, name: str, written: bool, read: bool = True
) -> tuple[str, str, str, str, str]:
    peers = ", ".join(sorted(found.get((kind, name), ()))) or "no peer"
    draft = name.removeprefix("zarrs.")
    note = f'proposed: `drafts=["{draft}"]`' if draft in DRAFTS else NOTES.get(name, "")
    return name, "yes" if read else "no", "yes" if written else "no", peers, note


def page() -> str:
    found = checked()
    lines = [
        "# What is supported, and what it was checked against",
        "",
        "Made by `python -m tools.support` from the code: each line was tried when the page was made. *Read* and",
        "*written*: by this library. *Checked against*: the libraries whose stored bytes, committed with the tests,",
        "have it and are read equal to the last bit; what they read of ours is exchanged in `make interop`. *No peer*:",
        "none whose bytes we have.",
        "",
        "## Forms of hierarchies",
        "",
    ]
    rows = [_row(found, "dialect", name, _dialect_works(name)) for name in DIALECTS]
    lines += table("`dialect=`", rows)
    lines += ["", "## Codecs", ""]
    rows = []
    for name in known_codecs():
        kind, codecs = chain_of(name)
        rows.append(_row(found, "codec", name, works(document(kind, codecs))))
    lines += table("codec", rows)
    lines += ["", "## Data types", ""]
    rows = []
    for name in known_data_types():
        spelled: Any = {"name": name, "configuration": TYPE_CONFIGURATIONS.get(name, {})}
        data_type = data_type_from_json(spelled if spelled["configuration"] else name)
        serializer: Any = LITTLE if data_type.needs_endian else {"name": "bytes"}
        if name in ("optional", "zarrs.optional"):
            serializer = {"name": "optional", "configuration": CONFIGURATIONS["optional"]}
        elif data_type.itemsize is None:
            serializer = {"name": "vlen-utf8" if data_type.name == "string" else "vlen-bytes"}
        row = _row(found, "type", name, works(document(data_type.to_json(), [serializer])))
        alias = "" if data_type.name == name else f"read, and written as `{data_type.name}`"
        rows.append((*row[:4], alias or row[4]))
    raw = _row(found, "type", "r8, r16, …", works(document("r24", [{"name": "bytes"}])))
    lines += table("data type", [*rows, raw])
    lines += ["", "## Chunk grids", ""]
    edges = {"kind": "inline", "chunk_shapes": [[1, 3], 3]}
    grids = {
        "regular": document("int32", [LITTLE]),
        "rectilinear": document(
            "int32", [LITTLE], chunk_grid={"name": "rectilinear", "configuration": edges}
        ),
    }
    rows = [_row(found, "grid", name, works(made)) for name, made in grids.items()]
    zep = document(
        "int32",
        [LITTLE],
        chunk_grid={"name": "rectangular", "configuration": {"chunk_shape": [[1, 3], [3, 3]]}},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows.append(_row(found, "grid", "rectangular", False, works(zep)))
    lines += table("chunk grid", rows)
    lines += ["", "## Chunk key encodings", ""]
    keys = {"suffix": {"suffix": ".bin"}}
    rows = []
    for name in known_chunk_keys():
        encoding = {"name": name, "configuration": keys.get(name, {})}
        rows.append(
            _row(found, "keys", name, works(document("int32", [LITTLE], chunk_key_encoding=encoding)))
        )
    lines += table("encoding", rows)
    lines += ["", "## Storage transformers", ""]
    rows = []
    for name in known_transformers():
        told = [{"name": name, "configuration": {"type": "indexed", "chunks_per_shard": [2, 2]}}]
        made = document("int32", [LITTLE], storage_transformers=told)
        rows.append(_row(found, "transformer", name, works(made)))
    lines += table("transformer", rows)
    lines += ["", "## Only proposed", "", "Refused unless `drafts` of the configuration names them:", ""]
    lines += [f"- `{name}`: {what}" for name, what in DRAFTS.items()]
    return "\n".join(lines) + "\n"


def _dialect_works(name: str) -> bool:
    store: dict[str, bytes] = {}
    values = np.arange(24, dtype="i4").reshape(4, 6)
    try:
        terrazzo.create_array(store, data=values, chunks=(2, 4), dialect=name)
    except TerrazzoError:
        return False
    return bool((terrazzo.open_array(store, dialect=name, mode="r")[...] == values).all())


def main() -> int:
    made = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text(encoding="utf-8") == made else 1
    PAGE.write_text(made, encoding="utf-8")
    print(f"{PAGE.name}: {made.count(chr(10))} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
