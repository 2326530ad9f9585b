"""Documents of Zarr 2: every type, codec and fill value, there and back."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.errors import DataTypeValidationError, MetadataError
from terrazzo.metadata import node_from_json
from terrazzo.metadata.v2 import array_from_v2, array_to_v2, group_from_v2, group_to_v2


def document(**members: Any) -> dict[str, Any]:
    return {
        "zarr_format": 2,
        "shape": [5, 7],
        "chunks": [2, 3],
        "dtype": "<i4",
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": None,
        **members,
    }


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def there_and_back(found: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    node = node_from_json(array_from_v2(found, {}))
    return node, array_to_v2(node.to_document())


TYPES = [
    *("|b1", "|i1", "|u1", "<i2", ">i2", "<u4", ">u8", "<f2", "<f4", ">f8", "<c8", ">c16"),
    *("|S12", "<U3", ">U3", "|V5", "<M8[ns]", ">m8[25s]", "<M8"),
]


@pytest.mark.parametrize("dtype", TYPES)
def test_types_come_back(dtype: str) -> None:
    node, back = there_and_back(document(dtype=dtype, fill_value=None))
    assert back["dtype"] == np.dtype(dtype).str
    assert node.data_type.numpy == np.dtype(dtype).newbyteorder("=")
    assert not node.fill_value.tobytes().strip(b"\0") or dtype == "<U3"


@pytest.mark.parametrize(
    "dtype",
    [
        [["x", "<f4"], ["n", "|u1"], ["id", "<i8"]],
        [["x", ">f4"], ["in", [["n", "|u1"], ["t", ">M8[s]"]]]],
        [["x", "<f4"], ["id", ">i8"]],
        [["x", "<f4", [2, 3]], ["name", "|S4"]],
    ],
    ids=["packed", "nested", "mixed", "array"],
)
def test_records_come_back_with_their_fill_value(dtype: Any) -> None:
    numpy = np.dtype(
        [
            tuple(field) if isinstance(field[1], str) else ("in", [tuple(f) for f in field[1]])
            for field in dtype
        ]
    )
    encoded = bytes(range(1, numpy.itemsize + 1))
    node, back = there_and_back(document(dtype=dtype, fill_value=b64(encoded)))
    assert back["dtype"] == dtype
    assert back["fill_value"] == b64(encoded)
    assert node.fill_value.astype(numpy).tobytes() == encoded


@pytest.mark.parametrize(
    ("dtype", "fill", "wanted"),
    [
        ("<f4", "NaN", "NaN"),
        ("<f8", "-Infinity", "-Infinity"),
        ("<f8", -0.0, -0.0),
        ("<c8", ["NaN", 1.5], ["NaN", 1.5]),
        ("<c8", 2, [2.0, 0.0]),
        ("<u8", 2**64 - 1, 2**64 - 1),
        ("<i4", 3.0, 3),
        ("|b1", 1, True),
        ("|S3", b64(b"ab"), b64(b"ab")),
        ("|S3", 0, ""),
        ("|V2", b64(b"\1\2"), b64(b"\1\2")),
        ("<U3", "né", "né"),
        ("<M8[D]", -5, -5),
        ("<M8[D]", "NaT", -(2**63)),
    ],
)
@pytest.mark.filterwarnings("ignore::terrazzo.errors.TerrazzoWarning")
def test_fill_values(dtype: str, fill: Any, wanted: Any) -> None:
    assert repr(there_and_back(document(dtype=dtype, fill_value=fill))[1]["fill_value"]) == repr(wanted)


CODECS = [
    {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 0, "blocksize": 256},
    {"id": "gzip", "level": 9},
    {"id": "zstd", "level": -3, "checksum": True},
    {"id": "zlib", "level": 1},
    {"id": "bz2", "level": 5},
    {"id": "lz4", "acceleration": 1},
    {"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None},
]


@pytest.mark.parametrize("compressor", CODECS, ids=lambda codec: codec["id"])
def test_compressors_come_back(compressor: dict[str, Any]) -> None:
    assert there_and_back(document(compressor=compressor))[1]["compressor"] == compressor


def test_automatic_shuffle_is_by_the_size_of_elements() -> None:
    automatic = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1, "blocksize": 0}
    for dtype, wanted in (("|u1", "bitshuffle"), ("<f8", "shuffle")):
        codec = array_from_v2(document(dtype=dtype, compressor=automatic), {})["codecs"][-1]
        assert codec["configuration"]["shuffle"] == wanted
        assert codec["configuration"]["typesize"] == np.dtype(dtype).itemsize


def test_order_and_filters_take_their_places() -> None:
    filters = [{"id": "delta", "dtype": "<i4"}, {"id": "shuffle", "elementsize": 4}]
    found = document(order="F", filters=filters, compressor={"id": "zlib", "level": 3})
    codecs = array_from_v2(found, {})["codecs"]
    names = ["transpose", "numcodecs.delta", "bytes", "numcodecs.shuffle", "numcodecs.zlib"]
    assert [codec["name"] for codec in codecs] == names
    assert codecs[0]["configuration"] == {"order": [1, 0]}
    back = there_and_back(found)[1]
    assert (back["order"], back["filters"], back["compressor"]) == ("F", filters, found["compressor"])


def test_a_filter_says_the_byte_order_of_what_is_stored() -> None:
    filters = [{"id": "fixedscaleoffset", "offset": 0, "scale": 10, "dtype": "<f8", "astype": ">i2"}]
    codecs = array_from_v2(document(dtype="<f8", filters=filters), {})["codecs"]
    assert codecs[1] == {"name": "bytes", "configuration": {"endian": "big"}}


@pytest.mark.parametrize(("identity", "name"), [("vlen-utf8", "string"), ("vlen-bytes", "bytes")])
def test_objects_are_what_their_filter_says(identity: str, name: str) -> None:
    node, back = there_and_back(document(dtype="|O", filters=[{"id": identity}], fill_value=None))
    assert node.data_type.name == name
    assert (back["dtype"], back["filters"]) == ("|O", [{"id": identity}])


@pytest.mark.parametrize("identity", ["pickle", "json2", "msgpack2", "vlen-array"])
def test_objects_of_any_kind_keep_their_filter(identity: str) -> None:
    node, back = there_and_back(document(dtype="|O", filters=[{"id": identity}], fill_value=None))
    assert node.data_type.name == "terrazzo.objects"
    assert (back["dtype"], back["filters"], back["fill_value"]) == ("|O", [{"id": identity}], None)


def test_objects_without_a_filter_that_says_what_they_are() -> None:
    with pytest.raises(MetadataError, match=r"\|O"):
        array_from_v2(document(dtype="|O", filters=None), {})


def test_labels_are_numbers_after_their_filter() -> None:
    labels = {"id": "categorize", "labels": ["a", "b"], "dtype": "|O", "astype": "|u1"}
    node, back = there_and_back(document(dtype="|O", filters=[labels], fill_value=""))
    assert node.data_type.name == "string"
    assert [codec.name for codec in node.codecs][:2] == ["numcodecs.categorize", "bytes"]
    assert back["filters"] == [labels]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"zarr_format": 3}, "zarr_format"),
        ({"order": "A"}, "order"),
        ({"filters": {}}, None),
        ({"filters": 3}, "filters"),
        ({"dimension_separator": "-"}, "dimension_separator"),
        ({"dtype": "<f3"}, "dtype"),
        ({"dtype": "|O"}, "dtype"),
        ({"dtype": [["x", "|O"]]}, "dtype"),
        ({"dtype": [["x", "<f4"], ["x", "<f4"]]}, "dtype"),
        ({"dtype": "<f16"}, "dtype"),
        ({"dtype": "|S0"}, "dtype"),
        ({"compressor": {}}, "compressor"),
        ({"compressor": "zstd"}, "compressor"),
        ({"dtype": "|V4", "fill_value": "AA=="}, "fill_value"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(change: dict[str, Any], path: str | None) -> None:
    if path is None:
        array_from_v2(document(**change), {})
        return
    with pytest.raises(MetadataError, match=path) as caught:
        array_from_v2(document(**change), {})
    assert isinstance(caught.value, DataTypeValidationError) or caught.value.problems


def test_unknown_members_of_an_array_are_ignored() -> None:
    assert array_from_v2(document(chunk_store="x"), {})["shape"] == [5, 7]


def test_groups() -> None:
    assert group_from_v2(group_to_v2(), {"a": 1})["attributes"] == {"a": 1}
    with pytest.raises(MetadataError, match="zarr_format"):
        group_from_v2({"zarr_format": 1}, {})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dimension_names": ["y", "x"]}, "no names of dimensions"),
        ({"chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}}, "names chunks"),
        ({"chunk_grid": {"name": "rectilinear", "configuration": {}}}, "regular chunks alone"),
        (
            {"codecs": [{"name": "transpose", "configuration": {"order": [0, 1]}}, {"name": "bytes"}]},
            "transpose",
        ),
        ({"codecs": [{"name": "sharding_indexed", "configuration": {}}]}, "no shards"),
        ({"codecs": [{"name": "bytes"}, {"name": "conditional", "configuration": {}}]}, "no codec"),
        ({"data_type": "float32", "fill_value": "0x7fc00001"}, "one NaN"),
        ({"data_type": "bfloat16", "fill_value": 0}, "no spelling"),
    ],
)
def test_what_zarr_2_cannot_say_is_refused(change: dict[str, Any], reason: str) -> None:
    if change.get("data_type") == "bfloat16":
        pytest.importorskip("ml_dtypes")
    said = array_from_v2(document(), {})
    with pytest.raises(MetadataError, match=reason):
        array_to_v2({**said, **change})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(member=st.sampled_from(sorted(document())), value=JSON)
@settings(max_examples=100, deadline=None)
@pytest.mark.filterwarnings("ignore::terrazzo.errors.TerrazzoWarning")
def test_any_document_is_read_or_refused(member: str, value: Any) -> None:
    try:
        node_from_json(array_from_v2(document(**{member: value}), {}))
    except MetadataError:
        pass
