"""Whether an array holds nothing but the fill value, bit for bit.

What it does not do: the same for encoded chunks; the kernel does that while it encodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from terrazzo.metadata.data_types import Fill

__all__ = ["same_bits"]


def same_bits(values: NDArray[Any], fill: Fill) -> bool:
    """Whether every element of `values` has the bits of `fill`; NaN payloads and the sign of zero count.

    Both must be of one numpy type. An array without elements is all fill.
    """
    if values.dtype != fill.dtype:
        raise TypeError(
            f"found values of {values.dtype} and a fill value of {fill.dtype}, must be the same type"
        )
    if values.dtype.kind == "O":
        expected = fill[()]
        return all(type(one) is type(expected) and one == expected for one in values.flat)
    if values.dtype.kind == "T":
        return bool((values == fill).all())
    nbytes = values.dtype.itemsize
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}.get(nbytes)
    if unsigned is not None and values.dtype.names is None:
        return bool((values.view(unsigned) == fill.view(unsigned)).all())
    encoded = np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(-1, nbytes)
    return bool((encoded == np.frombuffer(fill.tobytes(), np.uint8)).all())
