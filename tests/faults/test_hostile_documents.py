"""Documents changed at random: they open, or an error of terrazzo's own tree says why not. The search is documents.py,
which also runs long."""

from __future__ import annotations

import json
from typing import Any

import pytest

import terrazzo
from terrazzo.errors import MetadataError
from tests.faults.documents import search
from tests.faults.hostile import BYTES, document, sharded

DOCUMENTS = 1500


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("terrazzo.read.flow.time.sleep", lambda _: None)


def test_changed_documents_raise_nothing_of_others() -> None:
    found, wrong = search(DOCUMENTS, seed=3)
    assert wrong == []
    assert found["read"] > DOCUMENTS // 50 and found["opened"] > DOCUMENTS // 20


def _nested(member: str, value: Any) -> list[dict[str, Any]]:
    (codec,) = sharded()
    codec["configuration"][member] = value
    return [codec]


@pytest.mark.parametrize(
    "codecs",
    [
        pytest.param(
            _nested("index_codecs", [BYTES, [{"name": "crc32c"}]]), id="a list for a codec of an index"
        ),
        pytest.param(_nested("codecs", [BYTES, 3]), id="a number for a codec of a shard"),
        pytest.param(_nested("codecs", 5), id="a number for the codecs of a shard"),
        pytest.param(
            [{"name": "numcodecs.quantize", "configuration": {"digits": {}, "dtype": "<f4"}}, BYTES],
            id="an object for a number of digits",
        ),
        pytest.param(
            [
                {
                    "name": "numcodecs.fixedscaleoffset",
                    "configuration": {"offset": {"name": "x"}, "scale": 2, "dtype": "<i4", "astype": "<i2"},
                },
                BYTES,
            ],
            id="an object for an offset",
        ),
    ],
)
def test_what_the_search_found(codecs: list[dict[str, Any]]) -> None:
    if "numcodecs" in json.dumps(codecs):
        pytest.importorskip("numcodecs")
    with pytest.raises(MetadataError, match="codecs"):
        terrazzo.open_array({"zarr.json": document(codecs=codecs)}, mode="r")


def test_a_list_of_lists_for_a_fill_value_of_bytes() -> None:
    second = {"zarr_format": 2, "shape": [6], "chunks": [4], "dtype": "|V4", "fill_value": [[]]}
    second |= {"compressor": None, "order": "C", "filters": None}
    with pytest.raises(MetadataError, match="fill_value"):
        terrazzo.open_array({".zarray": json.dumps(second).encode()}, mode="r")
