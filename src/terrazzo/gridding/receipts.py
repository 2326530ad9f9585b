"""Receipts: one small object per shard that says what it was made from, and which objects it has; written last.

What it does not do: hold a time or a name of a machine: the same work makes the same receipt, byte for byte.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from terrazzo.errors import StoreError
from terrazzo.options import Durability
from terrazzo.stores.store import Hold, Put, Store

__all__ = [
    "Receipt",
    "current",
    "describe_objects",
    "put_object",
    "read_receipt",
    "receipt_key",
    "write_receipt",
]

#: below the group; no name of a node begins with two underscores, so that this is never one
FOLDER = "__receipts"


@dataclass(frozen=True)
class Receipt:
    """What became of a shard. objects: key -> (bytes, CRC-32 or None). state: "written", "current" or "empty"."""

    shard: int
    inputs: str
    config: str
    points: int
    cells: int
    chunks: int = 0
    objects: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    state: str = "written"


def receipt_key(group: str, shard: int) -> str:
    return "/".join(filter(None, (group, FOLDER, f"{shard}.json")))


def write_receipt(store: Store, group: str, receipt: Receipt, durability: Durability = "fsync") -> None:
    text = json.dumps(
        {
            "version": 1,
            "shard": receipt.shard,
            "inputs": receipt.inputs,
            "config": receipt.config,
            "points": receipt.points,
            "cells": receipt.cells,
            "chunks": receipt.chunks,
            "objects": {key: list(value) for key, value in sorted(receipt.objects.items())},
        },
        indent=1,
    )
    with store.hold(receipt_key(group, receipt.shard)) as hold:
        put_object(store, hold, text.encode(), durability)


def put_object(store: Store, hold: Hold, text: bytes, durability: Durability) -> None:
    """Replace a small object that is held."""
    sink = store.sink(hold)
    try:
        sink.write(0, text)
        store.commit([Put(hold, sink)], durability)
    finally:
        sink.discard()


def read_receipt(store: Store, group: str, shard: int) -> Receipt | None:
    """The receipt of a shard; None where there is none, or none that can be read."""
    text = store.get(receipt_key(group, shard))
    if text is None:
        return None
    try:
        given: dict[str, Any] = json.loads(bytes(text))
        objects = {str(key): (int(nbytes), crc) for key, (nbytes, crc) in given["objects"].items()}
        return Receipt(
            int(given["shard"]),
            str(given["inputs"]),
            str(given["config"]),
            int(given["points"]),
            int(given["cells"]),
            int(given["chunks"]),
            objects,
            "current",
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def current(store: Store, receipt: Receipt | None, inputs: str, config: str) -> bool:
    """Whether a shard was made from the same points by the same configuration, and its objects are there."""
    if receipt is None or receipt.inputs != inputs or receipt.config != config:
        return False
    return all(store.getsize(key) == nbytes for key, (nbytes, _) in receipt.objects.items())


def describe_objects(store: Store, keys: Iterable[str], checksums: bool) -> dict[str, tuple[int, int | None]]:
    """Bytes and CRC-32 of the objects among `keys` that are there, as they were stored."""
    found: dict[str, tuple[int, int | None]] = {}
    for key in keys:
        nbytes = store.getsize(key)
        if nbytes is not None:
            found[key] = (nbytes, checksum(store, key, nbytes) if checksums else None)
    return found


def checksum(store: Store, key: str, nbytes: int, step: int = 8 << 20) -> int:
    """The CRC-32 of an object, read a piece at a time."""
    crc = 0
    for start in range(0, nbytes, step):
        (part,) = store.get_partial_values([(key, (start, min(step, nbytes - start)))])
        if part is None:
            raise StoreError(f"{key!r} went away while it was read back")
        crc = zlib.crc32(part, crc)
    return crc
