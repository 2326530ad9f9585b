"""A training loop over a sharded volume: random crops by worker processes, whole shards in random order, a small model.

With PyTorch a convolution is trained, by `torch.utils.data.DataLoader`; without it numpy trains the same one, in this
process. What is behind it: docs/training.md.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import terrazzo

try:
    import torch
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info
except ImportError:
    torch = None  # type: ignore[assignment]

SHAPE, CHUNKS, SHARDS, CROP = (96, 96, 96), (16, 16, 16), (48, 48, 48), (20, 20, 20)


class Crops:
    """Boxes of one size at random places of an array, by number: the same number is the same box, in every worker.

    n: how many numbers there are; far more than an epoch draws, so that no two epochs are alike.
    """

    def __init__(self, array: terrazzo.Array, size: tuple[int, ...], n: int, seed: int = 0) -> None:
        self.array, self.size, self.n, self.seed = array, size, n, seed

    def __len__(self) -> int:
        return self.n

    def box(self, number: int) -> tuple[slice, ...]:
        dice = np.random.default_rng((self.seed, number))
        starts = [dice.integers(0, n - size + 1) for n, size in zip(self.array.shape, self.size, strict=True)]
        return tuple(slice(start, start + size) for start, size in zip(starts, self.size, strict=True))

    def __getitem__(self, number: int) -> np.ndarray:
        return self.array[self.box(number)]

    def __getitems__(self, numbers: Sequence[int]) -> np.ndarray:
        """A batch: all boxes are read at once, each into its place."""
        batch = np.empty((len(numbers), *self.size), self.array.dtype)
        self.array.read_many([self.box(number) for number in numbers], out=list(batch))
        return batch


class Shards(object if torch is None else IterableDataset):  # type: ignore[misc]
    """Every box of an array once for each epoch: the shards in random order, dealt to the workers, each read whole."""

    def __init__(self, array: terrazzo.Array, size: tuple[int, ...], seed: int = 0) -> None:
        self.array, self.size, self.seed, self.epoch = array, size, seed, 0

    def __iter__(self) -> Iterator[np.ndarray]:
        info = None if torch is None else get_worker_info()
        # all workers draw one order, and a new one for every epoch, whether they stay between epochs or not
        common = (self.seed, self.epoch) if info is None else (self.seed, self.epoch, info.seed - info.id)
        self.epoch += 1
        dice = np.random.default_rng(common)
        shards = dice.permutation(list(product(*map(range, self.array.shard_grid_shape))))
        for shard in shards if info is None else shards[info.id :: info.num_workers]:
            values = self.array.blocks[tuple(map(int, shard))]
            starts = product(*(range(0, n, size) for n, size in zip(values.shape, self.size, strict=True)))
            for start in dice.permutation(list(starts)):
                # a copy: a view would carry its whole shard along
                yield values[tuple(slice(s, s + n) for s, n in zip(start, self.size, strict=True))].copy()


def pour(folder: Path) -> terrazzo.Array:
    """A volume of smooth noise, in shards."""
    dice = np.random.default_rng(1)
    values = dice.normal(size=SHAPE).astype("f4")
    for axis in range(3):
        values = (values + np.roll(values, 1, axis) + np.roll(values, 2, axis)) / np.float32(3)
    return terrazzo.create_array(
        folder / "volume.zarr", data=values, chunks=CHUNKS, shards=SHARDS, overwrite=True
    )


def with_torch(crops: Crops, shards: Shards, workers: int) -> float:
    """Learn the mean of a voxel's 27 neighbours; the loss at the end."""
    model = torch.nn.Conv3d(1, 1, 3, bias=False)
    wanted = torch.full((1, 1, 3, 3, 3), 1 / 27)
    descent = torch.optim.Adam(model.parameters(), lr=0.02)
    # with replacement: a permutation of all numbers would be a list of them
    drawn = torch.utils.data.RandomSampler(crops, replacement=True, num_samples=256)
    loader = DataLoader(
        crops,  # type: ignore[arg-type]
        batch_size=16,
        sampler=drawn,
        num_workers=workers,
        persistent_workers=workers > 0,
        collate_fn=torch.from_numpy,  # the batch is one array already
    )
    loss = torch.zeros(())
    for epoch in range(4):
        for batch in loader:
            seen = batch[:, None]
            loss = torch.nn.functional.mse_loss(model(seen), torch.nn.functional.conv3d(seen, wanted))
            descent.zero_grad()
            loss.backward()
            descent.step()
        print(f"epoch {epoch}: loss {loss.item():.5f}")
    whole = DataLoader(shards, batch_size=9, num_workers=workers)
    with torch.no_grad():
        seen = torch.cat([batch[:, None] for batch in whole])
        loss = torch.nn.functional.mse_loss(model(seen), torch.nn.functional.conv3d(seen, wanted))
    return float(loss)


def with_numpy(crops: Crops, shards: Shards) -> float:
    """The same, by gradients written out."""
    weights, wanted = np.random.default_rng(0).normal(size=27) / 5, np.full(27, 1 / 27)

    def neighbours(batch: np.ndarray) -> Any:
        return np.lib.stride_tricks.sliding_window_view(batch, (3, 3, 3), (1, 2, 3)).reshape(-1, 27)

    drawn = np.random.default_rng(2)
    loss = 0.0
    for epoch in range(4):
        for _ in range(16):
            seen = neighbours(crops.__getitems__(drawn.integers(0, len(crops), 16)))
            away = seen @ (weights - wanted)
            loss = float((away**2).mean())
            weights -= 4 * (away @ seen) / len(seen)
        print(f"epoch {epoch}: loss {loss:.5f}")
    return float(np.mean([((neighbours(box[None]) @ (weights - wanted)) ** 2).mean() for box in shards]))


def main(folder: str, workers: int = 2) -> float:
    array = terrazzo.open_array(pour(Path(folder)).store_path, mode="r")
    crops, shards = Crops(array, CROP, n=1 << 30), Shards(array, CHUNKS)
    loss = with_numpy(crops, shards) if torch is None else with_torch(crops, shards, workers)
    print(f"the whole volume: loss {loss:.5f}, by {'numpy' if torch is None else 'PyTorch'}")
    return loss


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="where the volume is put; a temporary folder by default")
    parser.add_argument("workers", nargs="?", type=int, default=2, help="processes that read (2)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        main(asked.folder or scratch, asked.workers)
