"""Documents of N5: each is read or refused, whatever stands in it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.errors import MetadataError
from terrazzo.metadata import node_from_json
from terrazzo.metadata.n5 import is_n5, node_from_n5


def document(**members: Any) -> dict[str, Any]:
    said = {
        "dimensions": [9, 7],
        "blockSize": [4, 3],
        "dataType": "int32",
        "compression": {"type": "gzip", "level": -1},
        "unit": "m",
    }
    return {**said, **members}


@pytest.mark.parametrize(
    ("compression", "codec"),
    [
        ({"type": "raw"}, None),
        ({"type": "gzip", "level": -1}, {"name": "gzip", "configuration": {"level": 6}}),
        (
            {"type": "gzip", "useZlib": True, "level": 2},
            {"name": "numcodecs.zlib", "configuration": {"level": 2}},
        ),
        ({"type": "zstd", "level": 5}, {"name": "zstd", "configuration": {"level": 5, "checksum": False}}),
        ({"type": "bzip2", "blockSize": 3}, {"name": "numcodecs.bz2", "configuration": {"level": 3}}),
        (
            {"type": "xz", "preset": 1},
            {"name": "numcodecs.lzma", "configuration": {"format": 1, "preset": 1}},
        ),
        (
            {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 2},
            {
                "name": "blosc",
                "configuration": {
                    "cname": "lz4",
                    "clevel": 5,
                    "shuffle": "bitshuffle",
                    "typesize": 4,
                    "blocksize": 0,
                },
            },
        ),
    ],
)
def test_compressors(compression: dict[str, Any], codec: Any) -> None:
    made = node_from_n5(document(compression=compression))
    codecs = made["codecs"][0]["configuration"]["codecs"]
    assert codecs[2:] == ([] if codec is None else [codec])
    assert codecs[0]["configuration"]["order"] == [1, 0]
    assert made["attributes"] == {"unit": "m"}
    assert node_from_json(made).shape == (9, 7)


def test_the_older_name_of_the_compressor() -> None:
    said = document(compressionType="gzip")
    del said["compression"]
    assert len(node_from_n5(said)["codecs"][0]["configuration"]["codecs"]) == 3


def test_what_is_of_n5() -> None:
    assert is_n5(document())
    assert is_n5({"n5": "4.0.0"})
    for other in ({}, {"n5": 4}, {"dimensions": [1]}, [], None, "n5"):
        assert not is_n5(other)
    assert node_from_n5({"n5": "4.0.0", "title": "t"})["attributes"] == {"title": "t"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(["raw", "gzip", "zstd", "blosc", "bzip2", "xz", "lz4", "jpeg"])
INSIDE = st.sampled_from(
    ["level", "useZlib", "blockSize", "preset", "cname", "clevel", "shuffle", "blocksize"]
)


@given(member=st.sampled_from([*document(), "compressionType"]), value=JSON)
@settings(max_examples=100, deadline=None)
def test_any_document_is_read_or_refused(member: str, value: Any) -> None:
    try:
        node_from_json(node_from_n5(document(**{member: value})))
    except MetadataError:
        pass


@given(kind=KINDS, members=st.dictionaries(INSIDE, JSON, max_size=3))
@settings(max_examples=100, deadline=None)
def test_any_compressor_is_read_or_refused(kind: str, members: dict[str, Any]) -> None:
    try:
        node_from_json(node_from_n5(document(compression={"type": kind, **members})))
    except MetadataError:
        pass
