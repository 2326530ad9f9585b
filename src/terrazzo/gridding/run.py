"""A run: from a configuration and points to stored shards, on any engine, with retries, a progress bar and a report.

What it does not do: compute. Few tasks are in flight at a time, so that a plan of any length takes the same memory.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from typing import Any

from terrazzo.errors import ConflictError, HeldError, ReadOnlyError, UnsupportedError
from terrazzo.gridding.configuration import Config, load_config
from terrazzo.gridding.engines import engine_from
from terrazzo.gridding.errors import ShardFailedError
from terrazzo.gridding.inputs import Source, source_from
from terrazzo.gridding.plan import Plan, Task, plan_of
from terrazzo.gridding.planned import add_planned
from terrazzo.gridding.receipts import Receipt
from terrazzo.gridding.template import Template, make_template
from terrazzo.gridding.worker import Job, arrive, make_shard
from terrazzo.progress import Progress, follow

__all__ = ["Report", "run"]

#: what may go away when it is tried again; the rest is the work's own fault
_PASSING = (
    ConnectionError,
    TimeoutError,
    InterruptedError,
    ConflictError,
    HeldError,
    BrokenProcessPool,
    OSError,
)
_LASTING = (FileNotFoundError, PermissionError, ReadOnlyError, UnsupportedError, IsADirectoryError)


@dataclass
class Report:
    """What a run did. points: those that were gridded, in the shards that were made now or are current."""

    shards: int = 0
    written: int = 0
    current: int = 0
    empty: int = 0
    points: int = 0
    cells: int = 0
    chunks: int = 0
    outside: int = 0
    filtered: int = 0
    objects: int = 0
    nbytes: int = 0
    retried: int = 0
    seconds: float = 0.0
    failures: dict[int, tuple[int, str]] = field(default_factory=dict)

    def add(self, receipt: Receipt) -> None:
        self.shards += 1
        self.written += receipt.state == "written"
        self.current += receipt.state == "current"
        self.empty += receipt.state == "empty"
        self.points += receipt.points
        self.cells += receipt.cells
        self.chunks += receipt.chunks
        self.objects += len(receipt.objects)
        self.nbytes += sum(nbytes for nbytes, _ in receipt.objects.values())


def run(
    config: Config | Mapping[str, Any] | str,
    points: Any = None,
    *,
    store: Any = None,
    plan: Plan | None = None,
    engine: Any = None,
    shards: Sequence[int] | None = None,
    longitude: str = "longitude",
    latitude: str = "latitude",
    overwrite: bool = False,
    progress: Progress = None,
    strict: bool = True,
) -> Report:
    """Grid points into shards.

    config: a Config, a mapping, or the path of a YAML or JSON file. points: a table of columns, an iterator of tables,
    a Source, or None for the files of the configuration. store: instead of output.store. plan: one made earlier.
    engine: instead of execution.engine. shards: only these. overwrite: delete the group first.
    strict: raise ShardFailedError where shards failed (after the others are done); else they are in the report.

    Shards that were made from the same points by the same configuration are left as they are.
    """
    checked = as_config(config)
    source = source_from(checked, points, longitude, latitude)
    began = time.monotonic()
    source.check(checked.columns)
    if plan is None:
        plan = plan_of(source, checked.grid, checked.execution.batch_points, shards)
    else:
        plan.check(checked.grid)
        plan = plan.of(source.names)
        plan = plan if shards is None else plan.only(shards, checked.grid)
        source.prepare(checked.grid)
    template = make_template(checked, store, overwrite)
    report = Report(outside=plan.outside, filtered=plan.filtered)
    add_planned(template, plan.shards, checked.execution.durability)
    job = Job(_slim(checked), template)
    dispatch(job, plan, source, engine, report, progress)
    report.seconds = time.monotonic() - began
    if strict and report.failures:
        raise failed(report)
    return report


def _slim(config: Config) -> Config:
    """The configuration as workers need it: the names of all granules would be sent with every task."""
    if config.source is None:
        return config
    return replace(config, source=replace(config.source, files=(), catalog=None))


def as_config(config: Config | Mapping[str, Any] | str) -> Config:
    if isinstance(config, Config):
        return config
    return Config.from_dict(config) if isinstance(config, Mapping) else load_config(config)


def failed(report: Report) -> ShardFailedError:
    some = list(report.failures.items())[:5]
    lines = "; ".join(f"shard {shard} after {tries} attempts: {words}" for shard, (tries, words) in some)
    more = f"; and {len(report.failures) - 5} more" if len(report.failures) > 5 else ""
    done = report.written + report.current + report.empty
    return ShardFailedError(
        f"{len(report.failures)} shards failed, {done} are there: {lines}{more}", report.failures
    )


@dataclass(slots=True)
class _Flight:
    """One attempt at a task."""

    task: Task
    began: float
    reissued: bool = False
    alone: bool = False


def dispatch(
    job: Job, plan: Plan, source: Source, engine: Any, report: Report, progress: Progress = None
) -> None:
    """Run every task of a plan, some at a time, and add what came of them to the report."""
    execution = job.config.execution
    what = engine_from(
        engine if engine is not None else execution.engine, execution.workers, execution.address
    )
    tasks = iter(plan)
    again: deque[Task] = deque()
    suspects: deque[Task] = (
        deque()
    )  # in flight when a process died: run one by one, so that the culprit is found
    tries: dict[int, int] = {}
    flights: dict[Future[Receipt], _Flight] = {}
    done: set[int] = set()  # only shards that were given to two workers
    columns = job.config.columns
    sent = _for(job, what.shares_process)

    def launch(task: Task, reissued: bool = False, alone: bool = False) -> None:
        part = source.part(task.shard, task.granules, columns)
        try:
            future = what.submit(make_shard, sent, task, part)
        except BrokenProcessPool:  # a worker died since the last look; its calls are seen to below
            what.restart()
            future = what.submit(make_shard, sent, task, part)
        flights[future] = _Flight(task, time.monotonic(), reissued, alone)

    try:
        what.check(arrive, sent)
        with follow(progress, len(plan), "shards") as step:
            while True:
                if suspects:
                    if not flights:
                        launch(suspects.popleft(), alone=True)
                else:
                    for task in _next(again, tasks, what.window - len(flights)):
                        launch(task)
                if not flights:
                    break
                ready, _ = wait(flights, timeout=_patience(execution.timeout), return_when=FIRST_COMPLETED)
                for future in ready:
                    flight = flights.pop(future, None)
                    if flight is None:
                        continue  # lost with its pool, and waiting for another turn
                    shard = flight.task.shard
                    if shard in done:
                        continue
                    error = future.exception()
                    twins = [other for other in flights.values() if other.task.shard == shard]
                    if error is None:
                        if twins or flight.reissued:
                            done.add(shard)
                        tries.pop(shard, None)
                        report.add(future.result())
                        step(1)
                        continue
                    if twins:
                        continue  # the other one may still come home
                    if isinstance(error, BrokenProcessPool):
                        lost = [one.task for one in flights.values()]
                        flights.clear()
                        what.restart()
                        if lost or not flight.alone:
                            suspects.extend([flight.task, *lost])
                            report.retried += 1
                            continue
                    tries[shard] = tries.get(shard, 0) + 1
                    if _passes(error) and tries[shard] <= execution.retries:
                        report.retried += 1
                        (suspects if flight.alone else again).append(flight.task)
                        continue
                    report.failures[shard] = (tries[shard], f"{type(error).__name__}: {error}")
                    step(1)
                if execution.timeout is not None:
                    now = time.monotonic()
                    for slow in list(flights.values()):
                        if not slow.reissued and now - slow.began > execution.timeout:
                            slow.reissued = True
                            report.retried += 1
                            launch(slow.task, True)
    finally:
        for future in flights:
            future.cancel()
        what.close()


def _for(job: Job, shares_process: bool) -> Job:
    """The job as workers get it: in this process, many shards at a time, each encodes with one thread."""
    if not shares_process:
        return job

    def narrow(template: Template) -> Template:
        arrays = {name: array.using(threads=1) for name, array in template.arrays.items()}
        return replace(template, arrays=arrays, levels=tuple(map(narrow, template.levels)))

    return replace(job, template=narrow(job.template))


def _next(again: deque[Task], tasks: Iterator[Task], most: int) -> Iterator[Task]:
    for _ in range(most):
        if again:
            yield again.popleft()
            continue
        task = next(tasks, None)
        if task is None:
            return
        yield task


def _patience(timeout: float | None) -> float | None:
    return None if timeout is None else min(1.0, timeout / 4)


def _passes(error: BaseException) -> bool:
    return isinstance(error, _PASSING) and not isinstance(error, _LASTING)
