"""Every document of tests/interop/cases.py: what terrazzo writes under it, terrazzo reads back, to the last bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cases import BY_NAME, Case, canonical, differences, expected

import terrazzo


@pytest.mark.parametrize("name", BY_NAME)
def test_round_trip(name: str, tmp_path: Path) -> None:
    case = BY_NAME[name]
    (tmp_path / "zarr.json").write_text(json.dumps(case.document), encoding="utf-8")
    array = terrazzo.open_array(tmp_path, mode="r+")
    empty = expected(Case(name, case.document, case.dtype, "none"), case.values())
    if not case.lossy:
        assert differences(canonical(array[...], case), empty, case) == 0, (
            "nothing is stored, so all is fill value"
        )
    values = case.values(seed=1)
    ours = values.view(array.dtype) if case.dtype.kind == "V" else values
    if case.write != "none":
        array[case.region] = ours[case.region]
    found = canonical(terrazzo.open_array(tmp_path, mode="r")[...], case)
    wanted = found if case.lossy else expected(case, values)
    assert differences(found, wanted, case) == 0
    if not case.shape or not values.size:
        return
    # a part is laid over what is stored, and nothing else changes
    part = tuple(slice(extent // 2, extent) for extent in case.shape)
    array[part] = ours[part]
    inside = Case(name, {**case.document, "shape": list(wanted[part].shape)}, case.dtype)
    again = canonical(terrazzo.open_array(tmp_path, mode="r")[...], case)
    if not case.lossy:
        wanted[part] = values[part]
        assert differences(canonical(array[part], inside), values[part], inside) == 0
    outside = np.ones(case.shape, bool)
    outside[part] = False
    flat = Case(name, {**case.document, "shape": [int(outside.sum())]}, case.dtype)
    assert differences(again[outside], wanted[outside], flat) == 0
