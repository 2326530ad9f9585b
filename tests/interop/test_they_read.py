"""What terrazzo writes, the other libraries read equal to the last bit.

A peer has to read ours wherever it reads its own; where none can, the table at the end says so.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import BY_NAME, Case, canonical, differences, expected, values
from exchange import LIVE, Exchange

import terrazzo


@pytest.mark.parametrize("name", BY_NAME)
def test_written_from_a_document(name: str, exchange: Exchange, tmp_path: Path) -> None:
    case = BY_NAME[name]
    able = [peer for peer, _ in exchange.able(case)]
    exchange.note("we write, they read", case, able)
    path = tmp_path / "ours"
    path.mkdir()
    (path / "zarr.json").write_text(json.dumps(case.document), encoding="utf-8")
    array = terrazzo.open_array(path, mode="r+")
    content = case.values(seed=12)
    if case.write != "none":
        part = content[case.region]
        array[case.region] = part.view(array.dtype) if case.dtype.kind == "V" else part
    ours = canonical(terrazzo.open_array(path, mode="r")[...], case)
    if not case.lossy:
        assert differences(ours, expected(case, content), case) == 0, "we do not read what we wrote"
    for peer in able:
        found = canonical(peer.read(path, case), case)
        assert differences(found, ours, case) == 0, f"{peer.name} reads {found!r}, we read {ours!r}"


DTYPES = ("bool", "int8", "uint16", "int32", "uint64", "float32", "float64", "complex128")
LAYOUTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "chunks": {"chunks": (4, 5)},
    "shards": {"chunks": (4, 5), "shards": (12, 20)},
    "auto shards": {"chunks": (4, 5), "shards": "auto"},
    "gzip": {"chunks": (4, 5), "shards": (12, 20), "compressors": "gzip:4"},
    "no compression": {"chunks": (4, 5), "shards": (8, 5), "compressors": None},
}


@pytest.mark.parametrize(("dtype", "layout"), list(itertools.product(DTYPES, LAYOUTS)))
def test_written_from_arguments(dtype: str, layout: str, tmp_path: Path) -> None:
    """`create_array` writes documents that every peer opens, and overwriting a part changes that part alone."""
    content = values(np.dtype(dtype), (30, 41), dtype, 5)
    path = tmp_path / "ours"
    array = terrazzo.create_array(store=path, data=content, **LAYOUTS[layout])
    array[3:11, 7:] = content[3:11, 7:][::-1]
    wanted = content.copy()
    wanted[3:11, 7:] = content[3:11, 7:][::-1]
    case = Case(dtype, {"data_type": dtype, "shape": wanted.shape}, np.dtype(dtype))
    for peer in LIVE:
        assert differences(canonical(peer.read(path, case), case), wanted, case) == 0, peer.name


#: what callers may name without a word of configuration, and the types that these work on
BARE = {
    "filters": {"delta": "int32", "astype": "float64", "fixedscaleoffset": "float64", "packbits": "bool"},
    "compressors": dict.fromkeys(
        ("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3", "lz4", "zlib", "bz2", "lzma", "zstd"),
        "int32",
    ),
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in BARE for name in BARE[kind]])
@pytest.mark.parametrize("shards", [None, (12, 20)])
def test_codecs_of_numcodecs_without_a_configuration(
    kind: str, name: str, shards: tuple[int, ...] | None, tmp_path: Path
) -> None:
    """zarr-python wants a configuration, also where there is nothing to say in it."""
    zarr = pytest.importorskip("zarr")
    content = (np.arange(30 * 41).reshape(30, 41) % 7).astype(BARE[kind][name])
    how: dict[str, Any] = {kind: [f"numcodecs.{name}"]}
    terrazzo.create_array(tmp_path / "ours", data=content, chunks=(4, 5), shards=shards, **how)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "ours", mode="r")[...], content)
