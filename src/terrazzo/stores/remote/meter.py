"""What a request costs here, measured while a store is used.

What it does not do: plan. `Store.cost` is what flows plan with.
"""

from __future__ import annotations

from terrazzo.stores.contract import Cost

__all__ = ["Meter"]

#: a network is far, however near its server is in a test
NEAREST = 2e-3
#: bodies below this tell nothing about bandwidth
TELLING_NBYTES = 256 * 1024


class Meter:
    """Moving estimates, made on the loop alone. Latency falls quickly and rises slowly: a request that waited in
    a queue says little."""

    def __init__(self, fixed: Cost | None, requests: int) -> None:
        self._fixed = fixed
        self._requests = requests
        self._latency = 0.03
        self._bandwidth = 100e6

    @property
    def cost(self) -> Cost:
        if self._fixed is not None:
            return self._fixed
        return Cost(max(NEAREST, self._latency), self._bandwidth, True, self._requests)

    def answered(self, seconds: float) -> None:
        """After the first byte of an answer."""
        weight = 0.5 if seconds < self._latency else 0.05
        self._latency += weight * (seconds - self._latency)

    def read(self, nbytes: int, seconds: float) -> None:
        """After a body."""
        if nbytes < TELLING_NBYTES:
            return
        found = min(max(nbytes / max(seconds, 1e-6), 1e6), 1e10)
        self._bandwidth += 0.2 * (found - self._bandwidth)
