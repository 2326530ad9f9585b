"""What the tests of gridding share: the sample data, configurations, and an obvious way to do the same."""

from __future__ import annotations

import copy
import os
import signal
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

SAMPLES = Path(__file__).resolve().parents[2] / "examples" / "data"
BEAMS = ["gt1l", "gt1r", "gt2l", "gt2r", "gt3l", "gt3r"]
SEGMENTS = "{group}/land_ice_segments/"

ATL06: dict[str, Any] = {
    "reader": "hdf5",
    "files": str(SAMPLES / "ATL06_*.h5"),
    "groups": BEAMS,
    "coordinates": {"longitude": SEGMENTS + "longitude", "latitude": SEGMENTS + "latitude"},
    "variables": {"h_li": SEGMENTS + "h_li", "h_li_sigma": SEGMENTS + "h_li_sigma"},
    "quality_filter": {"dataset": SEGMENTS + "atl06_quality_summary", "value": 0},
}
GREENLAND: dict[str, Any] = {
    "type": "rectilinear",
    "crs": "EPSG:3413",
    "resolution": 500,
    "bounds": [-256000, -2304000, 0, -1920000],
    "chunk_shape": [256, 256],
    "chunk_inner": [64, 64],
    "sharded": True,
}
PAGE_HEALPIX: dict[str, Any] = {
    "type": "healpix",
    "parent_order": 8,
    "child_order": 19,
    "chunk_inner": 13,
    "sharded": True,
}
PAGE_RECTILINEAR: dict[str, Any] = {
    "type": "rectilinear",
    "crs": "EPSG:3031",
    "resolution": 5000,
    "bounds": [-3200000, -3200000, 3200000, 3200000],
    "chunk_shape": [256, 256],
    "chunk_inner": [64, 64],
    "sharded": True,
}
HEIGHTS: dict[str, Any] = {
    "count": {"function": "count"},
    "h_mean": {"function": "mean", "source": "h_li", "dtype": "float64"},
}


def healpix(
    parent: int, inner: int | None, child: int, ellipsoid: str = "WGS84", **more: Any
) -> dict[str, Any]:
    keys = {
        "type": "healpix",
        "parent_order": parent,
        "child_order": child,
        "ellipsoid": ellipsoid,
        "sharded": True,
    }
    return {**keys, **({} if inner is None else {"chunk_inner": inner}), **more}


def configuration(
    grid: dict[str, Any],
    variables: dict[str, Any] | None = None,
    source: dict[str, Any] | None = None,
    **execution: Any,
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "aggregation": {"variables": variables or {"count": {"function": "count"}}},
        "output": {"grid": grid},
        "execution": {"engine": "serial", "durability": "rename", **execution},
    }
    if source is not None:
        made["data_source"] = source
    return copy.deepcopy(made)


@lru_cache(maxsize=1)
def segments() -> dict[str, np.ndarray[Any, Any]]:
    """The ATL06 segments of good quality, read with h5py alone, in the order of files and beams."""
    import h5py

    found: dict[str, list[Any]] = {"longitude": [], "latitude": [], "h_li": [], "h_li_sigma": []}
    for path in sorted(SAMPLES.glob("ATL06_*.h5")):
        with h5py.File(path) as file:
            for beam in BEAMS:
                if beam not in file:
                    continue
                group = file[beam]["land_ice_segments"]
                good = group["atl06_quality_summary"][:] == 0
                for name, parts in found.items():
                    parts.append(group[name][:][good])
    return {name: np.concatenate(parts) for name, parts in found.items()}


def objects(folder: Path) -> dict[str, bytes]:
    """Every stored object of a folder, by its path in it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".__lock")
    }


def shard_objects(folder: Path, array: str) -> dict[str, bytes]:
    """The stored objects of one array of the only group."""
    return {key: value for key, value in objects(folder).items() if f"/{array}/c/" in key}


@dataclass(frozen=True)
class DieOnce:
    """Ends the worker's process, the first time it is about to write this shard."""

    shard: int
    marker: str

    def __call__(self, shard: int) -> None:
        if shard == self.shard:
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class DieAlways:
    """Ends the worker's process whenever it is about to write this shard."""

    shard: int

    def __call__(self, shard: int) -> None:
        if shard == self.shard:
            os.kill(os.getpid(), signal.SIGKILL)
