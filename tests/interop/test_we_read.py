"""What the other libraries write, terrazzo reads equal to the last bit: whole, in parts, and one element at a time."""

from __future__ import annotations

import numpy as np
import pytest
from cases import BY_NAME, Case, canonical, differences, expected
from exchange import Exchange

import terrazzo


@pytest.mark.parametrize("name", BY_NAME)
def test_read(name: str, exchange: Exchange) -> None:
    case = BY_NAME[name]
    able = exchange.able(case)
    exchange.note("they write, we read", case, [peer for peer, _ in able])
    for peer, path in able:
        array = terrazzo.open_array(path, mode="r")
        wanted = (
            canonical(peer.read(path, case), case) if case.lossy else expected(case, case.values(seed=11))
        )
        found = canonical(array[...], case)
        assert differences(found, wanted, case) == 0, f"{peer.name} wrote {wanted!r}, we read {found!r}"
        rng = np.random.default_rng(len(name))
        for _ in range(3):
            low = [int(rng.integers(extent + 1)) for extent in case.shape]
            high = [
                int(rng.integers(start, extent + 1)) for start, extent in zip(low, case.shape, strict=True)
            ]
            box = tuple(slice(*ends) for ends in zip(low, high, strict=True))
            inside = np.asarray(wanted[(*box, ...)])
            part = Case(name, {**case.document, "shape": inside.shape}, case.dtype)
            assert differences(canonical(array[box], part), inside, part) == 0, f"{peer.name}: {box}"
