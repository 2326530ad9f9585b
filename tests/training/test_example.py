"""The program of docs/training.md learns what it should, with PyTorch where it is installed and with numpy alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import terrazzo
from examples import training


def test_with_numpy_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "torch", None)
    assert training.main(str(tmp_path)) < 0.001


def test_with_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert training.main(str(tmp_path), workers=2) < 0.01


def test_every_box_of_an_epoch_comes_once_in_a_new_order(tmp_path: Path) -> None:
    values = np.arange(8 * 12, dtype="i4").reshape(8, 12)
    array = terrazzo.create_array(tmp_path / "a", data=values, chunks=(2, 2), shards=(4, 6))
    shards = training.Shards(array, (2, 3))
    epochs = [[tuple(box.ravel()) for box in shards] for _ in range(2)]
    boxes = {tuple(values[i : i + 2, j : j + 3].ravel()) for i in range(0, 8, 2) for j in range(0, 12, 3)}
    assert epochs[0] != epochs[1]
    assert all(len(epoch) == len(boxes) and set(epoch) == boxes for epoch in epochs)


def test_a_number_is_a_box(tmp_path: Path) -> None:
    values = np.arange(8 * 12, dtype="i4").reshape(8, 12)
    crops = training.Crops(terrazzo.create_array(tmp_path / "a", data=values), (8, 5), 10)
    assert len(crops) == 10
    batch = crops.__getitems__([3, 1, 3])
    np.testing.assert_array_equal(batch, np.stack([crops[3], crops[1], crops[3]]))
    np.testing.assert_array_equal(crops[3], values[crops.box(3)])
    assert len({crops.box(number)[1].start for number in range(10)}) > 3
