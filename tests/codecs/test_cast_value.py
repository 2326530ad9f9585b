"""cast_value: every rule by hand, and rounding against exact fractions."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrazzo.codecs import CastValue, ShardingCodec, codec_from
from terrazzo.codecs.rounding import ROUNDINGS
from terrazzo.errors import CodecError, MetadataError
from terrazzo.metadata import resolve_data_type
from tests.codecs.codec_chunks import build, same, spec_of


def cast(values: Any, before: str, after: str, fill: Any = None, **rules: Any) -> np.ndarray:
    value = np.array(values, resolve_data_type(before).numpy)
    spec = spec_of(before, value.shape, fill)
    build([CastValue(after, **rules), "bytes"], spec)  # the fill value passes
    return CastValue(after, **rules).encode(value, spec)


def numbers(found: np.ndarray) -> list[float]:
    return found.astype(np.float64).tolist()


HALVES = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999999999999994, 2.4, -2.6]
WHOLE = {
    "nearest-even": [-2, -2, 0, 0, 2, 2, 0, 2, -3],
    "towards-zero": [-2, -1, 0, 0, 1, 2, 0, 2, -2],
    "towards-positive": [-2, -1, 0, 1, 2, 3, 1, 3, -2],
    "towards-negative": [-3, -2, -1, 0, 1, 2, 0, 2, -3],
    "nearest-away": [-3, -2, -1, 1, 2, 3, 0, 2, -3],
}


@pytest.mark.parametrize("rounding", WHOLE)
def test_floats_to_integers(rounding: str) -> None:
    assert cast(HALVES, "float64", "int8", rounding=rounding).tolist() == WHOLE[rounding]


def test_rounding_is_nearest_even_unless_said() -> None:
    assert CastValue("int8").configuration() == {"data_type": "int8", "rounding": "nearest-even"}
    assert cast([0.5, 1.5], "float32", "int8").tolist() == [0, 2]


def test_out_of_range() -> None:
    with pytest.raises(CodecError, match=r"128\.0 \(element 1\) is not within int8, which has -128 to 127"):
        cast([1.0, 128.0], "float64", "int8")
    values = [128.0, -129.0, 300.0, 127.4, 1e30, -1e30]
    assert cast(values, "float64", "int8", out_of_range="clamp").tolist() == [127, -128, 127, 127, 127, -128]
    assert cast([128.0, -129.0, 300.0], "float64", "int8", out_of_range="wrap").tolist() == [-128, 127, 44]
    assert cast([32768, 32769, -32769], "int64", "int16", out_of_range="wrap").tolist() == [
        -32768,
        -32767,
        32767,
    ]
    assert cast([-1, 256, 2**40 + 5], "int64", "uint8", out_of_range="wrap").tolist() == [255, 0, 5]
    assert cast([2**64 - 1, 2**63], "uint64", "int64", out_of_range="wrap").tolist() == [-1, -(2**63)]
    assert cast([-1.0, 2.0**64, 2.0**70 + 2.0**20], "float64", "uint64", out_of_range="wrap").tolist() == [
        2**64 - 1, 0, 2**20,
    ]  # fmt: skip
    # rounded first: 127.5 rounds to 128, which wraps
    assert cast([127.5], "float64", "int8", out_of_range="wrap").tolist() == [-128]
    assert cast([127.5], "float64", "int8", rounding="towards-zero").tolist() == [127]


def test_the_ends_of_64_bits() -> None:
    assert cast([-(2.0**63)], "float64", "int64").tolist() == [-(2**63)]
    for value, after in ((2.0**63, "int64"), (2.0**64, "uint64"), (-1.0, "uint64")):
        with pytest.raises(CodecError, match="not within"):
            cast([value], "float64", after)
    assert cast([2.0**63], "float64", "int64", out_of_range="clamp").tolist() == [2**63 - 1]
    assert cast([2.0**64], "float64", "uint64", out_of_range="clamp").tolist() == [2**64 - 1]
    assert cast([2**63], "uint64", "int64", out_of_range="clamp").tolist() == [2**63 - 1]
    assert cast([-5, 7], "int64", "uint64", out_of_range="clamp").tolist() == [0, 7]


def test_infinities_and_nans() -> None:
    for value in (np.nan, np.inf, -np.inf):
        for rule in (None, "clamp", "wrap"):
            with pytest.raises(CodecError, match="has no place in uint8"):
                cast([value], "float64", "uint8", out_of_range=rule)
        found = cast([value], "float64", "float16")
        np.testing.assert_array_equal(found, np.array([value], np.float16))
    with pytest.raises(CodecError, match="no place"):
        cast([np.inf], "float32", "float8_e4m3fnuz", out_of_range="clamp")
    assert np.isnan(cast([np.nan], "float32", "float8_e4m3fnuz").astype(float)).all()
    with pytest.raises(CodecError, match="no place"):
        cast([np.nan], "float32", "float4_e2m1fn")


def test_floats_that_overflow() -> None:
    for after in ("float32", "float16", "bfloat16"):
        with pytest.raises(CodecError, match="not within"):
            cast([1e300], "float64", after)
        assert numbers(cast([1e300, -1e300], "float64", after, out_of_range="clamp")) == [np.inf, -np.inf]
    assert numbers(cast([1e30, -9], "float64", "float6_e2m3fn", out_of_range="clamp")) == [7.5, -7.5]
    # rounding first: what rounds back into the range is in it
    just_above = 65504.0 + 15
    assert numbers(cast([just_above], "float64", "float16")) == [65504]
    with pytest.raises(CodecError):
        cast([65520.0], "float64", "float16")
    assert numbers(cast([65535.9], "float64", "float16", rounding="towards-zero")) == [65504]
    largest = float(np.finfo(np.float32).max)
    assert numbers(cast([largest + 2.0**102], "float64", "float32")) == [largest]
    with pytest.raises(CodecError):
        cast([largest + 2.0**103], "float64", "float32")


def test_zeros_keep_their_sign() -> None:
    for after in ("float32", "float16", "float8_e5m2", "float64"):
        found = cast([-0.0, 0.0], "float64", after)
        assert np.signbit(found.astype(float)).tolist() == [True, False]
    assert np.signbit(cast([-1e-300], "float64", "float16").astype(float)).tolist() == [True]


def test_a_type_of_powers_of_two() -> None:
    rules = {"fill": 1.0}
    # 3 lies between 2, whose last bit is 0, and 4, whose last bit is 1
    assert numbers(cast([1.0, 1.4, 1.6, 3.0], "float64", "float8_e8m0fnu", **rules)) == [1, 1, 2, 2]
    for value in (0.0, -1.0, 2.0**-130):
        with pytest.raises(CodecError, match="not within"):
            cast([value], "float64", "float8_e8m0fnu", **rules)
    clamped = cast([0.0, 2.0**200], "float64", "float8_e8m0fnu", out_of_range="clamp", **rules)
    assert numbers(clamped) == [2.0**-127, 2.0**127]


@cache
def grid_of(name: str) -> list[Fraction]:
    """Every finite value of a narrow float, exactly, and one more step at each end."""
    data_type = resolve_data_type(name)
    bits = data_type.form.bits
    patterns = np.arange(1 << bits, dtype=np.uint16 if bits > 8 else np.uint8).view(data_type.numpy)
    with np.errstate(all="ignore"):
        wide = patterns.astype(np.float64)
    grid = sorted({Fraction(value) for value in wide[np.isfinite(wide)].tolist()})
    return [2 * grid[0] - grid[1], *grid, 2 * grid[-1] - grid[-2]]


def nearest(exact: Fraction, name: str, rounding: str) -> Fraction | None:
    """None: out of range."""
    grid = grid_of(name)
    if not grid[0] < exact < grid[-1]:
        return None
    place = bisect_right(grid, exact) - 1
    low, high = grid[place], grid[place + 1]
    if exact == low or rounding == "towards-negative" or (rounding == "towards-zero" and exact > 0):
        chosen = place
    elif rounding in ("towards-positive", "towards-zero"):
        chosen = place + 1
    elif exact - low != high - exact:
        chosen = place if exact - low < high - exact else place + 1
    elif rounding == "nearest-away":
        chosen = place + 1 if exact > 0 else place
    else:  # the two sides of zero are even, so parity counts from there
        chosen = place if (place - grid.index(Fraction(0))) % 2 == 0 else place + 1
    return grid[chosen] if 0 < chosen < len(grid) - 1 else None


def check(value: np.ndarray, before: str, after: str, rounding: str) -> None:
    spec = spec_of(before, value.shape)
    for number in value:
        expected = nearest(Fraction(number.item()), after, rounding)
        one = np.array([number])
        try:
            found = CastValue(after, rounding).encode(one, spec)
        except CodecError:
            assert expected is None, (number, expected)
        else:
            assert expected is not None, (number, found)
            assert Fraction(float(found.astype(np.float64)[0])) == expected, (number, found, expected)


NARROW = ["float16", "bfloat16", "float8_e4m3", "float8_e5m2fnuz", "float6_e3m2fn", "float4_e2m1fn"]


@given(
    st.sampled_from(NARROW),
    st.sampled_from(ROUNDINGS),
    st.lists(
        st.one_of(st.floats(-300, 300), st.floats(allow_nan=False, allow_infinity=False)),
        min_size=3,
        max_size=3,
    ),
)
def test_narrow_floats_against_fractions(after: str, rounding: str, values: list[float]) -> None:
    check(np.array(values), "float64", after, rounding)


@given(
    st.sampled_from(NARROW), st.sampled_from(ROUNDINGS), st.integers(0, 2**16), st.sampled_from([-1, 0, 1])
)
def test_midpoints_against_fractions(after: str, rounding: str, place: int, side: int) -> None:
    grid = grid_of(after)
    place %= len(grid) - 1
    middle = float((grid[place] + grid[place + 1]) / 2)
    value = middle if side == 0 else np.nextafter(middle, side * np.inf)
    check(np.array([value]), "float64", after, rounding)


@given(st.sampled_from(["bfloat16", "float16"]), st.sampled_from(ROUNDINGS), st.integers(-(2**63), 2**63 - 1))
def test_integers_to_narrow_floats(after: str, rounding: str, number: int) -> None:
    check(np.array([number], np.int64), "int64", after, rounding)


def exact_round(exact: Fraction, digits: int, least: int, rounding: str) -> Fraction:
    """To `digits` bits, or to multiples of the least quantum."""
    if exact == 0:
        return exact
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > magnitude
    quantum = Fraction(2) ** max(exponent - digits + 1, least)
    scaled = exact / quantum
    floor = scaled.numerator // scaled.denominator
    rest = scaled - floor
    up = {
        "towards-negative": False,
        "towards-positive": rest > 0,
        "towards-zero": rest > 0 and exact < 0,
        "nearest-away": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and exact > 0),
        "nearest-even": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2 == 1),
    }[rounding]
    return (floor + up) * quantum


@given(st.sampled_from(ROUNDINGS), st.floats(-(2.0**120), 2.0**120), st.integers(0, 30))
def test_float32_against_fractions(rounding: str, value: float, kept: int) -> None:
    # values near ties of float32: a few bits below its last one
    tie = float(np.float32(value)) * (1 + kept * 2.0**-26)
    for number in (value, tie, value * 2.0**-260):
        found = cast([number], "float64", "float32", rounding=rounding)
        assert Fraction(float(found[0])) == exact_round(Fraction(number), 24, -149, rounding)


@given(st.sampled_from(ROUNDINGS), st.integers(-(2**63), 2**64 - 1), st.sampled_from(["float32", "float64"]))
def test_integers_to_wide_floats(rounding: str, number: int, after: str) -> None:
    before = "int64" if number < 2**63 else "uint64"
    found = cast([number], before, after, rounding=rounding)
    digits = 24 if after == "float32" else 53
    assert Fraction(float(found[0])) == exact_round(Fraction(number), digits, -1074, rounding)


@pytest.mark.parametrize(
    "before", ["int8", "uint8", "int4", "uint2", "float16", "float8_e4m3", "int32", "uint64"]
)
@pytest.mark.parametrize("after", ["int16", "int64", "float32", "float64"])
def test_wider_types_hold_narrower_ones(before: str, after: str) -> None:
    spec = spec_of(before, (5,))
    value = np.array([0, 1, 3, 2, 1]).astype(spec.data_type.numpy)
    chain = build([CastValue(after), "bytes"], spec)
    encoded = chain.encode(value)
    assert same(chain.decode(encoded), value)
    assert encoded == value.astype(after).tobytes()
    assert chain.specs[1].data_type.name == after


def test_small_integers() -> None:
    assert numbers(cast([7, -8], "int16", "int4")) == [7, -8]
    assert numbers(cast([8, -9, 17], "int16", "int4", out_of_range="wrap")) == [-8, 7, 1]
    assert numbers(cast([5, -1], "int16", "uint2", out_of_range="clamp")) == [3, 0]
    assert numbers(cast([7], "int4", "int16")) == [7]
    with pytest.raises(CodecError):
        cast([8], "int16", "int4")


def test_the_scalar_map_goes_first() -> None:
    rules = {
        "scalar_map": {
            "encode": [["NaN", 255], ["Infinity", 254], [3.0, 9], [3.0, 10]],
            "decode": [[255, "NaN"], [254, "+Infinity"], [9, 3.0]],
        }
    }
    spec = spec_of("float64", (5,), "NaN")
    chain = build([CastValue("uint8", **rules), "bytes"], spec)
    value = np.array([1.0, np.nan, np.inf, 3.0, 0.0])
    assert chain.encode(value) == bytes([1, 255, 254, 9, 0])
    np.testing.assert_array_equal(chain.decode(chain.encode(value)), value)
    assert chain.specs[1].fill == 255
    odd_nan = np.array([1, 2, 3, 4, 0x7FF8000000000001], np.uint64).view(np.float64)
    with pytest.raises(MetadataError, match="cast_value cannot"):
        build([CastValue("uint8"), "bytes"], spec_of("complex64"))
    assert chain.encode(odd_nan)[4] == 255


def test_the_registrys_example_of_numpys_manners() -> None:
    document = {
        "name": "cast_value",
        "configuration": {
            "data_type": "uint8",
            "rounding": "towards-zero",
            "out_of_range": "wrap",
            "scalar_map": {"encode": [["NaN", 0], ["+Infinity", 0], ["-Infinity", 0]]},
        },
    }
    chain = build([document, "bytes"], spec_of("float64", (5,)))
    assert chain.encode(np.array([np.nan, np.inf, -np.inf, 257.9, -1.5])) == bytes([0, 0, 0, 1, 255])
    assert chain.codecs[0].to_dict() == document


def test_the_fill_value_must_survive() -> None:
    for fill, rules in (
        ("NaN", {}),
        (0.5, {}),
        (300.0, {"out_of_range": "clamp"}),
        (-1.0, {"out_of_range": "wrap"}),
    ):
        with pytest.raises(MetadataError, match=r"codecs\[0\]: the fill value"):
            build([CastValue("uint8", **rules), "bytes"], spec_of("float64", fill=fill))
    build([CastValue("float16"), "bytes"], spec_of("float32", fill="NaN"))
    build([CastValue("uint8"), "bytes"], spec_of("float64", fill=255.0))


def test_shards_compare_with_the_fill_value_as_it_was_cast() -> None:
    rules = {"scalar_map": {"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}}
    spec = spec_of("float32", (4,), "NaN")
    chain = build([CastValue("uint8", **rules), ShardingCodec((2,), ["bytes"], ["bytes"])], spec)
    value = np.array([np.nan, np.nan, 1, 2], np.float32)
    encoded = chain.encode(value)
    assert encoded == b"\x01\x02" + b"\xff" * 16 + (0).to_bytes(8, "little") + (2).to_bytes(8, "little")
    np.testing.assert_array_equal(chain.decode(encoded), value)


REFUSED = [
    ({}, r"configuration\.data_type: is missing"),
    ({"data_type": "int3"}, r"configuration\.data_type"),
    ({"data_type": "bool"}, r"configuration\.data_type: found bool, must be an integer or a float"),
    ({"data_type": "complex64"}, r"configuration\.data_type: found complex64"),
    ({"data_type": "numpy.datetime64"}, r"configuration\.data_type"),
    ({"data_type": "int8", "rounding": "up"}, r"configuration\.rounding: found \"up\""),
    ({"data_type": "int8", "out_of_range": "error"}, r"configuration\.out_of_range: found \"error\""),
    ({"data_type": "float32", "out_of_range": "wrap"}, r"configuration\.out_of_range: found wrap"),
    ({"data_type": "int8", "x": 1}, r"configuration\.x: is not a member"),
    ({"data_type": "int8", "scalar_map": []}, r"configuration\.scalar_map: found"),
    ({"data_type": "int8", "scalar_map": {"both": []}}, r"configuration\.scalar_map\.both: is not a member"),
    (
        {"data_type": "int8", "scalar_map": {"encode": [[1]]}},
        r"configuration\.scalar_map\.encode\[0\]: found",
    ),
]


@pytest.mark.parametrize("configuration, fault", REFUSED)
def test_configurations_that_are_refused(configuration: dict[str, Any], fault: str) -> None:
    with pytest.raises(MetadataError, match=rf"^codecs\[0\]\.{fault}"):
        codec_from({"name": "cast_value", "configuration": configuration}, "codecs[0]")


def test_scalars_that_are_no_fill_values() -> None:
    codec = CastValue("uint8", scalar_map={"encode": [[1.5, 256]]})
    with pytest.raises(
        MetadataError, match=r"codecs\[0\]\.configuration\.scalar_map\.encode\[0\]\[1\]: found 256"
    ):
        build([codec, "bytes"], spec_of("float64"))
