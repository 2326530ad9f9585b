"""Engines: where tasks run. Serial, threads, processes, any Executor; Dask, Lithops and Ray behind the same few verbs.

What it does not do: retry, count or order tasks (run.py does).
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from terrazzo.gridding.errors import GridConfigError
from terrazzo.gridding.optional import required

__all__ = ["Engine", "engine_from"]


class Engine(ABC):
    """Runs calls somewhere else. `window`: how many calls may be waiting or running at a time."""

    name = "engine"
    window = 8
    #: whether a call's threads compete with those of others in this process
    shares_process = False

    #: the module whose `dumps` and `loads` carry calls to other processes; None where calls stay in this one
    pickler: str | None = None

    @abstractmethod
    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Start a call."""

    def check(self, arrive: Callable[[Any], Any], what: Any) -> None:
        """Raise GridConfigError where `what` cannot be sent to a worker, and whatever `arrive(what)` raises there."""
        if self.pickler is None:
            return
        pickler = importlib.import_module(self.pickler)
        try:
            pickler.dumps(what)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise GridConfigError(
                f"the engine {self.name} sends work to other processes, and this cannot be sent: {error}; use "
                "functions that can be imported, or the engine threads"
            ) from None
        self.submit(arrive, what).result()

    def restart(self) -> None:
        """Get new workers after some were lost; calls in flight are lost with them."""

    def close(self) -> None:
        """Let running calls end, and give everything back."""


class Serial(Engine):
    name, window = "serial", 1

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


class Pool(Engine):
    """Any `concurrent.futures.Executor`; one that is made here is closed here."""

    def __init__(self, name: str, make: Callable[[], Executor], workers: int, owned: bool = True) -> None:
        self.name = name
        self.window = 2 * workers
        self.shares_process = name == "threads"
        self._make, self._owned = make, owned
        self._executor = make()
        self.pickler = "pickle" if isinstance(self._executor, ProcessPoolExecutor) else None

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        if self.pickler is None:
            return self._executor.submit(function, *arguments)
        # as bytes: what cannot be opened over there is an error of the call, not the end of the worker
        return self._executor.submit(_carried, pickle.dumps((function, arguments)))

    def check(self, arrive: Callable[[Any], Any], what: Any) -> None:
        try:
            super().check(arrive, what)
        except BrokenProcessPool as error:
            raise GridConfigError(
                f"the engine {self.name} lost its workers before any of them did anything: {error} In a script, put "
                'what runs the engine below `if __name__ == "__main__":`, since every worker imports the script anew; '
                "or use the engine threads"
            ) from error

    def restart(self) -> None:
        if self._owned:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = self._make()

    def close(self) -> None:
        if self._owned:
            self._executor.shutdown(wait=True, cancel_futures=True)


class Dask(Engine):
    """A `distributed.Client`: given, found at an address, or made with local processes."""

    name, pickler = "dask", "cloudpickle"

    def __init__(self, client: Any = None, workers: int | None = None, address: str | None = None) -> None:
        distributed = required("distributed", "the engine dask", "dask")
        self._owned = client is None
        if client is None:
            if address is not None:
                client = distributed.Client(address)
            else:
                client = distributed.Client(
                    n_workers=workers or _cpus(), threads_per_worker=1, dashboard_address=None
                )
        self.client = client
        self._executor = client.get_executor(pure=False)
        self.window = 4 * max(1, sum(client.nthreads().values()))

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = self._executor.submit(function, *arguments)
        return future

    def close(self) -> None:
        if self._owned:
            self.client.close()
            if self.client.cluster is not None:
                self.client.cluster.close()


class Threaded(Engine):
    """A library whose calls are waited for: each call in flight has a thread here that waits."""

    pickler = "cloudpickle"

    def __init__(self, workers: int) -> None:
        self.window = workers
        self._waiting = ThreadPoolExecutor(workers)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self._waiting.submit(self.call, function, *arguments)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        raise TypeError("an engine says how a call is made")

    def close(self) -> None:
        self._waiting.shutdown(wait=True, cancel_futures=True)


class Ray(Threaded):
    """Ray: a cluster that is connected already, one at an address, or one that is started here."""

    name, pickler = "ray", "ray.cloudpickle"

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        self.ray = required("ray", "the engine ray", "ray")
        self._owned = not self.ray.is_initialized()
        if self._owned:
            self.ray.init(address=address, num_cpus=workers, include_dashboard=False, log_to_driver=False)
        super().__init__(max(1, int(self.ray.cluster_resources().get("CPU", 1))) * 2)
        self._remote = self.ray.remote(max_retries=0)(_apply)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.ray.get(self._remote.remote(function, *arguments))

    def close(self) -> None:
        super().close()
        if self._owned:
            self.ray.shutdown()


class Lithops(Threaded):
    """A `lithops.FunctionExecutor`. Its local workers are started as `python`: the one on PATH has to have terrazzo."""

    name = "lithops"

    def __init__(self, executor: Any = None, workers: int | None = None) -> None:
        lithops = required("lithops", "the engine lithops", "lithops")
        self._owned = executor is None
        self.executor = lithops.FunctionExecutor() if executor is None else executor
        super().__init__(workers or 64)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        future = self.executor.call_async(_apply_all, {"function": function, "arguments": arguments})
        return self.executor.get_result(future)

    def close(self) -> None:
        super().close()
        if self._owned:
            self.executor.clean()


def _carried(text: bytes) -> Any:
    function, arguments = pickle.loads(text)
    return function(*arguments)


def _apply(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _apply_all(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return function(*arguments)


def engine_from(what: Any, workers: int | None = None, address: str | None = None) -> Engine:
    """The engine that `what` names or is: a name, an Engine, an Executor, a Dask client, a Lithops executor."""
    if isinstance(what, Engine):
        return what
    if isinstance(what, Executor):
        count = workers or getattr(what, "_max_workers", None) or _cpus()
        return Pool(type(what).__name__, lambda: what, count, owned=False)
    count = workers or _cpus()
    match what:
        case "serial":
            return Serial()
        case "threads":
            return Pool("threads", lambda: ThreadPoolExecutor(count, "terrazzo-grid"), count)
        case "processes":
            # not fork: a child of a process with threads may inherit a lock that nobody will open
            context = multiprocessing.get_context("spawn")
            return Pool("processes", lambda: ProcessPoolExecutor(count, mp_context=context), count)
        case "dask":
            return Dask(None, workers, address)
        case "ray":
            return Ray(workers, address)
        case "lithops":
            return Lithops(None, workers)
    module = type(what).__module__.partition(".")[0]
    if module == "distributed" and hasattr(what, "get_executor"):
        return Dask(what)
    if module == "lithops" and hasattr(what, "call_async"):
        return Lithops(what, workers)
    raise GridConfigError(
        f"engine is {what!r}; serial, threads, processes, dask, lithops, ray, a concurrent.futures.Executor, a Dask "
        "client or a Lithops executor are allowed"
    )


def _cpus() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1
