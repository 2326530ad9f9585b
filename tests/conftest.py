"""Settings of the whole suite: small numbers of examples, the same ones on every machine, and no time limits."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "suite",
    max_examples=50,
    deadline=None,  # time is watched in bench/, never asserted in a test
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "search", parent=settings.get_profile("suite"), max_examples=2000, derandomize=False
)
settings.load_profile("suite")

# A shell that starts the suite in the background lets it ignore interrupts; so would each process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def services_are_strangers() -> Iterator[None]:
    """Nothing is known of a service from the test before: ports come again, with other servers behind them."""
    yield
    conditions = sys.modules.get("terrazzo.stores.remote.conditions")
    if conditions is not None:
        conditions._verdicts.clear()
