"""A training program one of whose workers is killed: `python -m tests.training.killed METHOD ADDRESS OPTIONS`.

A process of its own, since torch tells of a killed worker by a signal, wherever the program is then.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

import terrazzo
from examples.training import Crops, Shards

__all__ = ["FATAL", "Killed"]

FATAL = 13


class Killed(Crops):
    """The worker that draws one of the boxes is killed."""

    def __getitem__(self, number: int) -> Any:
        if number == FATAL:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(number)

    __getitems__: Any = None  # torch asks for one box after the other then


def main(method: str, address: str, options: str) -> None:
    array = terrazzo.open_array(address, mode="r", storage_options=json.loads(options))
    whole = array.using(threads=3)[...]
    told = ""
    try:
        for _ in DataLoader(
            Killed(array, (9, 8, 7), 30), batch_size=2, num_workers=2, multiprocessing_context=method
        ):
            pass
    except (RuntimeError, OSError, EOFError) as error:  # not the first where a batch of it was on its way
        told = f"{type(error).__name__}: {error}"
    again = DataLoader(Shards(array, (8, 8, 8)), num_workers=2, multiprocessing_context=method)
    boxes = sum(len(batch) for batch in again)
    print(json.dumps([told, boxes, bool(np.array_equal(array[...], whole))]))


if __name__ == "__main__":
    main(*sys.argv[1:])
