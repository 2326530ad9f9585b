"""What an array can look like, as documents: one `Case` is a zarr.json and values that show whether it was understood.

Used twice: tests/fixtures/generate.py lets the other libraries write these cases once, for ever, and the tests of this
folder exchange them live. Values follow from the case alone (no random generator whose stream might change).
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Json = Any
Values = np.ndarray[Any, Any]
LITTLE: Json = {"name": "bytes", "configuration": {"endian": "little"}}
BIG: Json = {"name": "bytes", "configuration": {"endian": "big"}}
PLAIN: Json = {"name": "bytes"}
CRC: Json = {"name": "crc32c"}
ZSTD: Json = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}
GZIP: Json = {"name": "gzip", "configuration": {"level": 5}}
VLEN_UTF8: Json = {"name": "vlen-utf8"}
VLEN_BYTES: Json = {"name": "vlen-bytes"}


@dataclass(frozen=True)
class Case:
    """An array: its document, the numpy type of its values, and how much of it is written."""

    name: str
    document: dict[str, Json]
    dtype: np.dtype[Any]
    write: str = "all"  # or "corner": the first chunk only; or "none"
    lossy: bool = False  # what is read back differs from what was written, by design of a codec
    tame: bool = False  # small whole numbers only, for codecs that refuse what they cannot keep

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.document["shape"])

    @property
    def region(self) -> tuple[Any, ...]:
        """The part that is written, if any: slices, and an ellipsis that keeps the part of a scalar an array."""
        if self.write != "corner":
            return (...,)
        edge = self.document["chunk_grid"]["configuration"]["chunk_shape"]
        for codec in self.document["codecs"]:
            if codec["name"] == "sharding_indexed":
                edge = codec["configuration"]["chunk_shape"]
        return (*(slice(0, min(extent, size)) for extent, size in zip(self.shape, edge, strict=True)), ...)

    def values(self, seed: int = 0) -> np.ndarray[Any, Any]:
        """The whole array's values, in the case's numpy type (objects for strings and bytes)."""
        if self.tame:
            order = np.arange(math.prod(self.shape)).reshape(self.shape)
            return ((order * 7 + seed) % 50).astype(self.dtype)
        return values(self.dtype, self.shape, self.document["data_type"], seed)


# ---------------------------------------------------------------- values


def values(dtype: np.dtype[Any], shape: tuple[int, ...], data_type: Json, seed: int) -> np.ndarray[Any, Any]:
    """Values with a slope (so that they compress), some grain, and every special value of the type."""
    n = math.prod(shape)
    order = np.arange(n, dtype=np.uint64)
    start = np.uint64(seed * 0xBF58476D1CE4E5B9 % 2**64)
    grain = (order * np.uint64(0x9E3779B97F4A7C15) + start) >> np.uint64(59)
    name = data_type if isinstance(data_type, str) else data_type["name"]
    if name == "string":
        words = ["", "floor", "größer", "石", "🧱 brick", "a" * 40]
        flat: np.ndarray[Any, Any] = np.empty(n, dtype=object)
        flat[:] = [words[int(g) % len(words)] for g in grain]
    elif dtype.kind == "O":
        flat = np.empty(n, dtype=object)
        flat[:] = [bytes(range(int(g) % 7)) * (int(g) % 3) for g in grain]
    elif dtype.fields is not None:
        flat = np.zeros(n, dtype=dtype)
        for key, (kind, *_) in dtype.fields.items():
            flat[key] = values(kind, (n,), "", seed)
    elif dtype.kind in "SU":
        width = dtype.itemsize // (4 if dtype.kind == "U" else 1)
        letters = "abcxyz" if dtype.kind == "S" else "aé石🧱"
        flat = np.array(
            [
                "".join(letters[(int(g) + k) % len(letters)] for k in range(int(g) % (width + 1)))
                for g in grain
            ]
        )
        flat = flat.astype(dtype) if n else np.empty(0, dtype)
    elif dtype.kind == "b":
        flat = grain % np.uint64(2) == 1
    elif name in ("complex_bfloat16", "complex_float16"):
        flat = values(np.dtype("i2"), (2 * n,), "", seed).view(dtype)
    elif dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        flat = np.empty(n, dtype)
        flat.real, flat.imag = values(part, (n,), "", seed), values(part, (n,), "", seed + 1)[::-1]
    elif name in SMALL:
        flat = (
            raw_bits(grain, order, 8 * dtype.itemsize, SMALL[name]).astype(f"u{dtype.itemsize}").view(dtype)
        )
    elif dtype.kind == "V":
        steps = (grain[:, None] + np.arange(dtype.itemsize, dtype=np.uint64)).astype(np.uint8)
        flat = np.ascontiguousarray(steps).view(dtype).reshape(n)
    elif dtype.kind == "f":
        flat = (order.astype(np.float64) / 8 + grain / 4 - 3).astype(dtype)
        info = np.finfo(dtype)
        special(flat, [math.nan, math.inf, -math.inf, -0.0, info.smallest_subnormal, info.max, info.min])
    elif dtype.kind in "mM":
        flat = (order * np.uint64(86_400) + grain).astype(np.int64).view(dtype)
        special(flat, [np.array("NaT", dtype)[()]])
    else:
        limits = np.iinfo(dtype)
        flat = (order * np.uint64(3) + grain).astype(dtype)
        special(flat, [limits.max, limits.min])
    return flat.reshape(shape)


def special(flat: np.ndarray[Any, Any], found: Sequence[Any]) -> None:
    """Lay special values over every third place of the second half."""
    places = range(flat.size // 2, flat.size, 3)
    for place, value in zip(places, found, strict=False):
        flat[place] = value


def raw_bits(grain: np.ndarray, order: np.ndarray, width: int, bits: int) -> np.ndarray[Any, Any]:
    """Every bit pattern of a small type, as unsigned integers."""
    pattern = (order + grain) & np.uint64((1 << bits) - 1)
    return pattern & np.uint64((1 << width) - 1)


#: types whose values are made as bit patterns: name -> bits that count
SMALL = {
    **dict.fromkeys(
        ("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2"), 8
    ),
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
    "int2": 1,
    "int4": 3,
    "uint2": 2,
    "uint4": 4,  # signed ones: no sign, so that all layouts agree
}


# ---------------------------------------------------------------- comparison


def canonical(found: Any, case: Case) -> Values:
    """What any library returned, as objects or as native values of the case's numpy type."""
    array = np.asarray(found)
    if case.dtype == object:
        as_text: Callable[[Any], Any] = str if case.document["data_type"] == "string" else bytes
        out = np.empty(array.shape, dtype=object)
        for place in np.ndindex(array.shape):
            out[place] = as_text(array[place])
        return out
    if array.dtype == case.dtype:
        return array
    if case.dtype.kind == "V" and case.dtype.fields is None:
        return np.ascontiguousarray(array).reshape(array.shape).view(case.dtype)
    native = array.dtype.newbyteorder("=")
    if native == case.dtype or (native.kind in "mMSU" and native.kind == case.dtype.kind):
        return array.astype(case.dtype)
    if native.itemsize == case.dtype.itemsize and native.kind == "V":
        return np.ascontiguousarray(array).view(case.dtype)
    raise AssertionError(f"{case.name}: values of type {array.dtype} came back, {case.dtype} was written")


def differences(found: Values, wanted: Values, case: Case) -> int:
    """How many elements differ in any bit."""
    assert found.shape == wanted.shape, f"{case.name}: shape {found.shape}, not {wanted.shape}"
    if case.dtype == object:
        return sum(a != b for a, b in zip(found.ravel().tolist(), wanted.ravel().tolist(), strict=True))
    return int(np.count_nonzero((bits(found, case) != bits(wanted, case)).any(axis=-1))) if found.size else 0


def bits(array: Values, case: Case) -> Values:
    """The bytes of each element, with the bits of small types that carry no value cleared."""
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, array.dtype.itemsize)
    keep = {
        "int2": 3,
        "uint2": 3,
        "int4": 15,
        "uint4": 15,
        "float4_e2m1fn": 15,
        "float6_e2m3fn": 63,
        "float6_e3m2fn": 63,
    }
    name = case.document["data_type"]
    return raw & np.uint8(keep[name]) if isinstance(name, str) and name in keep else raw


def expected(case: Case, values: Values) -> Values:
    """What a reader has to find: the written region over the fill value (by way of the fill value's JSON form)."""
    whole = np.empty(case.shape, dtype=case.dtype)
    whole[...] = fill_of(case)
    if case.write != "none":
        whole[case.region] = values[case.region]
    return whole


def fill_of(case: Case) -> Any:
    """The fill value, bit for bit, for the types that the cases leave partly unwritten; zeros elsewhere."""
    fill = case.document["fill_value"]
    return fill_scalar(fill, case.dtype, case.document["data_type"])


def fill_scalar(fill: Any, dtype: np.dtype[Any], data_type: Any) -> Any:
    if dtype.fields is not None:
        if isinstance(fill, str):
            return np.frombuffer(base64.b64decode(fill), dtype)[0]
        members = [fill_scalar(fill[key], dtype.fields[key][0], "") for key in dtype.names or ()]
        return np.array([tuple(members)], dtype)[0]
    if dtype == object:
        return fill if data_type == "string" else base64.b64decode(fill)
    if isinstance(data_type, str) and data_type.startswith("complex_") and dtype.kind != "c":
        return np.zeros(1, dtype)[0]  # pairs of small floats are always filled with zeros here
    if dtype.kind == "c":
        half = np.dtype(f"f{dtype.itemsize // 2}")
        return np.array([fill_scalar(part, half, "") for part in fill], half).view(dtype)[0]
    if isinstance(fill, str) and fill.startswith("0x"):
        return np.array([int(fill, 16)], f"u{dtype.itemsize}").view(dtype)[0]
    if dtype.kind == "V" and isinstance(fill, list) and isinstance(fill[0], int):
        return np.array([bytes(fill)], dtype)[0]
    if dtype.kind in "VS" and isinstance(fill, str):
        return np.frombuffer(base64.b64decode(fill), dtype)[0]
    if isinstance(fill, str) and dtype.kind == "f":
        return dtype.type(fill.replace("Infinity", "inf"))
    if dtype.kind in "mM":
        return np.array("NaT", dtype)[()]
    if isinstance(fill, str) and dtype.kind != "U":
        return np.zeros(1, dtype)[0]
    return fill


# ---------------------------------------------------------------- documents


def make(
    name: str,
    data_type: Json = "int32",
    dtype: Any = None,
    *,
    shape: Sequence[int] = (5, 7),
    chunks: Sequence[int] | None = None,
    codecs: list[Json] | None = None,
    fill: Json = 0,
    grid: Json = None,
    keys: Json = None,
    write: str = "all",
    lossy: bool = False,
    tame: bool = False,
    **members: Json,
) -> Case:
    chunks = tuple(max(1, math.ceil(extent / 2)) for extent in shape) if chunks is None else chunks
    kind = np.dtype(data_type if dtype is None else dtype)
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": data_type,
        "chunk_grid": grid or {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": keys or {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": codecs if codecs is not None else [LITTLE if kind.itemsize > 1 else PLAIN],
        "attributes": {},
        **members,
    }
    return Case(name, document, kind, write, lossy, tame)


def extension(name: str, **configuration: Json) -> Json:
    return {"name": name, "configuration": configuration} if configuration else {"name": name}


def sharded(
    inner: Sequence[int],
    codecs: Sequence[Json] = (LITTLE,),
    index: Sequence[Json] = (LITTLE, CRC),
    where: str = "end",
) -> Json:
    return extension(
        "sharding_indexed",
        chunk_shape=list(inner),
        codecs=list(codecs),
        index_codecs=list(index),
        index_location=where,
    )


def data_types() -> Iterator[Case]:
    plain = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    for name in (*plain, "float16", "float32", "float64", "complex64", "complex128"):
        fill = False if name == "bool" else [0.0, 0.0] if name.startswith("complex") else 0
        yield make(f"type/{name}", name, fill=fill)
        if np.dtype(name).itemsize > 1:
            yield make(f"type/{name}-big", name, fill=fill, codecs=[BIG])
    for name in ("bfloat16", *SMALL):
        yield make(f"type/{name}", name, getattr(ml_dtypes, name), fill="0x7f" if "e8m0" in name else 0)
    yield make("type/bfloat16-big", "bfloat16", ml_dtypes.bfloat16, codecs=[BIG])
    for name, alias in (("complex_float32", "c8"), ("complex_float64", "c16")):
        yield make(f"type/{name}", name, alias, fill=[0.0, 0.0])
    for name, pair in (("complex_bfloat16", ml_dtypes.bcomplex32), ("complex_float16", ml_dtypes.complex32)):
        yield make(f"type/{name}", name, pair, fill=[0.0, 0.0])
    yield make("type/complex_float8_e5m2", "complex_float8_e5m2", "V2", fill=[0.0, 0.0], codecs=[PLAIN])
    yield make("type/r16", "r16", "V2", fill=[0, 0], codecs=[PLAIN])
    yield make("type/r24", "r24", "V3", fill=[1, 2, 3], codecs=[PLAIN])
    yield make(
        "type/raw_bytes", extension("raw_bytes", length_bytes=3), "V3", fill=b64(b"\0\1\2"), codecs=[PLAIN]
    )
    zeros = extension("null_terminated_bytes", length_bytes=4)
    yield make("type/null_terminated_bytes", zeros, "S4", fill=b64(b"\0\0\0\0"), codecs=[PLAIN])
    for ending in (LITTLE, BIG):
        text = extension("fixed_length_utf32", length_bytes=16)
        yield make(
            f"type/fixed_length_utf32-{ending['configuration']['endian']}",
            text,
            "U4",
            fill="é",
            codecs=[ending],
        )
    for spelled, codec in (
        ("string", VLEN_UTF8),
        ("bytes", VLEN_BYTES),
        ("variable_length_bytes", VLEN_BYTES),
    ):
        fill = "empty" if spelled == "string" else b64(b"\x00\xff")
        yield make(f"type/{spelled}", spelled, "O", fill=fill, codecs=[codec, ZSTD])
        yield make(f"type/{spelled}-corner", spelled, "O", fill=fill, codecs=[codec], write="corner")
        yield make(f"type/{spelled}-scalar", spelled, "O", shape=(), chunks=(), fill=fill, codecs=[codec])
    for unit, factor in (("ns", 1), ("s", 1), ("D", 1), ("ms", 25), ("generic", 1)):
        for kind, letter in (("numpy.datetime64", "M8"), ("numpy.timedelta64", "m8")):
            spelled = letter if unit == "generic" else f"{letter}[{factor if factor > 1 else ''}{unit}]"
            full = extension(kind, unit=unit, scale_factor=factor)
            label = f"type/{kind.removeprefix('numpy.')}-{unit}"
            yield make(label, full, spelled, fill="NaT", write="corner" if unit == "s" else "all")
    record = [
        {"name": "x", "data_type": "float32"},
        {"name": "n", "data_type": "uint8"},
        {"name": "id", "data_type": "int64"},
    ]
    layout = [("x", "<f4"), ("n", "u1"), ("id", "<i8")]
    values_of = {"x": 1.5, "n": 2, "id": -3}
    yield make("type/struct", extension("struct", fields=record), layout, fill=values_of, write="corner")
    yield make("type/struct-big", extension("struct", fields=record), layout, fill=values_of, codecs=[BIG])
    nested = [*record[:1], {"name": "in", "data_type": extension("struct", fields=record[1:])}]
    yield make(
        "type/struct-nested",
        extension("struct", fields=nested),
        [("x", "<f4"), ("in", layout[1:])],
        fill={"x": 0.0, "in": {"n": 1, "id": 2}},
    )
    legacy = extension("structured", fields=[["x", "float32"], ["n", "uint8"], ["id", "int64"]])
    yield make("type/structured", legacy, layout, fill=b64(bytes(13)))


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def fill_values() -> Iterator[Case]:
    for label, name, fill in (
        ("f4-nan", "float32", "NaN"),
        ("f4-nan-payload", "float32", "0x7fc00001"),
        ("f4-signalling", "float32", "0x7f800001"),
        ("f4-inf", "float32", "Infinity"),
        ("f4-minus-inf", "float32", "-Infinity"),
        ("f4-minus-zero", "float32", -0.0),
        ("f4-hex", "float32", "0x3f800000"),
        ("f8-nan", "float64", "NaN"),
        ("f8-nan-payload", "float64", "0x7ff8000000000bad"),
        ("f8-tenth", "float64", 0.1),
        ("f8-subnormal", "float64", 5e-324),
        ("f2-nan", "float16", "NaN"),
        ("f2-nan-payload", "float16", "0x7e01"),
        ("f2-max", "float16", 65504.0),
        ("c8-mixed", "complex64", ["NaN", -0.0]),
        ("c16-mixed", "complex128", ["-Infinity", 1.5]),
        ("u8-max", "uint64", 2**64 - 1),
        ("i8-min", "int64", -(2**63)),
        ("i1-min", "int8", -128),
        ("true", "bool", True),
    ):
        yield make(f"fill/{label}", name, fill=fill, write="corner")
        yield make(f"fill/{label}-none", name, fill=fill, write="none")


def bytes_codecs() -> Iterator[Case]:
    """Bytes-to-bytes codecs, and chains of them."""
    for level in (0, 1, 9):
        yield make(f"codec/gzip-{level}", "uint16", codecs=[LITTLE, extension("gzip", level=level)])
    for level, check in ((-5, False), (0, False), (3, True), (19, False), (22, True)):
        step = extension("zstd", level=level, checksum=check)
        yield make(f"codec/zstd{level}-{'checked' if check else 'plain'}", "float64", codecs=[LITTLE, step])
    shuffles = ("noshuffle", "shuffle", "bitshuffle")
    for cname, shuffle in itertools.product(("blosclz", "lz4", "lz4hc", "zlib", "zstd", "snappy"), shuffles):
        step = extension("blosc", cname=cname, clevel=5, shuffle=shuffle, typesize=4, blocksize=0)
        yield make(f"codec/blosc-{cname}-{shuffle}", "int32", shape=(40, 31), codecs=[LITTLE, step])
    step = extension("blosc", cname="lz4", clevel=0, shuffle="shuffle", typesize=8, blocksize=256)
    yield make("codec/blosc-stored", "float64", codecs=[LITTLE, step])
    yield make("codec/crc32c", "int64", codecs=[LITTLE, CRC])
    yield make("codec/zstd-crc32c", "int64", codecs=[LITTLE, ZSTD, CRC])
    yield make("codec/crc32c-gzip-zstd", "int64", codecs=[BIG, CRC, GZIP, ZSTD])


def array_codecs() -> Iterator[Case]:
    """Array-to-array codecs under their registered names."""
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]):
        label = "".join(map(str, order))
        swap = extension("transpose", order=order)
        yield make(f"codec/transpose-{label}", shape=(3, 4, 5), chunks=(2, 3, 4), codecs=[swap, LITTLE])
    twice = [extension("transpose", order=[1, 2, 0]), extension("transpose", order=[0, 2, 1]), BIG, ZSTD]
    yield make("codec/transpose-twice", shape=(3, 4, 5), chunks=(2, 3, 4), codecs=twice)
    for shape in ([-1], [6], [[0], [1]], [[0, 1]], [2, -1]):
        label = "-".join("x".join(map(str, part)) if isinstance(part, list) else str(part) for part in shape)
        yield make(
            f"codec/reshape-{label}",
            shape=(4, 6),
            chunks=(2, 3),
            codecs=[extension("reshape", shape=shape), LITTLE],
        )
    for name, keep in (("float32", 6), ("float64", 10), ("int32", 5)):
        yield make(
            f"codec/bitround-{name}", name, codecs=[extension("bitround", keepbits=keep), LITTLE], lossy=True
        )
    scale = extension("scale_offset", offset=-5, scale=2)
    yield make("codec/scale_offset-int", "int64", tame=True, write="corner", codecs=[scale, LITTLE])
    scale = extension("scale_offset", offset=-4.0, scale=0.5)
    yield make("codec/scale_offset-float", "float64", write="corner", codecs=[scale, LITTLE], lossy=True)
    clamp = extension(
        "cast_value", data_type="int16", rounding="nearest-even", out_of_range="clamp", scalar_map=MAP
    )
    yield make("codec/cast_value-clamp", "float64", codecs=[clamp, LITTLE], lossy=True)
    yield make(
        "codec/cast_value-float32",
        "float64",
        lossy=True,
        codecs=[extension("cast_value", data_type="float32", out_of_range="clamp"), LITTLE],
    )
    wrap = extension("cast_value", data_type="uint8", out_of_range="wrap")
    yield make("codec/cast_value-wrap", "int32", codecs=[wrap, PLAIN], lossy=True)
    both = [extension("scale_offset", offset=-3.0, scale=4.0), clamp, LITTLE, ZSTD]
    yield make("codec/scale-then-cast", "float32", codecs=both, tame=True)


MAP = {"encode": [["NaN", -32768], ["Infinity", 32767], ["-Infinity", -32767]], "decode": [[-32768, "NaN"]]}


def serializers() -> Iterator[Case]:
    for name, padding in itertools.product(("bool", "int4", "uint2"), ("none", "first_byte", "last_byte")):
        kind = None if name == "bool" else getattr(ml_dtypes, name)
        fill = False if name == "bool" else 0
        yield make(
            f"codec/packbits-{name}-{padding}",
            name,
            kind,
            fill=fill,
            codecs=[extension("packbits", padding_encoding=padding)],
        )
    yield make("codec/packbits-uint16", "uint16", codecs=[extension("packbits")])
    yield make(
        "codec/packbits-uint32-low",
        "uint32",
        codecs=[extension("packbits", first_bit=0, last_bit=6)],
        lossy=True,
    )
    yield make("codec/packbits-float16", "float16", codecs=[extension("packbits")])
    for mode, settings in (
        ("reversible", {}),
        ("fixed_rate", {"rate": 12.0}),
        ("fixed_precision", {"precision": 14}),
        ("fixed_accuracy", {"tolerance": 0.01}),
    ):
        codec = extension("zfp", mode=mode, **settings)
        yield make(f"codec/zfp-{mode}", "float32", codecs=[codec], lossy=mode != "reversible", shape=(9, 10))
    yield make("codec/zfp-int32", "int32", codecs=[extension("zfp", mode="reversible")])


def numcodecs_codecs() -> Iterator[Case]:
    """What is written under `numcodecs.*`."""
    for name, settings in (
        ("blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}),
        ("lz4", {"acceleration": 1}),
        ("zstd", {"level": 3}),
        ("zlib", {"level": 6}),
        ("gzip", {"level": 6}),
        ("bz2", {"level": 9}),
        ("lzma", {"format": 1, "check": -1, "preset": None, "filters": None}),
        ("shuffle", {"elementsize": 4}),
        ("crc32", {}),
        ("crc32c", {}),
        ("adler32", {}),
        ("fletcher32", {}),
        ("jenkins_lookup3", {"initval": 0}),
    ):
        yield make(
            f"numcodecs/{name}",
            "int32",
            codecs=[LITTLE, {"name": f"numcodecs.{name}", "configuration": settings}],
        )
    delta = {"name": "numcodecs.delta", "configuration": {"dtype": "<i4", "astype": "<i4"}}
    yield make("numcodecs/delta", "int32", shape=(35,), codecs=[delta, LITTLE])
    yield make(
        "numcodecs/bitround",
        "float32",
        codecs=[extension("numcodecs.bitround", keepbits=8), LITTLE],
        lossy=True,
    )
    scale = extension("numcodecs.fixedscaleoffset", scale=10, offset=2, dtype="<f8", astype="<i8")
    yield make("numcodecs/fixedscaleoffset", "float64", shape=(5,), codecs=[scale, LITTLE], lossy=True)
    quantize = extension("numcodecs.quantize", digits=2, dtype="<f8", astype="<f8")
    yield make("numcodecs/quantize", "float64", shape=(5,), codecs=[quantize, LITTLE], lossy=True)
    yield make(
        "numcodecs/packbits",
        "bool",
        fill=False,
        shape=(35,),
        codecs=[{"name": "numcodecs.packbits", "configuration": {}}, PLAIN],
    )
    astype = extension("numcodecs.astype", encode_dtype="<i2", decode_dtype="<i8")
    yield make("numcodecs/astype", "int64", shape=(35,), codecs=[astype, LITTLE], lossy=True)
    yield make(
        "numcodecs/pcodec",
        "int64",
        codecs=[
            {
                "name": "numcodecs.pcodec",
                "configuration": {"level": 8, "mode_spec": "auto", "equal_pages_up_to": 262144},
            }
        ],
    )
    yield make(
        "numcodecs/zfpy",
        "float32",
        shape=(9, 10),
        lossy=True,
        codecs=[{"name": "numcodecs.zfpy", "configuration": {"mode": 4, "tolerance": 0.01}}],
    )


def shards() -> Iterator[Case]:
    for where, edge in itertools.product(("end", "start"), ((8, 12), (9, 13))):
        label = f"shard/{where}-{'even' if edge == (8, 12) else 'edge'}"
        codec = sharded((2, 3), [LITTLE, ZSTD], where=where)
        yield make(label, "uint16", shape=edge, chunks=(4, 6), codecs=[codec])
    grid: dict[str, Any] = {"shape": (9, 13), "chunks": (4, 6)}
    yield make("shard/raw", "float32", **grid, codecs=[sharded((2, 3))])
    yield make("shard/crc-inside", "float32", **grid, codecs=[sharded((2, 3), [LITTLE, ZSTD, CRC])])
    yield make("shard/big-inside", "float32", **grid, codecs=[sharded((2, 3), [BIG, GZIP])])
    for cname in ("lz4", "zstd"):
        step = extension("blosc", cname=cname, clevel=5, shuffle="bitshuffle", typesize=4, blocksize=0)
        yield make(f"shard/blosc-{cname}", "float32", **grid, codecs=[sharded((2, 3), [LITTLE, step])])
    yield make("shard/index-plain", **grid, codecs=[sharded((2, 3), index=[LITTLE])])
    yield make("shard/index-big", **grid, codecs=[sharded((2, 3), index=[BIG, CRC])])
    yield make("shard/index-big-start", **grid, codecs=[sharded((2, 3), index=[BIG], where="start")])
    turned = [extension("transpose", order=[2, 1, 0]), LITTLE, CRC]
    yield make("shard/index-transposed", **grid, codecs=[sharded((2, 3), index=turned)])
    yield make("shard/corner", **grid, fill=7, write="corner", codecs=[sharded((2, 3), [LITTLE, ZSTD])])
    yield make("shard/corner-start", **grid, fill=7, write="corner", codecs=[sharded((2, 3), where="start")])
    yield make("shard/nothing", **grid, fill=7, write="none", codecs=[sharded((2, 3))])
    yield make("shard/one-inner", **grid, codecs=[sharded((4, 6))])
    yield make("shard/scalar", shape=(), chunks=(), codecs=[sharded(())])
    yield make("shard/line", shape=(100,), chunks=(40,), codecs=[sharded((5,), [LITTLE, GZIP])])
    yield make("shard/larger-than-array", shape=(3, 3), chunks=(8, 8), codecs=[sharded((2, 2))])
    yield make("shard/empty-array", shape=(0, 3), chunks=(2, 2), codecs=[sharded((1, 2))])
    yield make(
        "shard/four-dimensions",
        "uint8",
        shape=(3, 4, 5, 6),
        chunks=(2, 4, 4, 4),
        codecs=[sharded((1, 2, 2, 4), [PLAIN, ZSTD])],
    )
    swap = extension("transpose", order=[1, 0])
    yield make("shard/transpose-inside", **grid, codecs=[sharded((2, 3), [swap, LITTLE, ZSTD])])
    yield make("shard/transpose-before", **grid, codecs=[swap, sharded((3, 2), [LITTLE, ZSTD])])
    yield make(
        "shard/transpose-before-square",
        shape=(9, 9),
        chunks=(4, 4),
        codecs=[swap, sharded((2, 2), [LITTLE, ZSTD])],
    )
    yield make("shard/gzip-after", **grid, codecs=[sharded((2, 3)), GZIP])
    yield make("shard/crc-after", **grid, codecs=[sharded((2, 3), [LITTLE, ZSTD]), CRC])
    for outer, inner in itertools.product(("end", "start"), repeat=2):
        codec = sharded((4, 6), [sharded((2, 3), [LITTLE, ZSTD], where=inner)], where=outer)
        yield make(f"shard/nested-{outer}-{inner}", shape=(17, 20), chunks=(8, 12), codecs=[codec])
    deep = sharded((4, 4), [sharded((2, 2), [sharded((1, 2), [LITTLE, CRC])])])
    yield make("shard/nested-thrice", shape=(9, 8), chunks=(8, 8), codecs=[deep])
    codec = sharded((4, 6), [sharded((2, 3), [LITTLE, ZSTD])])
    yield make("shard/nested-corner", shape=(17, 20), chunks=(8, 12), fill=9, write="corner", codecs=[codec])
    yield make(
        "shard/nan-fill",
        "float32",
        **grid,
        fill="NaN",
        write="corner",
        codecs=[sharded((2, 3), [LITTLE, ZSTD])],
    )
    yield make("shard/strings", "string", "O", **grid, fill="", codecs=[sharded((2, 3), [VLEN_UTF8, ZSTD])])
    scale = extension("scale_offset", offset=-5, scale=2)
    yield make(
        "shard/scale-inside",
        "int64",
        **grid,
        tame=True,
        write="corner",
        codecs=[sharded((2, 3), [scale, LITTLE])],
    )
    yield make(
        "shard/scale-before",
        "int64",
        **grid,
        tame=True,
        write="corner",
        codecs=[scale, sharded((2, 3), [LITTLE])],
    )
    yield make(
        "shard/bool", "bool", **grid, fill=True, write="corner", codecs=[sharded((2, 3), [PLAIN, GZIP])]
    )
    packed = extension("packbits", padding_encoding="first_byte")
    yield make("shard/packbits", "bool", **grid, fill=False, codecs=[sharded((2, 3), [packed])])


def shapes() -> Iterator[Case]:
    for shape, chunks in (
        ((), ()),
        ((1,), (1,)),
        ((0,), (3,)),
        ((0, 4), (2, 2)),
        ((5, 0, 2), (2, 1, 1)),
        ((3,), (10,)),
        ((7, 1), (2, 1)),
        ((2, 3, 2, 3), (1, 2, 2, 2)),
        ((2, 1, 2, 1, 2, 3), (1, 1, 2, 1, 2, 2)),
    ):
        label = "x".join(map(str, shape)) or "scalar"
        yield make(f"shape/{label}", "int16", shape=shape, chunks=chunks)
    yield make("shape/scalar-unwritten", "int16", shape=(), chunks=(), write="none", fill=-4)


def keys() -> Iterator[Case]:
    for name, separator in itertools.product(("default", "v2"), "/."):
        encoding = extension(name, separator=separator)
        label = f"{name}-{'slash' if separator == '/' else 'dot'}"
        yield make(f"keys/{label}", "int16", keys=encoding)
        yield make(f"keys/{label}-scalar", "int16", shape=(), chunks=(), keys=encoding)
        yield make(f"keys/{label}-shards", "int16", chunks=(4, 4), keys=encoding, codecs=[sharded((2, 2))])
    for name in ("default", "v2"):
        yield make(f"keys/{name}-bare", "int16", keys={"name": name})


def members() -> Iterator[Case]:
    yield make("members/dimension-names", dimension_names=["y", None])
    yield make("members/dimension-names-twice", dimension_names=["x", "x"])
    attributes = {"units": "m", "größe": [1, 2.5, None, {"a": True}], "large": 2**62, "empty": {}}
    yield make("members/attributes", attributes=attributes)
    yield make("members/transformers-empty", storage_transformers=[])
    yield make("members/unknown-optional", something={"must_understand": False, "name": "x"})


def rectilinear() -> Iterator[Case]:
    for label, shape, edges in (
        ("lists", (6, 7), [[1, 2, 3], [4, 3]]),
        ("integer", (6, 7), [4, [2, 5]]),
        ("runs", (6, 7), [[[1, 3], 3], [[3, 2], 1]]),
        ("beyond", (6, 7), [[4, 4, 4], [10]]),
        ("line", (20,), [[1, 2, 3, 4, [5, 2]]]),
    ):
        grid = extension("rectilinear", kind="inline", chunk_shapes=edges)
        yield make(f"rectilinear/{label}", shape=shape, grid=grid, codecs=[LITTLE, ZSTD])
    for label, shape, edges in (
        ("shards", (12, 9), [[2, 4, 6], [6, 3]]),
        ("shards-edge", (11, 8), [[2, 4, 6], 6]),
        ("shards-runs", (12, 9), [[[2, 2], 8], [3, [3, 2]]]),
    ):
        grid = extension("rectilinear", kind="inline", chunk_shapes=edges)
        yield make(f"rectilinear/{label}", shape=shape, grid=grid, codecs=[sharded((2, 3), [LITTLE, ZSTD])])


CASES: tuple[Case, ...] = tuple(
    itertools.chain(
        data_types(),
        fill_values(),
        bytes_codecs(),
        array_codecs(),
        serializers(),
        numcodecs_codecs(),
        shards(),
        shapes(),
        keys(),
        members(),
        rectilinear(),
    )
)
BY_NAME = {case.name: case for case in CASES}
assert len(BY_NAME) == len(CASES), "two cases have one name"
