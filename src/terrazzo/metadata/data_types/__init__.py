"""Data types: how documents name them, what numpy holds them in, and their fill values bit for bit.

What it does not do: encode chunks.
"""

from terrazzo.metadata.data_types.contract import DataType, Fill
from terrazzo.metadata.data_types.numeric import Bool, Complex, Float, Integer
from terrazzo.metadata.data_types.objects import Objects
from terrazzo.metadata.data_types.optional import Optional
from terrazzo.metadata.data_types.pairs import ComplexPair
from terrazzo.metadata.data_types.raw import NullTerminatedBytes, RawBits, VariableBytes
from terrazzo.metadata.data_types.record import NumpyRecord
from terrazzo.metadata.data_types.registry import (
    data_type_from_json,
    data_type_from_numpy,
    known_data_types,
    register_data_type,
    resolve_data_type,
)
from terrazzo.metadata.data_types.small import SmallComplex, SmallFloat, SmallInteger
from terrazzo.metadata.data_types.struct import Struct
from terrazzo.metadata.data_types.text import FixedLengthUTF32, String
from terrazzo.metadata.data_types.time import NumpyTime

__all__ = [
    "Bool",
    "Complex",
    "ComplexPair",
    "DataType",
    "Fill",
    "FixedLengthUTF32",
    "Float",
    "Integer",
    "NullTerminatedBytes",
    "NumpyRecord",
    "NumpyTime",
    "Objects",
    "Optional",
    "RawBits",
    "SmallComplex",
    "SmallFloat",
    "SmallInteger",
    "String",
    "Struct",
    "VariableBytes",
    "data_type_from_json",
    "data_type_from_numpy",
    "known_data_types",
    "register_data_type",
    "resolve_data_type",
]

for _cls in (
    Bool, Integer, Float, Complex, String, VariableBytes, FixedLengthUTF32, NullTerminatedBytes, NumpyTime, ComplexPair,
    Struct, SmallInteger, SmallFloat, SmallComplex, RawBits,
    NumpyRecord, Objects, Optional,
):  # fmt: skip
    register_data_type(_cls)
