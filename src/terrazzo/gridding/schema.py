"""The configuration as a JSON Schema, for editors and forms.

What it does not do: check a configuration; `Config.from_dict` does, and says more.
Specification: JSON Schema 2020-12.
"""

from __future__ import annotations

from typing import Any

from terrazzo.gridding import configuration as known
from terrazzo.gridding import origin
from terrazzo.gridding.fields import FIELD_KEYS

__all__ = ["json_schema"]


def json_schema() -> dict[str, Any]:
    """The sections and keys of a configuration; unknown ones are not allowed.

    >>> sorted(json_schema()["properties"])
    ['aggregation', 'catalog', 'data_source', 'execution', 'output', 'pipeline', 'worker']
    """
    grids = [
        _object(known.HEALPIX, ("type", "parent_order", "child_order"), type={"const": "healpix"}),
        _object(known.RECTILINEAR, ("type", "crs", "resolution", "bounds"), type={"const": "rectilinear"}),
    ]
    variables = {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"anyOf": [{"type": "string"}, _object(FIELD_KEYS)]},
    }
    storage = _object(
        known.STORAGE, index_location={"enum": ["start", "end"]}, companion_chunks={"enum": ["shard", "unit"]}
    )
    sections = {
        "aggregation": _object(known.AGGREGATION, ("variables",), variables=variables),
        "output": _object(known.OUTPUT, ("grid",), grid={"oneOf": grids}, storage=storage),
        "data_source": _object(origin.SOURCE, ("coordinates",), reader={"enum": sorted(origin.READERS)}),
        "execution": _object(known.EXECUTION, engine={"enum": list(known.ENGINES)}),
    }
    schema = _object(known.SECTIONS, ("aggregation", "output"), **sections)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "terrazzo grid", **schema}


def _object(keys: tuple[str, ...], required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "object",
        "properties": {key: properties.get(key, {}) for key in keys},
        "additionalProperties": False,
    }
    return {**found, "required": list(required)} if required else found
