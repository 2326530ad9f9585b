"""Documents of the 2022 draft: both ways to write, extension types, shards, and what has to be understood."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.errors import MetadataError, TerrazzoWarning
from terrazzo.metadata import node_from_json
from terrazzo.metadata.draft import SHARDING, array_from_draft, array_to_draft, group_from_draft

LETTER = "https://purl.org/zarr/spec/codecs/{}/1.0"
PYTHON = "https://purl.org/zarr/spec/codec/{}/1.0"


def document(**members: Any) -> dict[str, Any]:
    return {
        "shape": [5, 7],
        "data_type": "<i4",
        "chunk_grid": {"type": "regular", "chunk_shape": [2, 3], "separator": "/"},
        "chunk_memory_layout": "C",
        "fill_value": 0,
        "extensions": [],
        "attributes": {},
        **members,
    }


def shards(*counts: list[int], extension: str = SHARDING) -> list[dict[str, Any]]:
    return [
        {"extension": extension, "type": "indexed", "configuration": {"chunks_per_shard": each}}
        for each in counts
    ]


def read(found: dict[str, Any], way: Any = "P", **how: Any) -> Any:
    # the key encoding of the draft is no concern of documents
    return node_from_json(array_from_draft(found, way, **how))


def there_and_back(found: dict[str, Any], way: Any) -> dict[str, Any]:
    return array_to_draft(read(found, way).to_document(), way)


def test_what_zarr_python_wrote_comes_back() -> None:
    found = document(
        data_type=">f8",
        chunk_memory_layout="F",
        fill_value="NaN",
        compressor={"codec": PYTHON.format("zlib"), "configuration": {"level": 3}},
        attributes={"filters": [{"id": "delta", "dtype": ">f8"}], "unit": "m"},
        storage_transformers=shards([2, 3]),
    )
    assert there_and_back(found, "P") == found
    assert read(found).attributes == {"unit": "m"}


def test_the_letter_comes_back() -> None:
    found = document(
        data_type="float64",
        fill_value="+Infinity",
        codecs=[
            {"type": LETTER.format("endian"), "configuration": {"endian": "big"}},
            {"type": LETTER.format("gzip"), "configuration": {"level": 1}},
        ],
        storage_transformers=shards(
            [2, 3], extension="https://purl.org/zarr/spec/extensions/storage_transformers/sharding/1.0"
        ),
    )
    assert there_and_back(found, "D") == found
    node = read(found, "D")
    inner = node.codecs[0].configuration["codecs"]
    assert [codec["name"] for codec in inner] == ["bytes", "gzip"]
    assert inner[0]["configuration"]["endian"] == "big"


@pytest.mark.parametrize(
    ("spelled", "dtype"),
    [
        *(
            ("bool", "?"),
            ("i1", "i1"),
            ("u1", "u1"),
            ("<i2", "i2"),
            (">u4", "u4"),
            ("float32", "f4"),
            ("uint16", "u2"),
        ),
        *(
            ("r16", "V2"),
            ({"extension": "TODO", "type": "<U3"}, "U3"),
            ({"extension": "x", "type": "<M8[ns]"}, "M8[ns]"),
        ),
        ({"extension": "x", "type": [["a", "<i2"], ["b", "|S3"]]}, [("a", "i2"), ("b", "S3")]),
        ({"extension": "x", "type": "S4", "fallback": "r32"}, "S4"),
    ],
)
def test_types(spelled: Any, dtype: Any) -> None:
    assert read(document(data_type=spelled, fill_value=None)).data_type.numpy == np.dtype(dtype)


def test_a_fallback_is_used_where_that_is_asked_for() -> None:
    found = document(data_type={"extension": "http://x", "type": "decimal", "fallback": ["posit", "<i8"]})
    with pytest.raises(MetadataError, match='decimal.*fallback="warn"'):
        read(found)
    assert read(found, fallback="use").data_type.name == "int64"
    with pytest.warns(TerrazzoWarning, match="read as"):
        assert read(found, fallback="warn").data_type.name == "int64"
    with pytest.raises(MetadataError, match="decimal"):
        read(document(data_type={"extension": "http://x", "type": "decimal"}), fallback="use")


@pytest.mark.parametrize(
    ("dtype", "fill", "wanted"),
    [
        ("<f4", "+Infinity", np.float32(np.inf)),
        ("<f4", "0x3f800000", np.float32(1)),
        ("<i2", "0xffff", np.int16(-1)),
        ("u1", "0b00000101", np.uint8(5)),
        ("<i4", None, np.int32(0)),
    ],
)
def test_fill_values(dtype: str, fill: Any, wanted: Any) -> None:
    assert read(document(data_type=dtype, fill_value=fill)).fill_value[()] == wanted


@pytest.mark.parametrize("fill", ["0x3f8", "0xzz800000", "0b1"])
def test_digits_must_be_of_the_full_width(fill: str) -> None:
    with pytest.raises(MetadataError, match="digits"):
        read(document(data_type="<f4", fill_value=fill))


@pytest.mark.parametrize(
    "extension",
    [
        SHARDING,
        "https://purl.org/zarr/spec/extensions/storage_transformers/sharding/1.0",
        "https://purl.org/zarr/spec/extensions/storage-transformers/sharding/1.0",
        "sharding",
    ],
)
def test_every_name_of_the_sharding_transformer(extension: str) -> None:
    node = read(document(storage_transformers=shards([2, 4], extension=extension)))
    assert node.chunk_grid.configuration == {"chunk_shape": [4, 12]}
    assert node.codecs[0].configuration["chunk_shape"] == [2, 3]
    assert node.codecs[0].configuration["index_codecs"] == [
        {"name": "bytes", "configuration": {"endian": "little"}}
    ]


def test_transformers_stack() -> None:
    found = document(storage_transformers=shards([2, 2], [3, 1]))
    node = read(found)
    assert node.chunk_grid.configuration == {"chunk_shape": [12, 6]}
    assert node.codecs[0].configuration["chunk_shape"] == [4, 6]
    assert node.codecs[0].configuration["codecs"][0]["configuration"]["chunk_shape"] == [2, 3]
    assert there_and_back(found, "P")["storage_transformers"] == found["storage_transformers"]


def test_lost_shards_are_said_by_the_caller() -> None:
    assert read(document(), chunks_per_shard=[2]).chunk_grid.configuration == {"chunk_shape": [4, 3]}


def test_acquire_and_2020() -> None:
    found = document(data_type="uint16", compressor=None)
    assert read(found).codecs[0].name == "bytes"
    found = document(
        compressor={"id": "blosc", "cname": "lz4", "clevel": 1, "shuffle": 1}, dimension_separator="/"
    )
    assert read(found).codecs[1].configuration["typesize"] == 4


def test_extensions_have_to_be_understood_unless_they_say_otherwise() -> None:
    ignorable = {"extension": "http://x", "must_understand": False, "configuration": {}}
    assert read(document(extensions=[ignorable])).shape == (5, 7)
    for extension in ({"extension": "http://x", "must_understand": True}, {"extension": "http://x"}, "x"):
        with pytest.raises(MetadataError, match=r"extensions\[0\].*understood"):
            read(document(extensions=[extension]))


def test_unknown_members_are_refused_by_the_letter_and_ignored_by_zarr_python() -> None:
    with pytest.raises(MetadataError, match="colour"):
        read(document(colour="red"), "D")
    with pytest.warns(TerrazzoWarning, match="colour"):
        read(document(colour="red"), "P")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"chunk_grid": {"type": "odd", "chunk_shape": [2, 3]}}, "chunk_grid.type"),
        (
            {"chunk_grid": {"type": "regular", "chunk_shape": [2, 3], "separator": "-"}},
            "chunk_grid.separator",
        ),
        ({"chunk_memory_layout": "Z"}, "chunk_memory_layout"),
        ({"storage_transformers": [{"extension": "other", "type": "x"}]}, r"storage_transformers\[0\]"),
        ({"storage_transformers": shards([0, 2])}, "chunks_per_shard"),
        ({"compressor": {"codec": "", "configuration": {}}}, "compressor"),
        ({"compressor": {"codec": "//", "configuration": {}}}, "compressor"),
        (
            {
                "storage_transformers": shards([2, 2]),
                "chunk_grid": {"type": "regular", "chunk_shape": [3], "separator": "/"},
            },
            "chunk_grid.chunk_shape",
        ),
        (
            {
                "storage_transformers": shards([2, 2]),
                "chunk_grid": {"type": "regular", "chunk_shape": [3, None], "separator": "/"},
            },
            "chunk_grid.chunk_shape",
        ),
        ({"storage_transformers": shards([1, 2, 3])}, "chunks_per_shard"),
        ({"compressor": {"codec": "x"}, "codecs": [{"type": "gzip"}]}, "compressor"),
        ({"compressor": 3}, "compressor"),
        ({"codecs": [{"type": "gzip"}, {"type": LETTER.format("endian")}]}, r"codecs\[1\]"),
        ({"data_type": {"extension": "x"}}, "data_type.type"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(change: dict[str, Any], path: str) -> None:
    with pytest.raises(MetadataError, match=path):
        read(document(**change))


@pytest.mark.parametrize(
    ("way", "change", "reason"),
    [
        ("P", {"dimension_names": ["y", "x"]}, "no names of dimensions"),
        ("P", {"chunk_grid": {"name": "rectilinear", "configuration": {}}}, "regular chunks alone"),
        ("P", {"codecs": [{"name": "bytes"}, {"name": "crc32c"}]}, "knows gzip"),
        (
            "D",
            {"codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 1}}]},
            "gzip and blosc",
        ),
        ("P", {"chunk_key_encoding": {"name": "v2"}}, "names chunks"),
    ],
)
def test_what_the_draft_cannot_say_is_refused(way: Any, change: dict[str, Any], reason: str) -> None:
    said = read(document(), way).to_document()
    with pytest.raises(MetadataError, match=reason):
        array_to_draft({**said, **change}, way)


@pytest.mark.parametrize(
    ("member", "value", "reason"),
    [
        ("index_location", "start", "end"),
        (
            "index_codecs",
            [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "no checksum",
        ),
    ],
)
def test_indexes_that_the_draft_does_not_have(member: str, value: Any, reason: str) -> None:
    said = read(document(storage_transformers=shards([2, 2]))).to_document()
    said["codecs"][0]["configuration"][member] = value
    with pytest.raises(MetadataError, match=reason):
        array_to_draft(said, "P")


def test_groups() -> None:
    assert group_from_draft({"attributes": {"a": 1}}, "D")["attributes"] == {"a": 1}
    with pytest.raises(MetadataError, match="object"):
        group_from_draft([], "P")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    member=st.sampled_from([*sorted(document()), "codecs", "compressor", "storage_transformers"]), value=JSON
)
@settings(max_examples=100, deadline=None)
@pytest.mark.filterwarnings("ignore::terrazzo.errors.TerrazzoWarning")
def test_any_document_is_read_or_refused(member: str, value: Any) -> None:
    for way in ("P", "D"):
        try:
            read(document(**{member: value}), way)
        except MetadataError:
            pass
