"""The last zarr-python with the 2022 draft, as a program: reads what we wrote, or writes what we read.

usage: python draft_peer.py read|write FOLDER     (environment of requirements/draft.txt)

read: every array of FOLDER/v2 and FOLDER/draft is saved as FOLDER/<store>-<name>.npy.
write: the same hierarchies are made, with the same arrays in them, from FOLDER/<name>.npy.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

os.environ["ZARR_V3_EXPERIMENTAL_API"] = "1"
os.environ["ZARR_V3_SHARDING"] = "1"

import numcodecs
import numpy as np
import zarr
from zarr._storage.v3_storage_transformers import ShardingStorageTransformer


def read(folder: Path) -> None:
    groups = {
        "v2": zarr.open_group(str(folder / "v2"), mode="r", zarr_version=2),
        "draft": zarr.open_group(zarr.DirectoryStoreV3(str(folder / "draft")), mode="r", zarr_version=3),
    }
    for store, group in groups.items():
        for name in group.array_keys():
            np.save(folder / f"{store}-{name}.npy", group[name][...])
        assert dict(group.attrs) == {"title": "ours"}, dict(group.attrs)


def write(folder: Path) -> None:
    compressors: dict[str, Any] = {
        "raw": None,
        "blosc": numcodecs.Blosc("lz4", 5, numcodecs.Blosc.AUTOSHUFFLE),
        "zstd": numcodecs.Zstd(3),
    }
    draft = zarr.DirectoryStoreV3(str(folder / "draft"))
    zarr.group(draft, zarr_version=3).attrs["title"] = "theirs"
    zarr.group(str(folder / "v2"), zarr_version=2).attrs["title"] = "theirs"
    for file in sorted(folder.glob("*.npy")):
        values = np.load(file)
        for label, compressor in compressors.items():
            how = {"chunks": (2, 3), "compressor": compressor, "order": "F" if label == "blosc" else "C"}
            name = f"{file.stem}-{label}"
            zarr.open_group(str(folder / "v2"), mode="a", zarr_version=2).array(name, values, **how)
            for counts in ((), (2, 2)):
                sharding = [ShardingStorageTransformer("indexed", chunks_per_shard=counts)] if counts else []
                path = name + ("-shards" if counts else "")
                array = zarr.create(
                    values.shape,
                    dtype=values.dtype,
                    store=draft,
                    path=path,
                    zarr_version=3,
                    fill_value=0,
                    storage_transformers=sharding,
                    **how,
                )
                array[...] = values


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"read": read, "write": write}[sys.argv[1]](Path(sys.argv[2]))
