"""Fill values, bit for bit: JSON -> bits -> JSON, callers' values, rounding, and what is refused."""

from __future__ import annotations

import base64
import datetime
import sys
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.errors import DataTypeValidationError, MetadataError, MetadataValidationError, TerrazzoWarning
from terrazzo.metadata import DataType, data_type_from_json, read_json, same_bits, write_json
from terrazzo.metadata.data_types.floats import FloatForm
from terrazzo.metadata.data_types.numeric import FLOAT_FORMS
from terrazzo.metadata.data_types.small import FLOATS, float_form

ml_dtypes = pytest.importorskip("ml_dtypes")

NAT = -(1 << 63)


def extension(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


SECONDS = extension("numpy.datetime64", unit="s", scale_factor=1)
SPAN = extension("numpy.timedelta64", unit="ms", scale_factor=10)
UTF32 = extension("fixed_length_utf32", length_bytes=12)
S4 = extension("null_terminated_bytes", length_bytes=4)
MIXED = extension(
    "struct",
    fields=[
        {"name": "f", "data_type": "float32"},
        {"name": "t", "data_type": SECONDS},
        {"name": "in", "data_type": extension("struct", fields=[{"name": "b", "data_type": "bool"}])},
    ],
)
OLD = extension("structured", fields=[["x", "float32"], ["n", "int16"]])


def hexed(bits: str) -> bytes:
    """Hex digits, most significant first, as bytes in memory."""
    return int(bits, 16).to_bytes(len(bits) // 2, sys.byteorder)


# data type, JSON, the bytes in memory, the JSON that is written (None: the same)
EXACT: list[tuple[Any, Any, bytes, Any]] = [
    ("bool", True, b"\x01", None),
    ("bool", False, b"\x00", None),
    ("int8", -128, b"\x80", None),
    ("uint64", 2**64 - 1, b"\xff" * 8, None),
    ("int64", -(2**63), hexed("8000000000000000"), None),
    ("int64", 2**53 + 1, hexed("0020000000000001"), None),
    ("float16", "NaN", hexed("7e00"), None),
    ("float16", "0x7e01", hexed("7e01"), None),
    ("float16", "0x7d01", hexed("7d01"), None),
    ("float16", "0xfe00", hexed("fe00"), None),
    ("float16", 1e-7, hexed("0002"), 2 / 2**24),
    ("float16", 65519.99, hexed("7bff"), 65504.0),
    ("float16", 65520, hexed("7c00"), "Infinity"),
    ("float32", "NaN", hexed("7fc00000"), None),
    ("float32", "0x7fc00001", hexed("7fc00001"), None),
    ("float32", "0x7f800001", hexed("7f800001"), None),
    ("float32", "0xFFC00000", hexed("ffc00000"), "0xffc00000"),
    ("float32", "0x3f800000", hexed("3f800000"), 1.0),
    ("float32", "0x7f800000", hexed("7f800000"), "Infinity"),
    ("float32", "Infinity", hexed("7f800000"), None),
    ("float32", "+Infinity", hexed("7f800000"), "Infinity"),
    ("float32", "-Infinity", hexed("ff800000"), None),
    ("float32", 1e39, hexed("7f800000"), "Infinity"),
    ("float32", -1e39, hexed("ff800000"), "-Infinity"),
    ("float32", 10**400, hexed("7f800000"), "Infinity"),
    ("float32", -0.0, hexed("80000000"), None),
    ("float32", 0, hexed("00000000"), 0.0),
    ("float32", 1e-46, hexed("00000000"), 0.0),
    ("float32", 1 + 2**-24, hexed("3f800000"), 1.0),
    ("float32", 1 + 3 * 2**-24, hexed("3f800002"), 1 + 2**-22),
    ("float32", 0.1, hexed("3dcccccd"), 0.10000000149011612),
    ("float64", "NaN", hexed("7ff8000000000000"), None),
    ("float64", "0x7ff0000000000001", hexed("7ff0000000000001"), None),
    ("float64", "0xfff8000000000000", hexed("fff8000000000000"), None),
    ("float64", 2**53 + 1, hexed("4340000000000000"), 2.0**53),
    ("float64", 5e-324, hexed("0000000000000001"), None),
    ("float64", 0.1, hexed("3fb999999999999a"), None),
    ("complex64", ["NaN", -0.0], hexed("7fc00000") + hexed("80000000"), None),
    ("complex64", ["0x7f800001", "-Infinity"], hexed("7f800001") + hexed("ff800000"), None),
    ("complex128", [1.5, -2], hexed("3ff8000000000000") + hexed("c000000000000000"), [1.5, -2.0]),
    ("r24", [1, 2, 255], b"\x01\x02\xff", None),
    ("r24", base64.b64encode(b"\x01\x02\xff").decode(), b"\x01\x02\xff", [1, 2, 255]),
    (UTF32, "aé😀", "aé😀".encode("utf-32-le"), None),
    (UTF32, "a\0", b"a".ljust(12, b"\0"), "a"),
    (S4, base64.b64encode(b"ab").decode(), b"ab\0\0", None),
    (S4, [97, 0, 0, 0], b"a\0\0\0", "YQ=="),
    (SECONDS, 0, bytes(8), None),
    (SECONDS, "NaT", hexed("8000000000000000"), None),
    (SECONDS, NAT, hexed("8000000000000000"), "NaT"),
    (SPAN, -5, hexed("fffffffffffffffb"), None),
    (MIXED, {"f": "0x7fc00001", "t": "NaT", "in": {"b": True}},
     hexed("7fc00001") + hexed("8000000000000000") + b"\x01", None),
    (MIXED, {"in": {"b": False}, "t": 1, "f": 1.0},
     hexed("3f800000") + hexed("0000000000000001") + b"\x00", {"f": 1.0, "t": 1, "in": {"b": False}}),
    (OLD, "AACAPwEA", hexed("3f800000") + hexed("0001"), {"x": 1.0, "n": 1}),
    (OLD, {"x": 0.0, "n": -1}, hexed("00000000") + hexed("ffff"), None),
    ("int2", -2, np.array(-2, ml_dtypes.int2).tobytes(), None),
    ("int4", -8, np.array(-8, ml_dtypes.int4).tobytes(), None),
    ("uint2", 3, b"\x03", None),
    ("uint4", 15, b"\x0f", None),
    ("bfloat16", "NaN", hexed("7fc0"), None),
    ("bfloat16", "0x7f81", hexed("7f81"), None),
    ("bfloat16", -0.0, hexed("8000"), None),
    ("bfloat16", 1 + 2**-8, hexed("3f80"), 1.0),
    ("bfloat16", 1 + 2**-8 + 2**-40, hexed("3f81"), 1 + 2**-7),
    ("bfloat16", 1e39, hexed("7f80"), "Infinity"),
    ("float8_e3m4", "NaN", b"\x78", None),
    ("float8_e4m3", "NaN", b"\x7c", None),
    ("float8_e5m2", "NaN", b"\x7e", None),
    ("float8_e5m2", "-Infinity", b"\xfc", None),
    ("float8_e5m2", -0.0, b"\x80", None),
    ("float8_e4m3fnuz", "NaN", b"\x80", None),
    ("float8_e4m3fnuz", -0.0, b"\x00", 0.0),
    ("float8_e8m0fnu", "NaN", b"\xff", None),
    ("float8_e8m0fnu", 2.0**127, b"\xfe", None),
    ("float6_e2m3fn", -7.5, b"\x3f", None),
    ("float4_e2m1fn", "0x0f", b"\x0f", -6.0),
    ("float4_e2m1fn", -0.0, b"\x08", None),
    ("complex_float16", [1, "0x7e01"], hexed("3c00") + hexed("7e01"), [1.0, "0x7e01"]),
    ("complex_bfloat16", ["NaN", 1], hexed("7fc0") + hexed("3f80"), ["NaN", 1.0]),
]  # fmt: skip
IDS = [f"{row[0] if isinstance(row[0], str) else row[0]['name']}-{i}" for i, row in enumerate(EXACT)]


def make(document: Any) -> DataType:
    if document in ("complex_float16", "complex_bfloat16") and not hasattr(ml_dtypes, "complex32"):
        pytest.skip("this ml_dtypes has no complex pairs")
    return data_type_from_json(document)


@pytest.mark.parametrize("document, value, encoded, written", EXACT, ids=IDS)
def test_exact_bits_and_the_way_back(document: Any, value: Any, encoded: bytes, written: Any) -> None:
    data_type = make(document)
    through_text = read_json(write_json([value]), "k")[0]
    fill = data_type.fill_from_json(through_text)
    assert fill.tobytes() == encoded
    assert fill.shape == () and fill.dtype == data_type.numpy and not fill.flags.writeable
    back = data_type.fill_to_json(fill)
    expected = value if written is None else written
    assert write_json([back]) == write_json([expected])
    assert data_type.fill_from_json(back).tobytes() == encoded
    assert data_type.cast_fill(fill).tobytes() == encoded
    assert data_type.cast_fill(fill[()]).tobytes() == encoded
    assert same_bits(np.broadcast_to(fill, (3, 2)), fill)


@pytest.mark.parametrize(
    "document, value, expected, written",
    [
        ("string", "", "", ""),
        ("string", "a\0é\U0001f600", "a\0é\U0001f600", "a\0é\U0001f600"),
        ("bytes", "", b"", ""),
        ("bytes", "AP8=", b"\x00\xff", "AP8="),
        ("bytes", [0, 255], b"\x00\xff", "AP8="),
        ("bytes", [], b"", ""),
    ],
)
def test_variable_sizes(document: Any, value: Any, expected: Any, written: Any) -> None:
    data_type = data_type_from_json(document)
    fill = data_type.fill_from_json(value)
    assert fill[()] == expected and type(fill[()]) is type(expected)
    assert data_type.fill_to_json(fill) == written
    assert data_type.cast_fill(expected)[()] == expected
    assert same_bits(np.full((2, 3), expected, data_type.numpy), fill)
    other = expected + (b"x" if isinstance(expected, bytes) else "x")
    assert not same_bits(np.array([expected, other], data_type.numpy), fill)


REFUSED: list[tuple[Any, Any, str, str]] = [
    ("bool", 1, "fill_value", "must be true or false"),
    ("bool", "true", "fill_value", "must be true or false"),
    ("bool", None, "fill_value", "found null"),
    ("int8", 128, "fill_value", "from -128 to 127"),
    ("int8", -129, "fill_value", "from -128 to 127"),
    ("uint64", 2**64, "fill_value", "from 0 to 18446744073709551615"),
    ("uint8", -1, "fill_value", "from 0 to 255"),
    ("int8", 1.5, "fill_value", "must be an integer"),
    ("int64", 1e18, "fill_value", "must be an integer"),
    ("int8", True, "fill_value", "must be an integer"),
    ("int8", "1", "fill_value", "must be an integer"),
    ("int8", None, "fill_value", "must be an integer"),
    ("int8", [1], "fill_value", "must be an integer"),
    ("int8", 10**900, "fill_value", "must be an integer"),
    ("float32", None, "fill_value", "found null, must be a number"),
    ("float32", True, "fill_value", "must be a number"),
    ("float32", "1.5", "fill_value", "must be a number"),
    ("float32", "nan", "fill_value", "must be a number"),
    ("float32", "-NaN", "fill_value", "must be a number"),
    ("float32", "inf", "fill_value", "must be a number"),
    ("float32", "0x7e01", "fill_value", "found 4 hex digits, must be exactly 8"),
    ("float32", "0x007fc00001", "fill_value", "found 10 hex digits"),
    ("float16", "0x7fc00001", "fill_value", "found 8 hex digits"),
    ("float32", "0x", "fill_value", "must be a number"),
    ("float32", "0X7fc00001", "fill_value", "must be a number"),
    ("float32", "0x7fc0_001", "fill_value", "must be a number"),
    ("float32", "0x7fc0000١", "fill_value", "must be a number"),
    ("float32", "0b01111111110000000000000000000001", "fill_value", "must be a number"),
    ("float32", [1.0], "fill_value", "must be a number"),
    ("float64", {}, "fill_value", "must be a number"),
    ("complex64", 1.0, "fill_value", "must be a pair"),
    ("complex64", [1.0], "fill_value", "must be a pair"),
    ("complex64", [1.0, "x"], "fill_value[1]", "must be a number"),
    ("r16", [1], "fill_value", "found 1 bytes, must be 2"),
    ("r16", [1, 256], "fill_value[1]", "from 0 to 255"),
    ("r16", [1, True], "fill_value[1]", "from 0 to 255"),
    ("r16", 0, "fill_value", "must be a list"),
    ("r16", "AA", "fill_value", "base64"),
    ("bytes", "é", "fill_value", "base64"),
    ("bytes", "AP8", "fill_value", "base64"),
    ("bytes", "AP 8=", "fill_value", "base64"),
    ("bytes", None, "fill_value", "base64"),
    ("string", None, "fill_value", "must be a string"),
    ("string", 0, "fill_value", "must be a string"),
    (UTF32, "abcd", "fill_value", "found 4 characters, must be at most 3"),
    (UTF32, 0, "fill_value", "must be a string"),
    (S4, "YWJjZGU=", "fill_value", "found 5 bytes, must be at most 4"),
    (SECONDS, "2020-01-01", "fill_value", 'or "NaT"'),
    (SECONDS, 2**63, "fill_value", "must be an integer"),
    (SECONDS, 1.5, "fill_value", "must be an integer"),
    (MIXED, [1, 2, 3], "fill_value", "must be an object"),
    (MIXED, "AAAA", "fill_value", "must be an object"),
    (OLD, "AAAA", "fill_value", "found 3 bytes, must be 6"),
    ("int4", 8, "fill_value", "from -8 to 7"),
    ("uint2", -1, "fill_value", "from 0 to 3"),
    ("float8_e8m0fnu", 0, "fill_value", "above zero"),
    ("float8_e8m0fnu", -1.0, "fill_value", "above zero"),
    ("float8_e8m0fnu", "Infinity", "fill_value", "does not have"),
    ("float8_e4m3fnuz", "Infinity", "fill_value", "does not have"),
    ("float8_e4m3fnuz", 1e9, "fill_value", "at most 240"),
    ("float4_e2m1fn", "NaN", "fill_value", "does not have"),
    ("float4_e2m1fn", 100, "fill_value", "at most 6"),
    ("float4_e2m1fn", "0x1f", "fill_value", "low 4 bits"),
]


@pytest.mark.parametrize("document, value, path, sentence", REFUSED)
def test_refused_with_the_path(document: Any, value: Any, path: str, sentence: str) -> None:
    with pytest.raises(MetadataValidationError) as caught:
        make(document).fill_from_json(value)
    assert [found for found, _ in caught.value.problems] == [path]
    assert sentence in caught.value.problems[0][1]
    assert len(str(caught.value)) < 400


def test_every_field_of_a_record_is_told() -> None:
    with pytest.raises(MetadataValidationError) as caught:
        data_type_from_json(MIXED).fill_from_json({"f": "x", "in": {"b": 2, "c": 1}, "more": 1}, "fill_value")
    found = [path for path, _ in caught.value.problems]
    assert found == ["fill_value.f", "fill_value.t", "fill_value.in.b", "fill_value.in.c", "fill_value.more"]


def test_whole_numbers_written_as_floats_are_read_with_a_warning() -> None:
    for strict in (True, False):
        with pytest.warns(TerrazzoWarning, match=r"found 1000\.0, should be written 1000"):
            assert data_type_from_json("int16").fill_from_json(1e3, strict=strict)[()] == 1000


def test_lenient_reading() -> None:
    with pytest.warns(TerrazzoWarning, match="found 1, must be true or false"):
        assert data_type_from_json("bool").fill_from_json(1, strict=False)[()]
    with pytest.warns(TerrazzoWarning, match="literal"):
        fill = data_type_from_json("float32").fill_from_json(float("nan"), strict=False)
    assert fill.tobytes() == hexed("7fc00000")
    with pytest.raises(MetadataValidationError, match="strict=False"):
        data_type_from_json("float32").fill_from_json(float("-inf"))


CAST: list[tuple[Any, Any, Any]] = [
    ("bool", np.True_, True),
    ("bool", 0, False),
    ("int8", 5.0, 5),
    ("int8", np.uint64(5), 5),
    ("int8", np.array(-5, ">i4"), -5),
    ("int8", True, 1),
    ("uint64", 2**64 - 1, 2**64 - 1),
    ("float32", 1, 1.0),
    ("float32", np.int64(7), 7.0),
    ("float32", float("nan"), "NaN"),
    ("float32", "NaN", "NaN"),
    ("float32", "0x7fc00001", "0x7fc00001"),
    ("float32", -np.inf, "-Infinity"),
    ("float64", np.float32(0.1), 0.10000000149011612),
    ("float16", np.array(1.5, ">f8"), 1.5),
    ("complex64", 1, [1.0, 0.0]),
    ("complex64", complex(1, -0.0), [1.0, -0.0]),
    ("complex64", np.complex128(1 + 2j), [1.0, 2.0]),
    ("complex64", ["NaN", 2], ["NaN", 2.0]),
    ("r16", b"ab", [97, 98]),
    ("r16", np.void(b"ab"), [97, 98]),
    ("r16", 0, [0, 0]),
    ("string", np.str_("x"), "x"),
    ("bytes", bytearray(b"x"), "eA=="),
    (UTF32, "abc", "abc"),
    (S4, "ab", "YWI="),
    (S4, b"abcd", "YWJjZA=="),
    (SECONDS, "2000-01-01", 946684800),
    (SECONDS, "2000-01-01T00:00:01", 946684801),
    (SECONDS, np.datetime64("2000-01-01", "D"), 946684800),
    (SECONDS, datetime.datetime(2000, 1, 1, 0, 0, 1), 946684801),
    (SECONDS, datetime.date(2000, 1, 1), 946684800),
    (SECONDS, np.datetime64("NaT"), "NaT"),
    (SECONDS, "NaT", "NaT"),
    (SECONDS, 12, 12),
    (SPAN, np.timedelta64(1, "s"), 100),
    (SPAN, datetime.timedelta(seconds=2), 200),
    (SPAN, np.timedelta64("NaT"), "NaT"),
    (OLD, (1.5, 2), {"x": 1.5, "n": 2}),
    (OLD, {"n": 2, "x": 1.5}, {"x": 1.5, "n": 2}),
    (OLD, 0, {"x": 0.0, "n": 0}),
    (OLD, np.array((3.0, 2), [("n", ">f8"), ("x", "<i8")])[()], {"x": 2.0, "n": 3}),
    ("int4", np.int8(-8), -8),
    ("bfloat16", 1, 1.0),
    ("bfloat16", ml_dtypes.float8_e5m2(1.5), 1.5),
    ("float32", ml_dtypes.bfloat16(1.5), 1.5),
]


@pytest.mark.parametrize("document, value, written", CAST)
def test_callers_values(document: Any, value: Any, written: Any) -> None:
    data_type = make(document)
    fill = data_type.cast_fill(value)
    assert fill.dtype == data_type.numpy and fill.shape == () and not fill.flags.writeable
    assert write_json([data_type.fill_to_json(fill)]) == write_json([written])


@pytest.mark.parametrize(
    "document, value",
    [
        ("bool", 2), ("bool", "True"), ("bool", None), ("int8", 128), ("int8", 1.5), ("int8", "1"), ("int8", None),
        ("int8", float("nan")), ("uint8", -1), ("uint8", np.timedelta64(1)), ("float32", 1e39), ("float32", None),
        ("float32", "1.5"), ("float32", 10**400), ("float32", 1j), ("float32", [1.0]), ("float32", True),
        ("complex64", [1]), ("complex64", "x"), ("complex64", [1, 2, 3]), ("r16", b"a"), ("r16", "ab"), ("r16", 1),
        ("string", 0), ("string", b"x"), ("string", "\ud800"), ("bytes", "x"), (UTF32, "abcd"), (UTF32, "\ud800"),
        (S4, b"abcde"), (S4, "é"), (SECONDS, np.datetime64("2000-01-01T00:00:00.5")), (SECONDS, 1.5), (SECONDS, True),
        (SECONDS, "yesterday"), (SECONDS, np.timedelta64(1, "s")), (SECONDS, 2**63), (SPAN, np.timedelta64(1, "ms")),
        (SPAN, "1"), (SPAN, np.datetime64("2000")), (OLD, (1,)), (OLD, {"x": 1}), (OLD, 1), (OLD, None),
        (SECONDS, datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)), (SECONDS, np.datetime64(2**62, "Y")),
        ("int4", 8), ("bfloat16", 1e39), ("float8_e8m0fnu", 0), ("float4_e2m1fn", float("nan")), ("int8", np.arange(2)),
    ],
)  # fmt: skip
def test_what_a_caller_may_not_pass(document: Any, value: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataTypeValidationError, match=r"it must be|must be a value"):
            make(document).cast_fill(value)


def test_a_wrong_field_is_named() -> None:
    with pytest.raises(
        DataTypeValidationError, match=r"field 'n': the fill value 1.5 is not a int16: it must be"
    ):
        data_type_from_json(OLD).cast_fill((1.0, 1.5))


FORMS: dict[str, FloatForm] = {f"float{bits}": form for bits, form in FLOAT_FORMS.items()}
FORMS |= {name: float_form(name) for name in FLOATS}


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.bits <= 16])
def test_every_bit_pattern_survives(name: str) -> None:
    data_type = data_type_from_json(name)
    form = FORMS[name]
    step = 1 if form.bits <= 8 else 37
    for bits in range(0, 1 << form.bits, step):
        text = f"{bits:#0{2 + 2 * form.nbytes}x}"
        fill = data_type.fill_from_json(text)
        assert fill.tobytes() == hexed(text[2:])
        assert data_type.fill_from_json(data_type.fill_to_json(fill)).tobytes() == fill.tobytes()


@pytest.mark.parametrize("name", sorted(FORMS))
@given(number=st.floats(allow_nan=False, allow_infinity=False), small=st.floats(-20, 20), wide=st.booleans())
@settings(max_examples=60)
def test_rounding_is_to_nearest_and_ties_to_even(name: str, number: float, small: float, wide: bool) -> None:
    form = FORMS[name]
    number = number if wide else small
    try:
        fill = data_type_from_json(name).fill_from_json(number)
    except MetadataError:
        assert form.infinity is None or not form.zero
        assert abs(number) > form.largest or number < form.smallest or (number <= 0 < form.smallest)
        return
    bits = int.from_bytes(fill.tobytes(), sys.byteorder)
    found = form.value(bits)
    if abs(found) == float("inf"):
        assert abs(number) > form.largest
        return
    distance = abs(Fraction(found) - Fraction(number))
    sign = 1 << (form.bits - 1)
    for neighbour in (bits - 1, bits + 1):
        if 0 <= neighbour < 1 << form.bits and (neighbour & sign == bits & sign or not form.zero):
            value = form.value(neighbour)
            if value - value == 0.0:
                other = abs(Fraction(value) - Fraction(number))
                # an exponent without mantissa has no even neighbour to prefer
                assert distance < other or (distance == other and (bits % 2 == 0 or not form.zero))


@pytest.mark.parametrize("name", ["float32", "float64"])
@given(bits=st.integers(0, 2**64 - 1))
@settings(max_examples=100)
def test_patterns_of_wide_floats_survive(name: str, bits: int) -> None:
    data_type, form = data_type_from_json(name), FORMS[name]
    bits &= (1 << form.bits) - 1
    fill = data_type.fill_from_json(f"{bits:#0{2 + form.bits // 4}x}")
    again = data_type.fill_from_json(read_json(write_json([data_type.fill_to_json(fill)]), "k")[0])
    assert again.tobytes() == fill.tobytes() == hexed(f"{bits:0{form.bits // 4}x}")
    assert data_type.cast_fill(fill[()]).tobytes() == fill.tobytes()


@given(st.text(), st.binary())
@settings(max_examples=50)
def test_text_and_bytes_survive(text: str, encoded: bytes) -> None:
    for name, value in (("string", text), ("bytes", encoded)):
        data_type = data_type_from_json(name)
        fill = data_type.cast_fill(value)
        assert data_type.fill_from_json(data_type.fill_to_json(fill))[()] == value


def test_same_bits_sees_payloads_and_signs() -> None:
    nan = data_type_from_json("float32").fill_from_json("NaN")
    other = data_type_from_json("float32").fill_from_json("0x7fc00001")
    zero = data_type_from_json("float64").fill_from_json(0.0)
    assert same_bits(np.full((2, 3), np.nan, np.float32)[:, ::2], nan)
    assert not same_bits(np.full(3, np.nan, np.float32), other)
    assert not same_bits(np.array([0.0, -0.0]), zero)
    assert same_bits(np.empty((0, 3)), zero)
    assert same_bits(np.zeros((2, 3)).T, zero) and same_bits(np.array(0.0), zero)
    pair = data_type_from_json("complex128").fill_from_json([0, "NaN"])
    assert same_bits(np.full(3, complex(0, np.nan)), pair) and not same_bits(np.zeros(3, complex), pair)
    rows = data_type_from_json(OLD).fill_from_json({"x": 1, "n": 2})
    assert same_bits(np.full((2, 2), rows), rows) and not same_bits(np.zeros((2, 2), rows.dtype), rows)
    assert not same_bits(np.array([b"", None], object), data_type_from_json("bytes").default_fill())
    with pytest.raises(TypeError, match="must be the same type"):
        same_bits(np.zeros(3, ">f8"), zero)
