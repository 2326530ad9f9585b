"""A manifest: an inventory in a local file, so that it need not be found again, and tells when it is out of date.

What it does not do: execute anything on loading; the file is numpy's `.npz`, without pickled objects.
"""

from __future__ import annotations

import json
import os
from os import PathLike
from typing import Any
from zipfile import BadZipFile

import numpy as np

from terrazzo.inventory.table import Inventory

__all__ = ["load", "save"]

FORMAT = "terrazzo inventory 1"
COLUMNS = {"chunks": "int64", "object": "int64", "offset": "uint64", "nbytes": "uint64"}
OBJECTS = {"sizes": "int64", "dead": "int64", "tags": "uint64"}


def save(inventory: Inventory, path: str | PathLike[str]) -> None:
    """Write the file, whole or not at all."""
    words: dict[str, Any] = {
        "format": FORMAT,
        "name": inventory.name,
        "shape": inventory.shape,
        "itemsize": inventory.itemsize,
        "box": inventory.box,
        "edges": [edge if isinstance(edge, int) else edge.tolist() for edge in inventory.edges],
        "document": inventory.document,
        "keys": list(inventory.keys),
    }
    target = os.fspath(path)
    beside = f"{target}.{os.getpid()}.part"
    try:
        with open(beside, "wb") as file:
            np.savez(
                file,
                allow_pickle=False,
                head=np.frombuffer(json.dumps(words).encode(), np.uint8),
                **{name: getattr(inventory, name) for name in [*COLUMNS, *OBJECTS]},
                **({} if inventory.slack is None else {"slack": inventory.slack}),
            )
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise


def load(path: str | PathLike[str]) -> Inventory:
    """Read the file; ValueError where it is no manifest."""
    try:
        with np.load(os.fspath(path), allow_pickle=False) as parts:
            words = json.loads(bytes(parts["head"]))
            kinds = COLUMNS | OBJECTS | ({"slack": "int64"} if "slack" in parts else {})
            columns = {name: parts[name] for name in kinds}
        if words["format"] != FORMAT:
            raise ValueError(f"it says {words['format']!r:.60}")
        shape = tuple(int(n) for n in words["shape"])
        keys = [str(key) for key in words["keys"]]
        for name, kind in kinds.items():
            rows = len(columns["object"]) if name in COLUMNS else len(keys)
            wanted = (rows, len(shape)) if name == "chunks" else (rows,)
            if columns[name].dtype != kind or columns[name].shape != wanted:
                raise ValueError(f"{name} has shape {columns[name].shape} and type {columns[name].dtype}")
        if len(columns["object"]) and not 0 <= columns["object"].min() <= columns["object"].max() < len(keys):
            raise ValueError("a chunk lies in an object that has no key")
        return Inventory(
            name=str(words["name"]),
            shape=shape,
            itemsize=int(words["itemsize"]),
            box=tuple((int(first), int(stop)) for first, stop in words["box"]),
            edges=tuple(e if isinstance(e, int) else np.array(e, np.int64) for e in words["edges"]),
            keys=keys,
            document=int(words["document"]),
            **columns,
        )
    except (BadZipFile, KeyError, TypeError, ValueError, EOFError) as error:
        why = (
            "it is no .npz archive" if "pickle" in str(error) else error
        )  # numpy offers to trust what it cannot read
        raise ValueError(f"{os.fspath(path)!r} is not a manifest of an inventory: {why}") from error
