"""Progress of long work: one number going up to another, told to a callable or drawn as a bar in a terminal.

What it does not do: decide what is counted; the work that takes `progress=` says whether it counts bytes or objects.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TextIO

__all__ = ["Progress", "Step", "follow"]

#: called as progress(done, total); True draws a bar where standard error is a terminal; None and False are silent
Progress = Callable[[int, int], None] | bool | None
#: called with how much was done since the last call
Step = Callable[[int], None]


@contextmanager
def follow(progress: Progress, total: int, words: str) -> Iterator[Step]:
    """A function to call with how much was done; `words` stand in front of a bar.

    A callable hears of the start (0, total), of every step, and of nothing else; what it raises ends the work.
    """
    if progress is None or progress is False:
        yield lambda done: None
    elif callable(progress):
        report: Callable[[int, int], None] = progress
        reached = 0

        def tell(done: int) -> None:
            nonlocal reached
            reached += done
            report(reached, total)

        report(0, total)
        yield tell
    elif not _is_terminal(sys.stderr):
        yield lambda done: None
    elif find_spec("rich") is not None:
        with _rich_bar(total, words) as step:
            yield step
    else:
        with _plain_bar(total, words, sys.stderr) as step:
            yield step


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def _rich_bar(total: int, words: str) -> Iterator[Step]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(words, total=max(total, 1))
        yield lambda done: bars.advance(task, done)


@contextmanager
def _plain_bar(total: int, words: str, stream: TextIO) -> Iterator[Step]:
    reached, shown = 0, -1.0

    def step(done: int) -> None:
        nonlocal reached, shown
        reached += done
        now = time.monotonic()
        if now - shown < 0.1 and reached < total:  # a terminal is slow: ten pictures a second are enough
            return
        shown = now
        share = min(1.0, reached / total) if total else 1.0
        filled = int(share * 30)
        stream.write(f"\r{words} [{'#' * filled}{'.' * (30 - filled)}] {share:4.0%}")
        stream.flush()

    try:
        yield step
    finally:
        if shown >= 0:
            stream.write("\r" + " " * (len(words) + 40) + "\r")
            stream.flush()
