"""What a data type is: the contract that every kind of element fulfils, and the few functions all of them share.

What it does not do: encode chunks. Codecs read `numpy`, `itemsize` and `units`; nothing here knows a codec.

To add one: a frozen dataclass with `names`, `from_json`, `from_numpy`, `name`, `configuration`, `numpy`, `units`,
`fill_from_json`, `fill_to_json`, `cast_fill` and `default_fill`, passed to `register_data_type`.

https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#data-types
"""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from terrazzo.errors import DataTypeValidationError, MetadataValidationError
from terrazzo.metadata.problems import describe, join, refuse

__all__ = ["ITEM_NBYTES", "DataType", "Fill"]

# a 0-d array, read-only, whose bytes are the fill value
Fill = NDArray[Any]

# one element; hostile metadata must not make us allocate for a single fill value
ITEM_NBYTES = 1 << 24


class DataType(ABC):
    """The kind of every element of an array: how documents name it, and what numpy holds it in."""

    names: ClassVar[tuple[str, ...]] = ()  # as documents spell it, the one to write first

    @classmethod
    def matches(cls, name: str) -> bool:
        """Whether a document's name means this class; override it for families of names such as `r16`."""
        return name in cls.names

    @classmethod
    @abstractmethod
    def from_json(cls, name: str, configuration: dict[str, Any], path: str) -> Self:
        """Read the data type of this name; raise DataTypeValidationError with the path of what is wrong."""

    @classmethod
    @abstractmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self | None:
        """The data type that holds this numpy type's values, whatever its byte order; None if it is another's."""

    @property
    @abstractmethod
    def name(self) -> str:
        """As it is written."""

    @property
    def configuration(self) -> dict[str, Any]:
        return {}

    @property
    @abstractmethod
    def numpy(self) -> np.dtype[Any]:
        """Elements in memory, in native byte order; StringDType for text, object for bytes of any length."""

    @property
    def itemsize(self) -> int | None:
        """Bytes of one element as the `bytes` codec stores it; None where elements differ in size."""
        return self.numpy.itemsize

    @property
    @abstractmethod
    def units(self) -> tuple[int, ...]:
        """The byte counts that are reversed to change endianness, repeated over one element; () for single bytes."""

    @property
    def needs_endian(self) -> bool:
        """Whether the `bytes` codec has to state an endianness."""
        return bool(self.units)

    @property
    def implied_endian(self) -> Literal["little", "big"] | None:
        """What a `bytes` codec without endianness means; None where that is an error."""
        return None

    @property
    def check(self) -> Literal["", "bool"]:
        """What the kernel checks in decoded elements."""
        return ""

    @abstractmethod
    def default_fill(self) -> Fill:
        """What an array is filled with when nobody says."""

    @abstractmethod
    def fill_from_json(self, value: object, path: str = "fill_value", *, strict: bool = True) -> Fill:
        """The exact fill value that a document's JSON form means; raises MetadataValidationError with its path."""

    @abstractmethod
    def fill_to_json(self, fill: Fill) -> Any:
        """The JSON form that gives back the same bits."""

    @abstractmethod
    def cast_fill(self, value: object) -> Fill:
        """What a caller's value is in this data type, exactly; raises DataTypeValidationError where it is not."""

    def scalar_to_json(self, value: object) -> Any:
        """One element as JSON, in the form of a fill value."""
        return self.fill_to_json(self.cast_fill(value))

    def to_json(self) -> Any:
        """As documents spell it: the name alone where there is no configuration."""
        configuration = self.configuration
        return {"name": self.name, "configuration": configuration} if configuration else self.name

    def __str__(self) -> str:
        return self.name

    def not_a_fill(self, value: object, allowed: str) -> NoReturn:
        """Refuse a caller's value."""
        shown = repr(value)
        shown = shown if len(shown) <= 64 else f"{shown[:60]}..."
        raise DataTypeValidationError(f"the fill value {shown} is not a {self.name}: it must be {allowed}")


def frozen(values: Any, dtype: np.dtype[Any]) -> Fill:
    """A read-only 0-d array."""
    array = np.array(values, dtype=dtype)
    array = array.reshape(())
    array.setflags(write=False)
    return array


def frozen_bytes(encoded: bytes, dtype: np.dtype[Any]) -> Fill:
    """A read-only 0-d array of these very bytes (native order)."""
    array = np.empty((), dtype)
    array.reshape(1).view(np.uint8)[:] = np.frombuffer(encoded, np.uint8)
    array.setflags(write=False)
    return array


def scalar(value: object) -> object:
    """A 0-d array as its scalar; everything else as it is."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def only_members(configuration: dict[str, Any], members: tuple[str, ...], path: str, name: str) -> None:
    """Refuse a configuration that misses a member or has one too many."""
    at = join(path, "configuration")
    for member in members:
        if member not in configuration:
            refuse(join(at, member), f"is missing; {name} needs it", DataTypeValidationError)
    for member in sorted(configuration.keys() - set(members)):
        allowed = ", ".join(members) if members else "none"
        refuse(join(at, member), f"is not a member of {name}; allowed: {allowed}", DataTypeValidationError)


def length_from_json(configuration: dict[str, Any], path: str, name: str, unit: int = 1) -> int:
    """The only member `length_bytes` of a configuration, a multiple of `unit`."""
    only_members(configuration, ("length_bytes",), path, name)
    at = join(join(path, "configuration"), "length_bytes")
    length = configuration["length_bytes"]
    of = f" and a multiple of {unit}" if unit > 1 else ""
    if isinstance(length, bool) or not isinstance(length, int) or length < 1 or length % unit:
        refuse(at, f"found {describe(length)}, must be an integer >= 1{of}", DataTypeValidationError)
    check_size(length, at)
    return length


def check_size(nbytes: int, path: str) -> None:
    if nbytes > ITEM_NBYTES:
        sentence = f"one element takes {nbytes} bytes, at most {ITEM_NBYTES} are supported"
        refuse(path, sentence, DataTypeValidationError)


def bytes_from_json(value: object, path: str) -> bytes:
    """Bytes from their JSON forms: a list of 0..255, or base64."""
    if isinstance(value, str):
        try:
            return base64.b64decode(value.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            pass
    elif isinstance(value, list):
        for i, one in enumerate(value):
            if isinstance(one, bool) or not isinstance(one, int) or not 0 <= one <= 255:
                refuse(join(path, i), f"found {describe(one)}, must be an integer from 0 to 255")
        return bytes(value)
    sentence = f"found {describe(value)}, must be a list of integers from 0 to 255, or base64"
    raise MetadataValidationError(f"{path}: {sentence}", ((path, sentence),))


def base64_text(encoded: bytes) -> str:
    return base64.b64encode(encoded).decode("ascii")
