"""Documents of Zarr 3: every rule with the path of what breaks it, the forms that are written, hostile documents."""

from __future__ import annotations

import json
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.errors import (
    LimitError,
    MetadataError,
    MetadataValidationError,
    NodeTypeValidationError,
    TerrazzoWarning,
)
from terrazzo.metadata import (
    ArrayMetadata,
    Extension,
    GroupMetadata,
    data_type_from_json,
    node_from_json,
    parse_node,
)
from terrazzo.options import Limits, Options

LENIENT = Options(strict=False)
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
SHARDS = {
    "name": "sharding_indexed",
    "configuration": {
        "chunk_shape": [1, 1],
        "codecs": ["bytes", {"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
        "index_codecs": [BYTES, {"name": "crc32c"}],
    },
}
DROP = object()


def array(**changes: Any) -> dict[str, Any]:
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [10, 20],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5, 7]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.0,
        "codecs": [BYTES],
        "attributes": {"units": "K"},
    } | changes
    return {name: value for name, value in document.items() if value is not DROP}


def group(**changes: Any) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": {"a": [1, None]}} | changes


def parse(document: Any, options: Options | None = None) -> Any:
    return parse_node(json.dumps(document).encode(), "a/zarr.json", options)


def grid(**configuration: Any) -> dict[str, Any]:
    return {"name": "regular", "configuration": configuration}


AT, KEYS = "chunk_grid.configuration", "chunk_key_encoding.configuration"


def keys(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name} | more


def ragged(*chunk_shapes: Any, **more: Any) -> dict[str, Any]:
    return {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": list(chunk_shapes)} | more,
    }


def test_an_array_is_read_and_written_alike() -> None:
    document = array(dimension_names=["y", None], extra={"must_understand": False, "x": 1})
    node = parse(document)
    assert isinstance(node, ArrayMetadata)
    assert node.shape == (10, 20) and node.ndim == 2 and node.node_type == "array" and node.zarr_format == 3
    assert node.data_type == data_type_from_json("float32")
    assert node.chunk_grid == Extension("regular", {"chunk_shape": [5, 7]})
    assert node.codecs == (Extension("bytes", {"endian": "little"}),)
    assert node.fill_value.tobytes() == bytes(4)
    assert node.dimension_names == ("y", None)
    assert node.storage_transformers == () and node.attributes == {"units": "K"}
    assert node.extra == {"extra": {"must_understand": False, "x": 1}}
    assert node.to_document() == document
    assert list(node.to_document())[:2] == ["zarr_format", "node_type"]
    assert parse_node(node.to_bytes()) == node
    assert parse_node(node.to_bytes()).to_bytes() == node.to_bytes()
    assert pickle.loads(pickle.dumps(node)) == node
    with pytest.raises(AttributeError):
        node.shape = (1,)


def test_equality_is_bit_for_bit() -> None:
    zero, minus, nan = (parse(array(fill_value=value)) for value in (0.0, -0.0, "NaN"))
    assert (
        zero != minus
        and nan == parse(array(fill_value="0x7fc00000"))
        and nan != parse(array(fill_value="0x7fc00001"))
    )
    assert zero != "zero" and zero == parse(array())


def test_a_group_is_read_and_written_alike() -> None:
    node = parse(group())
    assert node == GroupMetadata({"a": [1, None]})
    assert node.to_document() == group() and node.consolidated is None
    assert parse_node(node.to_bytes()) == node
    assert parse({"zarr_format": 3, "node_type": "group"}) == GroupMetadata()
    # every zarr-python up to 3.1.3 wrote the null
    assert parse(group(consolidated_metadata=None)) == node


def test_every_form_is_read_and_the_accepted_one_written() -> None:
    node = parse(
        array(
            data_type={"name": "int32"},
            fill_value=1,
            chunk_key_encoding="v2",
            codecs=[
                {"name": "transpose", "configuration": {"order": [1, 0]}, "must_understand": True},
                "bytes",
                "crc32c",
            ],
            storage_transformers=[],
            dimension_names=None,
            attributes=DROP,
        )
    )
    document = node.to_document()
    assert document["data_type"] == "int32"
    assert document["chunk_key_encoding"] == {"name": "v2", "configuration": {"separator": "."}}
    assert document["codecs"][0] == {"name": "transpose", "configuration": {"order": [1, 0]}}
    assert document["codecs"][1:] == [{"name": "bytes"}, {"name": "crc32c"}]
    assert document["attributes"] == {}
    assert "storage_transformers" not in document and "dimension_names" not in document


def test_unknown_grids_codecs_and_transformers_stay_extensions() -> None:
    document = array(
        chunk_grid={"name": "hexagons", "configuration": {"side": 3}},
        chunk_key_encoding={"name": "hashed"},
        codecs=[{"name": "mystery", "must_understand": False}],
        storage_transformers=[{"name": "manifest", "configuration": {"at": 1}}],
    )
    node = parse(document)
    assert node.chunk_grid == Extension("hexagons", {"side": 3})
    assert node.codecs == (Extension("mystery", {}, must_understand=False),)
    assert node.to_document()["storage_transformers"] == document["storage_transformers"]
    assert node.to_document()["codecs"] == [{"name": "mystery"}]


def test_zero_dimensions_and_zero_lengths() -> None:
    point = parse(array(shape=[], chunk_grid=grid(chunk_shape=[])))
    assert point.shape == () and point.to_document()["chunk_grid"] == grid(chunk_shape=[])
    assert parse(array(shape=[0, 2**63 - 1])).shape == (0, 2**63 - 1)
    with pytest.warns(TerrazzoWarning, match="read as 1"):
        node = parse(array(shape=[0, 20], chunk_grid=grid(chunk_shape=[0, 7])))
    assert node.chunk_grid.configuration == {"chunk_shape": [1, 7]}


@pytest.mark.parametrize(
    "axes",
    [(5, 20), ([5, 5], [20]), ([[5, 2]], [[1, 3], 17]), ([4, 4, 4], [30]), ([[2, 2**62]], 1), ([1] * 10, 3)],
)
def test_rectilinear_grids(axes: tuple[Any, Any]) -> None:
    node = parse(array(chunk_grid=ragged(*axes)))
    assert node.chunk_grid.to_json() == ragged(*axes)


def test_duplicate_dimension_names_are_a_warning() -> None:
    with pytest.warns(TerrazzoWarning, match='dimension_names: found "x" more than once'):
        assert parse(array(dimension_names=["x", "x"])).dimension_names == ("x", "x")


def test_legacy_records_get_their_endianness_stated_also_inside_shards() -> None:
    old = {"name": "structured", "configuration": {"fields": [["x", "int16"]]}}
    for codecs in ([{"name": "bytes"}], [SHARDS]):
        document = parse(array(data_type=old, fill_value="AQA=", codecs=codecs)).to_document()
        assert document["data_type"]["name"] == "struct"
        assert document["fill_value"] == {"x": 1}
        stated = document["codecs"]
        if codecs == [SHARDS]:
            assert stated[0]["configuration"]["index_codecs"] == SHARDS["configuration"]["index_codecs"]
            assert stated[0]["configuration"]["codecs"][1] == SHARDS["configuration"]["codecs"][1]
            stated = stated[0]["configuration"]["codecs"]
        assert stated[0] == BYTES
    assert parse(array(codecs=[SHARDS])).to_document()["codecs"] == [SHARDS]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    *((array(**{member: DROP}), member, "is missing") for member in (
        "zarr_format", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs",
    )),
    (array(zarr_format=2), "zarr_format", "found 2, must be 3"),
    (array(zarr_format=True), "zarr_format", "must be 3"),
    (array(zarr_format="3"), "zarr_format", "must be 3"),
    (array(zarr_format=3.0), "zarr_format", "must be the integer 3"),
    (array(node_type=DROP), "node_type", "is missing"),
    (array(node_type="Array"), "node_type", 'must be "array" or "group"'),
    (array(node_type=["array"]), "node_type", 'must be "array" or "group"'),
    (array(shape=10), "shape", "must be a list"),
    (array(shape=[10, -1]), "shape[1]", "found -1"),
    (array(shape=[10, 2.0]), "shape[1]", "found 2.0"),
    (array(shape=[True, 2]), "shape[0]", "found true"),
    (array(shape=[2**63, 2]), "shape[0]", "from 0 to 2^63 - 1"),
    (array(shape=[1] * 65, chunk_grid="other"), "shape", "at most 64"),
    (array(data_type="float31"), "data_type", "not a known data type"),
    (array(data_type={"name": "float32", "must_understand": False}), "data_type.must_understand", "not available"),
    (array(chunk_grid=[5, 7]), "chunk_grid", "must be a name or an object"),
    (array(chunk_grid="regular"), "chunk_grid.configuration.chunk_shape", "is missing"),
    (array(chunk_grid=grid(chunk_shape=5)), "chunk_grid.configuration.chunk_shape", "must be a list"),
    (array(chunk_grid=grid(chunk_shape=[5])), "chunk_grid.configuration.chunk_shape", "found 1 entries, must be 2"),
    (array(chunk_grid=grid(chunk_shape=[5, 0])), f"{AT}.chunk_shape[1]", "found 0, must be an integer >= 1"),
    (array(chunk_grid=grid(chunk_shape=[5, 1.5])), f"{AT}.chunk_shape[1]", "found 1.5"),
    (array(chunk_grid=grid(chunk_shape=[5, True])), f"{AT}.chunk_shape[1]", "found true"),
    (array(chunk_grid=grid(chunk_shape=[5, 2**63])), f"{AT}.chunk_shape[1]", "integer >= 1"),
    (array(chunk_grid=grid(chunk_shape=[5, 7], more=1)), "chunk_grid.configuration.more", "not a member"),
    (array(chunk_grid=grid() | {"must_understand": False}), "chunk_grid.must_understand", "not available"),
    (array(chunk_grid=grid(chunk_shape=[5, 7]) | {"x": 1}), "chunk_grid.x", "is not a member"),
    (array(chunk_grid={"configuration": {}}), "chunk_grid.name", "found nothing"),
    (array(chunk_grid=ragged(5)), "chunk_grid.configuration.chunk_shapes", "found 1 entries"),
    (array(chunk_grid=ragged(5, 5, kind="file")), "chunk_grid.configuration.kind", 'must be "inline"'),
    (array(chunk_grid=ragged(5, [])), "chunk_grid.configuration.chunk_shapes[1]", "must be an integer >= 1 or a list"),
    (array(chunk_grid=ragged(0, 5)), "chunk_grid.configuration.chunk_shapes[0]", "must be an integer >= 1 or a list"),
    (array(chunk_grid=ragged([4, 4], 5)), "chunk_grid.configuration.chunk_shapes[0]", "sum to 8, must cover the 10"),
    (array(chunk_grid=ragged([[5, 0]], 5)), "chunk_grid.configuration.chunk_shapes[0][0]", "a pair [edge, count]"),
    (array(chunk_grid=ragged([5, "5"], 5)), "chunk_grid.configuration.chunk_shapes[0][1]", 'found "5"'),
    (array(chunk_key_encoding={"name": "default", "configuration": {"separator": "-"}}),
     "chunk_key_encoding.configuration.separator", 'must be "/" or "."'),
    (array(chunk_key_encoding={"name": "v2", "configuration": {"separator": ["."]}}),
     "chunk_key_encoding.configuration.separator", 'must be "/" or "."'),
    (array(chunk_key_encoding=keys("v2", configuration={"sep": "."})), f"{KEYS}.sep", "not a member"),
    (array(chunk_key_encoding=keys("v2", must_understand=False)), "chunk_key_encoding.must_understand", "not avail"),
    (array(fill_value=None), "fill_value", "found null"),
    (array(fill_value="0x7e01"), "fill_value", "hex digits"),
    (array(codecs=[]), "codecs", "exactly one codec"),
    (array(codecs=BYTES), "codecs", "must be a list"),
    (array(codecs=None), "codecs", "must be a list"),
    (array(codecs=[BYTES, 3]), "codecs[1]", "must be a name or an object"),
    (array(codecs=[{"name": "bytes", "must_understand": "false"}]), "codecs[0].must_understand", "true or false"),
    (array(codecs=[{"id": "zlib"}]), "codecs[0].name", "found nothing"),
    (array(codecs=[BYTES | {"level": 3}]), "codecs[0].level", "is not a member"),
    (array(attributes=[]), "attributes", "must be an object"),
    (array(attributes=None), "attributes", "found null"),
    (array(storage_transformers={}), "storage_transformers", "must be a list"),
    (array(storage_transformers=None), "storage_transformers", "must be a list"),
    (array(storage_transformers=[1]), "storage_transformers[0]", "must be a name"),
    (array(dimension_names="xy"), "dimension_names", "must be a list"),
    (array(dimension_names=["x"]), "dimension_names", "found 1 names, must be 2"),
    (array(dimension_names=["x", 1]), "dimension_names[1]", "found 1, must be a string or null"),
    (array(consolidated_metadata=None), "consolidated_metadata", "not allowed in an array"),
    (array(other=None), "other", "unknown name"),
    (array(other=False), "other", "unknown name"),
    (array(other={}), "other", "unknown name"),
    (array(other={"must_understand": True}), "other", "unknown name"),
    (array(other={"must_understand": "false"}), "other", "unknown name"),
    (array(other={"must_understand": None}), "other", "unknown name"),
    (array(other={"must_understand": 0}), "other", "unknown name"),
    (array(**{"odd name": 1}), '["odd name"]', "unknown name"),
    (group(shape=[1]), "shape", "unknown name"),
    (group(attributes=3), "attributes", "must be an object"),
    (group(zarr_format=2), "zarr_format", "must be 3"),
    ([], "", "must be an object"),
    ("zarr", "", "must be an object"),
    (None, "", "must be an object"),
]  # fmt: skip


@pytest.mark.parametrize("document, path, sentence", REFUSED)
def test_refused_documents_name_the_path(document: Any, path: str, sentence: str) -> None:
    with pytest.raises(MetadataValidationError) as caught:
        parse(document)
    assert [found for found, _ in caught.value.problems] == [path]
    assert sentence in caught.value.problems[0][1]
    line = f"a/zarr.json: {path}: " if path else "a/zarr.json: "
    assert str(caught.value).startswith(line) and "\n" not in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.problems == caught.value.problems and str(again) == str(caught.value)


def test_every_problem_is_told_at_once() -> None:
    document = array(
        zarr_format=4,
        shape=[1, "x", -1],
        data_type="what",
        chunk_grid=grid(chunk_shape=[0, 1]),
        chunk_key_encoding="default2",
        fill_value=DROP,
        codecs=[1, BYTES, {}],
        attributes=1,
        dimension_names=3,
        other=1,
    )
    with pytest.raises(MetadataValidationError) as caught:
        parse(document)
    assert [path for path, _ in caught.value.problems] == [
        "zarr_format",
        "shape[1]",
        "shape[2]",
        "data_type",
        "chunk_grid.configuration.chunk_shape[0]",
        "fill_value",
        "codecs[0]",
        "codecs[2].name",
        "dimension_names",
        "attributes",
        "other",
    ]
    assert str(caught.value).count("\n") == 10
    assert all(line.startswith("a/zarr.json: ") for line in str(caught.value).splitlines())


def test_lenient_reading_warns_where_values_are_certain() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        (array(zarr_format=3.0), "must be the integer 3"),
        (array(attributes=None), "attributes: found null"),
        (array(data_type="bool", fill_value=0), "must be true or false"),
        (array(codecs=[{"name": "bytes", "configuration": None}]), r"codecs\[0\].configuration: found null"),
    ]
    for document, sentence in cases:
        with pytest.raises(MetadataValidationError, match="`strict=False` reads it"):
            parse(document)
        with pytest.warns(TerrazzoWarning, match=sentence):
            node = parse(document, LENIENT)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert parse_node(node.to_bytes()) == node
    with pytest.raises(MetadataValidationError):
        parse(array(fill_value=None), LENIENT)


def test_another_kind_of_node_than_asked_for() -> None:
    with pytest.raises(NodeTypeValidationError, match='x: found the node type "array", must be "group"'):
        parse_node(json.dumps(array()).encode(), "x", expect="group")
    assert isinstance(parse_node(json.dumps(group()).encode(), expect="group"), GroupMetadata)


def test_hostile_documents_are_refused_quickly() -> None:
    many = array(codecs=[1] * 50_000)
    with pytest.raises(MetadataValidationError) as caught:
        parse(many)
    assert len(caught.value.problems) == 50_000 and len(str(caught.value)) < 20_000
    long_name = array(**{"x" * 100_000: "y" * 100_000}, data_type="z" * 100_000)
    with pytest.raises(MetadataValidationError) as caught:
        parse(long_name)
    assert len(str(caught.value)) < 3_000
    with pytest.raises(LimitError):
        parse_node(b'{"attributes":' * 100_000)
    with pytest.raises(LimitError, match="metadata_nbytes"):
        parse(array(), Options(limits=Limits(metadata_nbytes=10)))
    with pytest.raises(MetadataValidationError, match="at most 1 are read"):
        parse(array(), Options(limits=Limits(ndim=1)))
    with pytest.raises(MetadataValidationError, match='"shape" is there more than once'):
        parse_node(b'{"shape": [1], "shape": [2]}')


def test_what_cannot_be_written_names_the_path() -> None:
    node = parse(array())
    for value in (float("nan"), {1: 2}, object(), "\ud800"):
        with pytest.raises(MetadataError, match=r"attributes\.a\[0\]"):
            ArrayMetadata(**{**vars(node), "attributes": {"a": [value]}}).to_bytes()
        with pytest.raises(MetadataError, match=r"attributes\.a\[0\]"):
            GroupMetadata({"a": [value]}).to_bytes()
    numpy_like = GroupMetadata({"a": np.float32(0.5), "b": np.arange(2), "c": (1, 2)})
    assert parse_node(numpy_like.to_bytes()) == GroupMetadata({"a": 0.5, "b": [0, 1], "c": [1, 2]})


def test_documents_given_as_objects_are_not_changed_by_reading() -> None:
    document = array(codecs=[SHARDS], chunk_key_encoding="default")
    before = json.dumps(document)
    node = node_from_json(document)
    assert isinstance(node, ArrayMetadata)
    node.codecs[0].configuration["chunk_shape"][0] = 99
    assert json.dumps(document) == before


def test_extensions_hash_and_compare_by_value() -> None:
    one, same = Extension("a", {"x": [1], "y": 2}), Extension("a", {"y": 2, "x": [1]})
    assert one == same and hash(one) == hash(same) and one != Extension("a")
    assert Extension.from_json("a").to_json() == {"name": "a"} == Extension.from_json({"name": "a"}).to_json()


NAMES = st.none() | st.text(max_size=5)


@st.composite
def arrays(draw: st.DrawFn) -> dict[str, Any]:
    shape = draw(st.lists(st.integers(0, 2**40), max_size=4))
    kind, fill = draw(
        st.sampled_from([("bool", True), ("uint64", 2**64 - 1), ("float64", "0xfff0000000000001"), ("string", "é"),
                         ("complex64", ["NaN", -0.0]), ("r16", [1, 2])])
    )  # fmt: skip
    return array(
        shape=shape,
        data_type=kind,
        fill_value=fill,
        chunk_grid=grid(chunk_shape=[draw(st.integers(1, 2**40)) for _ in shape]),
        chunk_key_encoding={
            "name": draw(st.sampled_from(["default", "v2"])),
            "configuration": {"separator": "."},
        },
        attributes=draw(
            st.dictionaries(
                st.text(), st.integers() | st.text() | st.floats(allow_nan=False, width=16), max_size=3
            )
        ),
        **draw(
            st.just({})
            | st.fixed_dictionaries({"dimension_names": st.tuples(*(NAMES for _ in shape)).map(list)})
        ),
    )


@given(arrays())
@settings(max_examples=80)
def test_documents_survive(document: dict[str, Any]) -> None:
    if float("inf") in document["attributes"].values() or float("-inf") in document["attributes"].values():
        document["attributes"] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TerrazzoWarning)
        node = parse(document)
        assert node.to_document() == document
        assert parse_node(node.to_bytes()) == node


MEMBERS = [*array(), "dimension_names", "storage_transformers", "consolidated_metadata", "other"]
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["bytes", "regular"]),
    lambda one: (
        st.lists(one, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "configuration", "must_understand", "chunk_shape", "kind", "metadata"]),
            one,
        )
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(MEMBERS), JUNK, min_size=1, max_size=3), st.booleans())
@settings(max_examples=100)
def test_junk_is_read_or_refused_never_anything_else(changes: dict[str, Any], strict: bool) -> None:
    for document in (array(**changes), group(**changes)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TerrazzoWarning)
            try:
                node = node_from_json(document, options=Options(strict=strict))
            except MetadataError as error:
                told = error.problems
            else:
                told = ((node.node_type, node.to_bytes().decode()),)
            assert told and all(sentence for _, sentence in told)
