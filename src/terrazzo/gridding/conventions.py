"""What attributes say of a grid: the Zarr conventions DGGS, proj, spatial and multiscales, and CF's grid mappings.

What it does not do: read them (recognise.py does), or decide what a grid is.
Specification: the conventions of github.com/zarr-conventions (dggs v1; multiscales, proj and spatial v0.1); CF 1.11,
sections 4, 5.6 and 7.3, and CF's proposal for HEALPix (grid mapping "healpix", standard name "healpix_index").
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from terrazzo.gridding.optional import required

__all__ = [
    "DGGS",
    "MAPPING",
    "MULTISCALES",
    "axis_attributes",
    "dggs",
    "field_attributes",
    "healpix_mapping",
    "placed",
    "projected",
    "projected_mapping",
]

#: the name of the array without elements whose attributes are the grid mapping, as GDAL and rioxarray call it
MAPPING = "spatial_ref"
_RAW = "https://raw.githubusercontent.com/zarr-conventions"
_PAGE = "https://github.com/zarr-conventions"


def _entry(name: str, tag: str, uuid: str, description: str) -> dict[str, Any]:
    return {
        "schema_url": f"{_RAW}/{name}/refs/tags/{tag}/schema.json",
        "spec_url": f"{_PAGE}/{name}/blob/{tag}/README.md",
        "uuid": uuid,
        "name": name,
        "description": description,
    }


DGGS = _entry(
    *("dggs", "v1", "7b255807-140c-42ca-97f6-7a1cfecdbc38"),
    "Discrete Global Grid Systems convention for zarr",
)
MULTISCALES = _entry(
    *("multiscales", "v0.1", "d35379db-88df-4056-af3a-620245f8e347"),
    "Multiscale layout of zarr datasets",
)
PROJ = _entry(
    *("proj", "v0.1", "f17cb550-5864-4468-aeb7-f3180cfb622f"),
    "Coordinate reference system information for geospatial data",
)
SPATIAL = _entry(
    *("spatial", "v0.1", "689b58e2-cf7b-45e0-9fff-9cfc0883d6b4"), "Spatial coordinate information"
)
_AXIS, _FLATTENING = 6378137.0, 298.257223563
#: the radius that DGGS means where no ellipsoid is given, in metres
_RADIUS = 6370997.0


def dggs(order: int, ellipsoid: str, coordinate: str | None) -> dict[str, Any]:
    """Nested HEALPix cells of an order, as DGGS says it; without an ellipsoid it means a sphere."""
    block: dict[str, Any] = {
        "name": "healpix",
        "refinement_level": order,
        "indexing_scheme": "nested",
        "spatial_dimension": "cells",
    }
    if ellipsoid == "WGS84":
        block["ellipsoid"] = {
            "name": "WGS84",
            "semimajor_axis": _AXIS,
            "inverse_flattening": _FLATTENING,
        }
    if coordinate is not None:
        block |= {"coordinate": coordinate, "compression": "none"}
    return {"zarr_conventions": [DGGS], "dggs": block}


def healpix_mapping(order: int, ellipsoid: str) -> dict[str, Any]:
    """CF's grid mapping of HEALPix cells."""
    body = (
        {
            "semi_major_axis": _AXIS,
            "inverse_flattening": _FLATTENING,
            "reference_ellipsoid_name": "WGS 84",
        }
        if ellipsoid == "WGS84"
        else {"earth_radius": _RADIUS}
    )
    return {
        "grid_mapping_name": "healpix",
        "refinement_level": order,
        "indexing_scheme": "nested",
        **body,
    }


def projected(crs: str) -> dict[str, Any]:
    """The convention proj: the code where there is one, and always the whole text."""
    known = _crs(crs)
    authority = known.to_authority()
    said = {"proj:code": ":".join(authority)} if authority else {}
    return {"zarr_conventions": [PROJ, SPATIAL], **said, "proj:wkt2": known.to_wkt()}


def placed(
    dimensions: Sequence[str],
    extent: tuple[float, float, float, float],
    resolution: tuple[float, float],
    shape: tuple[int, ...],
) -> dict[str, Any]:
    """The convention spatial: where rows and columns lie; cells, not nodes, north up."""
    return {
        "spatial:dimensions": list(dimensions),
        "spatial:shape": list(shape),
        "spatial:bbox": list(extent),
        "spatial:transform": affine(extent, resolution),
        "spatial:registration": "pixel",
    }


def affine(extent: Sequence[float], resolution: tuple[float, float]) -> list[float]:
    """[a, b, c, d, e, f] from (column, row) of a cell's upper left corner to (x, y)."""
    return [resolution[0], 0.0, extent[0], 0.0, -resolution[1], extent[3]]


def projected_mapping(crs: str, extent: Sequence[float], resolution: tuple[float, float]) -> dict[str, Any]:
    """CF's grid mapping of a projected system, with the line that GDAL looks for."""
    a, b, c, d, e, f = affine(extent, resolution)
    said = {
        key: list(value) if isinstance(value, tuple) else value for key, value in _crs(crs).to_cf().items()
    }
    return {**said, "GeoTransform": " ".join(f"{v!r}" for v in (c, a, b, f, d, e))}


def axis_attributes(crs: str, axis: str) -> dict[str, Any]:
    """CF's attributes of the coordinate `x` or `y`: metres, feet or degrees, as the system has it."""
    for one in _crs(crs).cs_to_cf():
        if one.get("axis") == axis.upper():
            units = {"metre": "m"}.get(one["units"], one["units"])
            return {"standard_name": one["standard_name"], "units": units, "axis": axis.upper()}
    return {"standard_name": f"projection_{axis}_coordinate", "axis": axis.upper()}


#: what CF calls a statistic over the area of a cell
_METHODS = {
    "sum": "sum",
    "mean": "mean",
    "average": "mean",
    "min": "minimum",
    "max": "maximum",
    "var": "variance",
    "std": "standard_deviation",
    "median": "median",
    "mode": "mode",
}


def field_attributes(statistic: str, per_cell: bool) -> dict[str, Any]:
    """CF's attributes of a field: its grid mapping, and how the points of a cell became one value."""
    said: dict[str, Any] = {"grid_mapping": MAPPING} if per_cell else {}
    method = _METHODS.get(statistic)
    if method is not None:
        said["cell_methods"] = f"area: {method}"
    if statistic == "count":
        said |= {"units": "1", "long_name": "number of points"}
    return said


@lru_cache(maxsize=16)
def _crs(name: str) -> Any:
    return required("pyproj", "rectilinear grids", "geo").CRS.from_user_input(name)
