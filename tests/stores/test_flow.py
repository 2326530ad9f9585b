"""Flows: driven by hand, by `run` and by `run_async`; errors reach them, and they can clean up."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from terrazzo.errors import HeldError, StoreError
from terrazzo.stores.contract import ALL, Open, Put
from terrazzo.stores.flow import (
    Committing,
    Erasing,
    Fetching,
    Holding,
    Listing,
    Opening,
    Recovering,
    Sinking,
    Working,
    run,
    run_async,
)
from terrazzo.stores.memory import MemoryStore


def increment(key: str, by: int = 1) -> Any:
    (hold,) = yield Holding([key], [ALL])
    try:
        value = int(bytes(hold.source.first)) if hold.source else 0
        (sink,) = yield Sinking([hold])
        sink.write(0, str(value + by).encode())
        yield Committing([Put(hold, sink)], "none")
    finally:
        hold.release()
    return value + by


def drive(flow: Any, store: Any, driver: str) -> Any:
    return run(flow, store) if driver == "run" else asyncio.run(run_async(flow, store))


both = pytest.mark.parametrize("driver", ["run", "run_async"])


@both
def test_answers_and_result(driver: str) -> None:
    store = MemoryStore()
    assert [drive(increment("a"), store, driver) for _ in range(3)] == [1, 2, 3]
    store.set("b/c", b"0123")

    def look() -> Any:
        listed = yield Listing(["", "b/"])
        sources = yield Opening([Open("b/c", (0, 1)), Open("x")])
        parts = yield Fetching([(sources[0], [(1, 2)])])
        mended = yield Recovering(["b/c"])
        worked = yield Working(threading.get_ident)
        yield Erasing(["b/"])
        return listed, sources[1], bytes(parts[0][0]), mended, worked

    listed, absent, part, mended, worked = drive(look(), store, driver)
    assert listed == [(["a"], ["b/"]), (["b/c"], [])]
    assert (absent, part, mended) == (None, b"12", [False])
    assert (worked == threading.get_ident()) == (driver == "run")
    assert list(store.list()) == ["a"]


def test_a_flow_can_be_answered_by_hand() -> None:
    flow = increment("a")
    assert next(flow) == Holding(["a"], [ALL])
    flow.close()


@both
def test_an_error_is_raised_at_the_yield(driver: str) -> None:
    seen = []

    def failing() -> Any:
        try:
            yield Working(lambda: 1 // 0)
        except ZeroDivisionError as error:
            seen.append(error)
        try:
            yield Opening([Open("../a")])
        except StoreError as error:
            seen.append(error)
        return (yield Working(lambda: "went on"))

    assert drive(failing(), MemoryStore(), driver) == "went on"
    assert len(seen) == 2


@both
def test_an_error_that_is_not_caught_passes_through(driver: str) -> None:
    ended = []

    def failing() -> Any:
        (hold,) = yield Holding(["a"])
        try:
            yield Working(lambda: {}["x"])
        finally:
            hold.release()
            ended.append(True)

    store = MemoryStore()
    with pytest.raises(KeyError):
        drive(failing(), store, driver)
    assert ended == [True]
    store.hold("a", timeout=0).release()


@both
def test_holds_are_all_or_none(driver: str) -> None:
    store = MemoryStore()

    def greedy(keys: list[str], timeout: float | None = None) -> Any:
        holds = yield Holding(keys, timeout=timeout)
        keys = [hold.key for hold in holds]
        for hold in holds:
            hold.release()
        return keys

    assert drive(greedy(["c", "a", "b"]), store, driver) == ["c", "a", "b"]
    with pytest.raises(StoreError, match="twice"):
        drive(greedy(["a", "a"]), store, driver)
    with store.hold("b"), pytest.raises(HeldError):
        drive(greedy(["a", "b"], timeout=0.01), store, driver)
    store.hold("a", timeout=0).release()


def test_many_flows_that_wait_do_not_use_up_the_threads() -> None:
    store = MemoryStore()

    async def everybody() -> None:
        await asyncio.gather(*(run_async(increment("n"), store) for _ in range(60)))

    asyncio.run(everybody())
    assert store.get("n") == b"60"


def test_a_cancelled_flow_ends_its_request_and_releases() -> None:
    store = MemoryStore()
    started, go = threading.Event(), threading.Event()
    written = []

    def slow() -> None:
        started.set()
        go.wait(10)
        written.append(True)

    def flow() -> Any:
        (hold,) = yield Holding(["a"])
        try:
            yield Working(slow)
            written.append("never")
        finally:
            hold.release()

    async def cancelled() -> None:
        task = asyncio.ensure_future(run_async(flow(), store))
        while not started.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()  # the request is still in its thread
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert written == [True]
    store.hold("a", timeout=0).release()


def test_an_answer_that_nobody_takes_is_given_up() -> None:
    class Slow(MemoryStore):
        def hold(self, *args: Any, **kwargs: Any) -> Any:
            hold = super().hold(*args, **kwargs)
            held.set()
            go.wait(10)
            return hold

    store, held, go = Slow(), threading.Event(), threading.Event()

    async def cancelled() -> None:
        task = asyncio.ensure_future(run_async(increment("a"), store))
        while not held.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    store.hold("a", timeout=0).release()
    assert list(store.list()) == []
