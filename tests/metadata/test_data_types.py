"""Data types: every name, numpy's side of it, sizes and units, copies, and what is refused."""

from __future__ import annotations

import copy
import pickle
import sys
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pytest

from terrazzo.errors import DataTypeValidationError, MetadataValidationError
from terrazzo.metadata import (
    DataType,
    Fill,
    data_type_from_json,
    data_type_from_numpy,
    register_data_type,
    resolve_data_type,
)
from terrazzo.metadata.data_types import registry

ml_dtypes = pytest.importorskip("ml_dtypes")


def extension(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return extension("struct", fields=[{"name": name, "data_type": data_type} for name, data_type in fields])


STRINGS = np.dtypes.StringDType()
POINT = record(("x", "float32"), ("y", "float32"))
# document form, numpy, itemsize, units
TYPES: list[tuple[Any, Any, int | None, tuple[int, ...]]] = [
    ("bool", "?", 1, ()),
    ("int8", "i1", 1, ()),
    ("int16", "i2", 2, (2,)),
    ("int32", "i4", 4, (4,)),
    ("int64", "i8", 8, (8,)),
    ("uint8", "u1", 1, ()),
    ("uint16", "u2", 2, (2,)),
    ("uint32", "u4", 4, (4,)),
    ("uint64", "u8", 8, (8,)),
    ("float16", "f2", 2, (2,)),
    ("float32", "f4", 4, (4,)),
    ("float64", "f8", 8, (8,)),
    ("complex64", "c8", 8, (4,)),
    ("complex128", "c16", 16, (8,)),
    ("r8", "V1", 1, ()),
    ("r24", "V3", 3, ()),
    ("string", STRINGS, None, ()),
    ("bytes", object, None, ()),
    (extension("fixed_length_utf32", length_bytes=20), "U5", 20, (4,)),
    (extension("null_terminated_bytes", length_bytes=4), "S4", 4, ()),
    (extension("numpy.datetime64", unit="us", scale_factor=10), "M8[10us]", 8, (8,)),
    (extension("numpy.timedelta64", unit="D", scale_factor=1), "m8[D]", 8, (8,)),
    (extension("numpy.datetime64", unit="generic", scale_factor=1), "M8", 8, (8,)),
    (POINT, [("x", "f4"), ("y", "f4")], 8, (4,)),
    (record(("a", "float32"), ("b", "int16"), ("c", "uint8")), [("a", "f4"), ("b", "i2"), ("c", "u1")], 7, (4, 2, 1)),
    (record(("a", "uint8"), ("b", "r16")), [("a", "u1"), ("b", "V2")], 3, ()),
    (record(("p", POINT), ("v", "float64")), [("p", [("x", "f4"), ("y", "f4")]), ("v", "f8")], 16, (4, 4, 8)),
    (
        record(("z", "complex64"), ("s", extension("fixed_length_utf32", length_bytes=8)), ("r", "r24")),
        [("z", "c8"), ("s", "U2"), ("r", "V3")],
        19,
        (4, 4, 4, 4, 1, 1, 1),
    ),
    ("int2", ml_dtypes.int2, 1, ()),
    ("int4", ml_dtypes.int4, 1, ()),
    ("uint2", ml_dtypes.uint2, 1, ()),
    ("uint4", ml_dtypes.uint4, 1, ()),
    ("bfloat16", ml_dtypes.bfloat16, 2, (2,)),
    *((name, getattr(ml_dtypes, name), 1, ()) for name in (
        "float8_e3m4", "float8_e4m3", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz",
        "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn",
    )),
    ("complex_float16", getattr(ml_dtypes, "complex32", None), 4, (2,)),
    ("complex_bfloat16", getattr(ml_dtypes, "bcomplex32", None), 4, (2,)),
]  # fmt: skip
TYPES = [row for row in TYPES if row[1] is not None]
IDS = [row[0] if isinstance(row[0], str) else f"{row[0]['name']}-{i}" for i, row in enumerate(TYPES)]


@pytest.mark.parametrize("document, dtype, itemsize, units", TYPES, ids=IDS)
def test_names_sizes_and_units(
    document: Any, dtype: Any, itemsize: int | None, units: tuple[int, ...]
) -> None:
    data_type = data_type_from_json(document)
    assert data_type.to_json() == document
    assert data_type.numpy == np.dtype(dtype) and data_type.numpy.isnative
    assert data_type.itemsize == itemsize
    assert data_type.units == units
    assert data_type.needs_endian is bool(units)
    assert data_type.check == ("bool" if document == "bool" else "")
    assert data_type_from_json(data_type.to_json()) == data_type
    assert resolve_data_type(document) == data_type
    assert resolve_data_type(data_type) is data_type
    for twin in (pickle.loads(pickle.dumps(data_type)), copy.deepcopy(data_type)):
        assert twin == data_type and hash(twin) == hash(data_type)
    if itemsize is not None:
        assert itemsize % (sum(units) or 1) == 0
        assert data_type_from_numpy(dtype) == data_type


@pytest.mark.parametrize("document, dtype, itemsize, units", TYPES, ids=IDS)
def test_the_default_fill_value_survives_json(
    document: Any, dtype: Any, itemsize: int | None, units: tuple[int, ...]
) -> None:
    data_type = data_type_from_json(document)
    fill = data_type.default_fill()
    again = data_type.fill_from_json(data_type.fill_to_json(fill))
    assert fill.shape == again.shape == ()
    assert fill.dtype == again.dtype == data_type.numpy
    assert not fill.flags.writeable and not again.flags.writeable
    if itemsize is None:
        assert fill[()] == again[()]
    else:
        assert fill.tobytes() == again.tobytes()
    assert data_type.scalar_to_json(fill[()]) == data_type.fill_to_json(fill)


@pytest.mark.parametrize("order", "<>=|")
@pytest.mark.parametrize("code", ["i2", "u8", "f4", "c16", "U5", "M8[ns]", "m8[3h]"])
def test_byte_order_is_not_the_data_types(code: str, order: str) -> None:
    assert data_type_from_numpy(np.dtype(code).newbyteorder(order)) == data_type_from_numpy(code)


def test_records_with_padding_or_big_endian_fields_are_packed_and_native() -> None:
    loose = np.dtype([("a", "u1"), ("b", ">f8")], align=True)
    assert loose.itemsize == 16
    data_type = data_type_from_numpy(loose)
    assert data_type.numpy == np.dtype([("a", "u1"), ("b", "f8")]) and data_type.itemsize == 9


@pytest.mark.parametrize(
    "value, name",
    [
        (str, "string"), (bytes, "bytes"), (int, "int64"), (float, "float64"), (bool, "bool"), (complex, "complex128"),
        ("str", "string"), ("S", "bytes"), ("U", "string"), ("f", "float32"), ("<f4", "float32"), ("double", "float64"),
        (np.uint16, "uint16"), (STRINGS, "string"), ("V8", "r64"), ("r64", "r64"), ("longlong", "int64"),
        ("string", "string"), ("binary", "bytes"), ("complex_float64", "complex128"), ("bfloat16", "bfloat16"),
        (np.dtypes.StringDType(na_object=None), "string"), ({"name": "int8"}, "int8"),
    ],
)  # fmt: skip
def test_what_callers_say(value: Any, name: str) -> None:
    assert resolve_data_type(value).name == name


@pytest.mark.parametrize(
    "document, written",
    [
        ({"name": "int32"}, "int32"),
        ({"name": "int32", "configuration": {}}, "int32"),
        ({"name": "float32", "must_understand": True}, "float32"),
        ("complex_float32", "complex64"),
        ("variable_length_bytes", "bytes"),
        ("binary", "bytes"),
        (extension("raw_bytes", length_bytes=3), "r24"),
        (
            extension("numpy.datetime64", unit="\u03bcs", scale_factor=1),
            extension("numpy.datetime64", unit="us", scale_factor=1),
        ),
        (extension("structured", fields=[["x", "float32"], {"name": "y", "data_type": "float32"}]), POINT),
    ],
)
def test_other_spellings_are_read_and_written_the_one_way(document: Any, written: Any) -> None:
    assert data_type_from_json(document).to_json() == written


def test_the_older_record_implies_little_endian() -> None:
    old = data_type_from_json(extension("structured", fields=[["x", "int16"]]))
    new = data_type_from_json(record(("x", "int16")))
    assert old.implied_endian == "little" and new.implied_endian is None
    assert old == new and hash(old) == hash(new)


REFUSED: list[tuple[Any, str, str]] = [
    (None, "data_type", "must be a name or an object"),
    (3, "data_type", "must be a name or an object"),
    ("", "data_type.name", "must be the name"),
    ("int128", "data_type", "not a known data type"),
    ("Int8", "data_type", "not a known data type"),
    ("<f4", "data_type", "not a known data type"),
    ({}, "data_type.name", "found nothing"),
    ({"name": 1}, "data_type.name", "must be the name"),
    ({"name": "int8", "configuration": []}, "data_type.configuration", "must be an object"),
    ({"name": "int8", "configuration": None}, "data_type.configuration", "null"),
    ({"name": "int8", "configuration": {"a": 1}}, "data_type.configuration.a", "not a member of int8"),
    ({"name": "int8", "must_understand": False}, "data_type.must_understand", "not available"),
    ({"name": "int8", "must_understand": "false"}, "data_type.must_understand", "true or false"),
    ({"name": "int8", "extra": 1}, "data_type.extra", "not a member"),
    ("r7", "data_type", "multiple of 8"),
    ("r0", "data_type", "not a known"),
    ("r08", "data_type", "not a known"),
    ("r", "data_type", "not a known"),
    ("r" + "8" * 500, "data_type", "are supported"),
    ("r80000000000", "data_type", "are supported"),
    ("raw_bytes", "data_type.configuration.length_bytes", "is missing"),
    (extension("raw_bytes", length_bytes=0), "data_type.configuration.length_bytes", "integer >= 1"),
    (extension("raw_bytes", length_bytes=True), "data_type.configuration.length_bytes", "integer >= 1"),
    (extension("raw_bytes", length_bytes=1 << 40), "data_type.configuration.length_bytes", "are supported"),
    (
        extension("fixed_length_utf32", length_bytes=6),
        "data_type.configuration.length_bytes",
        "multiple of 4",
    ),
    (extension("fixed_length_utf32", length_bytes=8, more=1), "data_type.configuration.more", "not a member"),
    ("numpy.datetime64", "data_type.configuration.unit", "is missing"),
    (extension("numpy.datetime64", unit="us"), "data_type.configuration.scale_factor", "is missing"),
    (extension("numpy.datetime64", unit="x", scale_factor=1), "data_type.configuration.unit", "one of Y, M"),
    (
        extension("numpy.datetime64", unit=["s"], scale_factor=1),
        "data_type.configuration.unit",
        "one of Y, M",
    ),
    (
        extension("numpy.datetime64", unit="s", scale_factor=0),
        "data_type.configuration.scale_factor",
        "from 1 to",
    ),
    (
        extension("numpy.datetime64", unit="s", scale_factor=1 << 31),
        "data_type.configuration.scale_factor",
        "from 1",
    ),
    (
        extension("numpy.datetime64", unit="s", scale_factor=1.0),
        "data_type.configuration.scale_factor",
        "from 1 to",
    ),
    (
        extension("numpy.datetime64", unit="generic", scale_factor=2),
        "data_type.configuration.scale_factor",
        "must be 1",
    ),
    (extension("struct"), "data_type.configuration.fields", "is missing"),
    (extension("struct", fields=[]), "data_type.configuration.fields", "at least one"),
    (extension("struct", fields=[["a", "int8"]]), "data_type.configuration.fields[0]", "must be {"),
    (record(("a", "int8"), ("a", "int16")), "data_type.configuration.fields[1]", "there twice"),
    (record(("", "int8")), "data_type.configuration.fields[0].name", "at least one character"),
    (record(("a", "string")), "data_type.configuration.fields[0].data_type", "fixed size"),
    (record(("a", "int8"), ("b", "what")), "data_type.configuration.fields[1].data_type", "not a known"),
    (record(("a", "r100000000"), ("b", "r100000000")), "data_type.configuration.fields", "are supported"),
    ({"name": "optional"}, "data_type.configuration", "must be the `name`"),
    (
        {"name": "optional", "configuration": {"name": "string", "configuration": {}}},
        "data_type.configuration.name",
        "of one size",
    ),
    ("float8_e4m3fn", "data_type", "float8_e4m3 and float8_e4m3fnuz are"),
]


@pytest.mark.parametrize("document, path, sentence", REFUSED)
def test_refused_documents_name_the_path(document: Any, path: str, sentence: str) -> None:
    with pytest.raises((DataTypeValidationError, MetadataValidationError)) as caught:
        data_type_from_json(document)
    assert [found for found, _ in caught.value.problems] == [path]
    assert sentence in str(caught.value) and len(str(caught.value)) < 1000


def test_every_wrong_field_is_told() -> None:
    with pytest.raises(DataTypeValidationError) as caught:
        data_type_from_json(
            record(("a", "what"), ("b", "int8"), ("c", extension("raw_bytes", length_bytes=-1)))
        )
    fields = "data_type.configuration.fields"
    assert [path for path, _ in caught.value.problems] == [
        f"{fields}[0].data_type",
        f"{fields}[2].data_type.configuration.length_bytes",
    ]


@pytest.mark.parametrize(
    "dtype, sentence",
    [
        (object, 'name "string" or "bytes"'),
        ("f16" if np.dtype(np.longdouble).itemsize == 16 else np.longdouble, "no data type holds"),
        ("nonsense", "not a data type"),
        ([("a", "f4", (3,))], "array of .* inside the record"),
        ([("a", STRINGS)], "not a data type|of any length"),
        (ml_dtypes.float8_e4m3fn, "no data type holds"),
        ("V0", "no data type holds"),
        (np.dtype([]), "without fields"),
        (f"V{1 << 25}", "are supported"),
        (f"U{1 << 23}", "are supported"),
    ],
)
def test_refused_numpy_types(dtype: Any, sentence: str) -> None:
    with pytest.raises(DataTypeValidationError, match=sentence):
        data_type_from_numpy(dtype)


def test_unknown_names_of_callers() -> None:
    with pytest.raises(
        DataTypeValidationError, match='found "flaot32", which is not a known data type; known are'
    ):
        resolve_data_type("flaot32")
    with pytest.raises(DataTypeValidationError, match="not supported"):
        resolve_data_type("float8_e4m3fn")


def test_without_ml_dtypes_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(DataTypeValidationError, match=r"pip install 'terrazzo\[ml-dtypes\]'"):
        data_type_from_json("bfloat16")
    assert data_type_from_json("float16").name == "float16"


@dataclass(frozen=True)
class Celsius(DataType):
    """A user's own type: int16 hundredths of a degree, whose fill value is written in degrees."""

    names: ClassVar[tuple[str, ...]] = ("celsius",)

    @classmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        return cls()

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        return None

    @property
    def name(self) -> str:
        return "celsius"

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(np.int16)

    @property
    def units(self) -> tuple[int, ...]:
        return (2,)

    def default_fill(self) -> Fill:
        return self.cast_fill(0)

    def fill_from_json(self, value: Any, path: str = "fill_value", *, strict: bool = True) -> Fill:
        return self.cast_fill(value)

    def fill_to_json(self, fill: Fill) -> float:
        return int(fill[()]) / 100

    def cast_fill(self, value: Any) -> Fill:
        return np.array(round(value * 100), np.int16)


def test_users_register_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_classes", list(registry._classes))
    with pytest.raises(DataTypeValidationError):
        data_type_from_json("celsius")
    assert register_data_type(Celsius) is Celsius
    register_data_type(Celsius)  # once more changes nothing
    found = data_type_from_json("celsius")
    assert found == Celsius() and found.to_json() == "celsius" and found.needs_endian
    assert found.fill_from_json(21.5)[()] == 2150 and found.scalar_to_json(21.5) == 21.5
    assert data_type_from_json(record(("t", "celsius"))).units == (2,)

    class Other(Celsius):
        names = ("int8",)

    with pytest.raises(ValueError, match="'int8' is already registered, by Integer"):
        register_data_type(Other)
    with pytest.raises(TypeError, match="subclass"):
        register_data_type(int)  # type: ignore[type-var]
