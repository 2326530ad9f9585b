"""Zarr 2 and the 2022 draft, exchanged with the libraries that have them: equal to the last bit, both ways.

The library of the draft lives in an environment of its own: DRAFT_PYTHON names its Python, `.venv-draft` is the usual
place (`make fixtures` makes it).
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo

zarr = pytest.importorskip("zarr", minversion="3.0")
numcodecs = pytest.importorskip("numcodecs")

ROOT = Path(__file__).resolve().parents[2]
DRAFT = Path(os.environ.get("DRAFT_PYTHON", ROOT / ".venv-draft" / "bin" / "python"))
SHAPE, CHUNKS = (9, 7), (2, 3)
DTYPES = ("|b1", "|i1", "<i2", ">u4", "<i8", "<f2", ">f4", "<f8", "<c8", "|S3", "<U4", "<M8[s]")
#: types of extensions of the draft, beside dates
EXTENDED = ("|S3", "<U4", ">U4", "<m8[ms]", ">M8[D]")
CORE = ("|b1", "|i1", "|u1", "<i2", ">u4", "<i8", "<f2", ">f4", "<f8", "<c8", "<M8[s]")


def values(dtype: str) -> np.ndarray[Any, Any]:
    numbers = (np.arange(63).reshape(SHAPE) * 7) % 101
    if dtype == "|b1":
        return numbers % 3 == 1
    if dtype[1] in "SU":
        return numbers.astype(str).astype(dtype)
    return numbers.astype(dtype)


def same(found: Any, wanted: Any) -> bool:
    found, wanted = np.asarray(found), np.asarray(wanted)
    return bool(found.astype(wanted.dtype).tobytes() == wanted.tobytes() and found.shape == wanted.shape)


COMPRESSORS = ("none", "zstd", "gzip", "blosc", "zlib", "bz2", "lzma")
SPELLED = {
    "none": None,
    "zstd": {"id": "zstd", "level": 3},
    "gzip": {"id": "gzip", "level": 5},
    "blosc": {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": -1, "blocksize": 0},
    "zlib": {"id": "zlib", "level": 1},
    "bz2": {"id": "bz2", "level": 1},
    "lzma": {"id": "lzma", "preset": 1},
}


@pytest.mark.parametrize(("dtype", "order"), itertools.product(DTYPES, "CF"))
def test_zarr_reads_our_zarr_2(dtype: str, order: Any, tmp_path: Path) -> None:
    content = values(dtype)
    for name in COMPRESSORS:
        terrazzo.create_array(
            tmp_path / name,
            data=content,
            chunks=CHUNKS,
            compressors=SPELLED[name],
            order=order,
            zarr_format=2,
            attributes={"n": 1},
        )
        array = zarr.open_array(tmp_path / name, mode="r", zarr_format=2)
        assert array.dtype == content.dtype
        assert array.attrs.asdict() == {"n": 1}
        assert same(array[...], content), name


@pytest.mark.parametrize(("dtype", "order"), itertools.product(DTYPES, "CF"))
def test_we_read_zarrs_zarr_2(dtype: str, order: Any, tmp_path: Path) -> None:
    content = values(dtype)
    for name in COMPRESSORS:
        config = SPELLED[name]
        array = zarr.create_array(
            tmp_path / name,
            shape=SHAPE,
            dtype=content.dtype,
            chunks=CHUNKS,
            compressors=None if config is None else numcodecs.get_codec(dict(config)),
            order=order,
            zarr_format=2,
        )
        array[...] = content
        ours = terrazzo.open_array(tmp_path / name)
        assert ours.metadata.zarr_format == 2
        assert same(ours[...], content), name
        ours[3:5] = content[5:7]
        changed = content.copy()
        changed[3:5] = content[5:7]
        assert same(zarr.open_array(tmp_path / name, mode="r", zarr_format=2)[...], changed), name


def test_hierarchies_of_zarr_2(tmp_path: Path) -> None:
    root = terrazzo.open_group(tmp_path / "ours", zarr_format=2, attributes={"title": "t"})
    root.create_array("a/text", data=np.array(["a", "größer", ""], dtype=object), chunks=2)
    root.create_array(
        "a/records", data=np.array([(1, 2.5)], [("x", "<i2"), ("y", ">f8")][:1] + [("y", "<f8")])
    )
    terrazzo.consolidate_metadata(tmp_path / "ours")
    theirs = zarr.open_consolidated(tmp_path / "ours", zarr_format=2)
    assert theirs.attrs.asdict() == {"title": "t"}
    assert list(theirs["a/text"][...]) == ["a", "größer", ""]
    assert theirs["a/records"][...].tolist() == [(1, 2.5)]
    assert sorted(theirs["a"].keys()) == ["records", "text"]


def draft(verb: str, folder: Path) -> None:
    if not DRAFT.exists():
        pytest.skip(
            f"there is no {DRAFT}: the draft's library needs an environment of its own (make fixtures)"
        )
    program = Path(__file__).with_name("draft_peer.py")
    done = subprocess.run([DRAFT, program, verb, folder], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_drafts_library_reads_what_we_write(tmp_path: Path) -> None:
    v2 = terrazzo.open_group(tmp_path / "v2", zarr_format=2, attributes={"title": "ours"})
    root = terrazzo.open_group(tmp_path / "draft", dialect="P", attributes={"title": "ours"})
    wanted: dict[str, Any] = {}
    for dtype, order in itertools.product((*CORE, *EXTENDED), "CF"):
        content = values(dtype)
        label = f"{content.dtype.kind}{content.itemsize}{'b' if dtype[0] == '>' else ''}-{order}"
        for name in ("none", "zstd", "gzip", "blosc", "zlib"):
            how: dict[str, Any] = {"chunks": CHUNKS, "compressors": SPELLED[name], "order": order}
            v2.create_array(f"{label}-{name}", data=content, **how)
            root.create_array(f"{label}-{name}", data=content, **how)
            root.create_array(f"{label}-{name}-shards", data=content, shards=(4, 6), **how)
            wanted |= {f"v2-{label}-{name}": content, f"draft-{label}-{name}": content}
            wanted[f"draft-{label}-{name}-shards"] = content
    part = root.create_array("part", shape=SHAPE, dtype="<i4", chunks=CHUNKS, shards=(4, 6), fill_value=-7)
    part[3:6, 2:5] = 5
    wanted["draft-part"] = part[...]
    draft("read", tmp_path)
    for name, content in wanted.items():
        assert same(np.load(tmp_path / f"{name}.npy"), content), name


def test_we_read_and_change_what_the_drafts_library_writes(tmp_path: Path) -> None:
    for dtype in CORE:
        np.save(tmp_path / f"{dtype.translate(str.maketrans('<>|[]', 'lbn__'))}.npy", values(dtype))
    draft("write", tmp_path)
    for store in ("v2", "draft"):
        root = terrazzo.open(tmp_path / store)
        assert root.attrs["title"] == "theirs"
        names = [name for name, _ in root.members()]
        assert len(names) == len(CORE) * 3 * (1 if store == "v2" else 2)
        for name in names:
            content = np.load(tmp_path / f"{name.split('-')[0]}.npy")
            assert same(root[name][...], content), (store, name)
            root[name][1:8, 2] = content[0:7, 3]
            root[name].resize((11, 7))
        root.attrs.put({"title": "ours"})
    for file in tmp_path.glob("*.npy"):
        file.rename(file.with_suffix(".kept"))
    draft("read", tmp_path)
    for file in tmp_path.glob("*.npy"):
        name = file.stem.split("-")[1]
        with (tmp_path / f"{name}.kept").open("rb") as kept:
            content = np.load(kept)
        wanted = np.zeros((11, 7), content.dtype)
        wanted[:9] = content
        wanted[1:8, 2] = content[0:7, 3]
        assert same(np.load(file), wanted), file.stem


@pytest.mark.parametrize(
    "form", [{"zarr_format": 2}, {"dialect": "P"}, {"dialect": "D"}], ids=["v2", "P", "D"]
)
def test_zarr_reads_what_was_migrated(form: dict[str, Any], tmp_path: Path) -> None:
    from terrazzo.care import migrate

    shards = None if "zarr_format" in form else (4, 6)
    root = terrazzo.open_group(tmp_path / "a", mode="w", attributes={"title": "t"}, **form)
    for dtype, order in itertools.product(CORE, "CF"):
        content = values(dtype)
        name = f"{content.dtype.kind}{content.itemsize}{order}"
        root.create_array(name, data=content, chunks=CHUNKS, shards=shards, order=order, compressors="gzip:1")
    assert migrate(tmp_path / "a", verify=True, confirm=True).encoded == []
    found = zarr.open_group(tmp_path / "a", mode="r", zarr_format=3)
    assert found.attrs.asdict() == {"title": "t"}
    for dtype, order in itertools.product(CORE, "CF"):
        content = values(dtype)
        assert same(found[f"{content.dtype.kind}{content.itemsize}{order}"][...], content), (dtype, order)


@pytest.mark.parametrize("form", ["P", "D", "v2", "2023-03", "2023-05"])
def test_tensorstore_reads_what_was_migrated_without_a_rewritten_byte(form: str, tmp_path: Path) -> None:
    ts = pytest.importorskip("tensorstore")
    from terrazzo.care import migrate

    content = values("<i4")
    place = tmp_path / "a"
    how: dict[str, Any] = {"chunks": CHUNKS, "compressors": "gzip:1"}
    if form == "v2":
        terrazzo.create_array(place, data=content, zarr_format=2, **how)
    elif form in ("P", "D"):
        terrazzo.create_array(place, data=content, shards=(4, 6), dialect=form, **how)
    else:
        little = [{"name": "bytes", "configuration": {"endian": "little"}}]
        index = little if form == "2023-03" else [*little, {"name": "crc32c"}]
        inner = [*little, {"name": "gzip", "configuration": {"level": 1}}]
        configuration = {"chunk_shape": list(CHUNKS), "codecs": inner, "index_codecs": index}
        sharding = {"name": "sharding_indexed", "configuration": configuration}
        terrazzo.create_array(place, data=content, chunks=(4, 6), codecs=[sharding])
        document = json.loads((place / "zarr.json").read_text())
        del document["codecs"][0]["configuration"]["index_codecs"]
        del document["codecs"][0]["configuration"]["index_location"]
        (place / "zarr.json").write_text(json.dumps(document))
    before = chunks_of(place)
    report = migrate(place, verify=True, confirm=True)
    assert (report.encoded, report.copied) == ([], 0)
    assert chunks_of(place) == before
    assert same(zarr.open_array(place, mode="r", zarr_format=3)[...], content)
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(place)}}
    assert same(ts.open(spec, open=True).result().read().result(), content)


def chunks_of(place: Path) -> list[bytes]:
    """What is stored beside documents, and locks that writers leave."""
    files = [file for file in place.rglob("*") if file.is_file() and not file.name.startswith(("__", ".z"))]
    return sorted(file.read_bytes() for file in files if file.suffix != ".json" and "lock" not in file.name)
