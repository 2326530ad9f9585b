"""What a group's attributes say: the entries of the Zarr conventions that grids and pyramids follow.

What it does not do: anything; it is text that other libraries look for, letter by letter.
Specification: the conventions DGGS 1, multiscales 1, proj 1 and spatial 1 of github.com/zarr-conventions.
"""

from __future__ import annotations

from typing import Any

__all__ = ["DGGS", "MULTISCALES", "WGS84"]

DGGS: dict[str, Any] = {
    "schema_url": "https://raw.githubusercontent.com/zarr-conventions/dggs/refs/tags/v1/schema.json",
    "spec_url": "https://github.com/zarr-conventions/dggs/blob/v1/README.md",
    "uuid": "7b255807-140c-42ca-97f6-7a1cfecdbc38",
    "name": "dggs",
    "description": "Discrete Global Grid Systems convention for zarr",
}
MULTISCALES: dict[str, Any] = {
    "schema_url": "https://raw.githubusercontent.com/zarr-conventions/multiscales/refs/tags/v1/schema.json",
    "spec_url": "https://github.com/zarr-conventions/multiscales/blob/v1/README.md",
    "uuid": "d35379db-88df-4056-af3a-620245f8e347",
    "name": "multiscales",
    "description": "Multiscale layout of zarr datasets",
}
WGS84: dict[str, Any] = {
    "name": "WGS84",
    "semi_major_axis": 6378137.0,
    "inverse_flattening": 298.257223563,
}
