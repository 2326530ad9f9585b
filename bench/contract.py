"""The contract of what is measured: an array, opened by some library, that is read and written by boxes.

What it does not do: know any library (libraries.py, floor.py).
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from volumes import Box, slices


class Lacking(Exception):
    """This library cannot do what the question asks."""


class Library:
    """One library with one array open. `syncs`: whether it can make a write durable before it returns."""

    label = ""
    packages: tuple[str, ...] = ()
    syncs = False
    sync = False  # whether writes of this run are to be durable

    def __init__(self, path: str, mode: str) -> None:
        raise NotImplementedError

    def read(self, box: Box) -> Any:
        return self.array[slices(box)]

    def write(self, box: Box, value: np.ndarray) -> None:
        self.array[slices(box)] = value

    def read_chunk(self, box: Box) -> Any:
        """One whole chunk (an inner one where there are shards)."""
        return self.read(box)

    def read_many(self, boxes: list[Box], *, chunks: bool) -> list[Any]:
        """Many pieces at once, by the best call for that; otherwise by threads."""
        one = self.read_chunk if chunks else self.read
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(one, boxes))
