"""The map of an array shows which shards are there, and how full."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import terrazzo
from terrazzo.care.presence import presence_map
from terrazzo.stores.memory import MemoryStore


def test_counts_of_a_sharded_array() -> None:
    array = terrazzo.create_array(
        MemoryStore(), shape=(40, 60), dtype="i1", chunks=(5, 5), shards=(10, 20), dimension_names=["y", "x"]
    )
    array[:10, :20] = 1
    array[22, 41] = 1
    found = presence_map(array)
    assert found.counts.tolist() == [[8, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]] and found.most == 8
    assert str(found).splitlines() == [
        "shards of /",
        "|@  |",
        "|   |",
        "|  :|",
        "|   |",
        "2 of 12 stored, 9 of 96 chunks; a character is 1 × 1, @ all of it",
    ]
    ElementTree.fromstring(found.svg())
    assert found._repr_html_() == found.svg()
    assert found.png().startswith(b"\x89PNG")
    assert presence_map(array, np.s_[20:30, 40:]).counts.tolist() == [[1]]


@pytest.mark.parametrize("shape", [(), (7,), (3, 4, 5)])
def test_any_number_of_dimensions(shape: tuple[int, ...]) -> None:
    array = terrazzo.create_array(MemoryStore(), shape=shape, dtype="i1", chunks=(2,) * len(shape))
    array[...] = 1
    found = presence_map(array)
    assert found.counts.min() == 1 and found.counts.shape == array.shard_grid_shape
    ElementTree.fromstring(found.svg())
    assert found.png() and "chunks of /" in str(found)


def test_too_many_for_a_picture() -> None:
    array = terrazzo.create_array(MemoryStore(), shape=(10**6, 10**6), dtype="i1", chunks=(10, 10))
    with pytest.raises(ValueError, match="too many for a picture"):
        presence_map(array)
    assert presence_map(array, np.s_[:100, :100]).counts.shape == (10, 10)
