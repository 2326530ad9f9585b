"""Holds are given back whatever interrupts a write."""

from __future__ import annotations

from typing import Any

import pytest

from terrazzo.write.held import given_back


class Told:
    """A hold, or a new object; interrupted while it is given up."""

    def __init__(self, ends: bool = True) -> None:
        self.ends, self.given = ends, False

    def release(self) -> None:
        self.given = True
        if not self.ends:
            raise KeyboardInterrupt

    discard = release


def test_every_hold_is_given_back_whatever_interrupts_that() -> None:
    holds: list[Any] = [Told(), Told(ends=False), Told()]
    sinks: list[Any] = [Told(), Told(ends=False)]
    with pytest.raises(KeyboardInterrupt):
        with given_back(holds, sinks):
            raise ValueError("what was wrong with the write")
    assert all(one.given for one in holds + sinks)
