"""The same bytes from every engine, in any order, done twice, with workers that die; failures are tried again."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import terrazzo
from terrazzo.errors import NodeNotFoundError
from terrazzo.gridding import (
    Config,
    GridConfigError,
    Plan,
    Report,
    ShardFailedError,
    make_plan,
    open_grid,
    run,
)
from terrazzo.gridding.engines import Engine, engine_from
from terrazzo.gridding.inputs import FunctionSource, source_from
from terrazzo.gridding.planned import add_planned, read_planned
from terrazzo.gridding.run import dispatch
from terrazzo.gridding.template import make_template
from terrazzo.gridding.worker import Job
from terrazzo.stores.local import LocalStore
from terrazzo.stores.watching import CountingStore
from terrazzo.stores.wrappers import ReadOnlyStore
from tests.gridding.cases import ATL06, HEIGHTS, DieAlways, DieOnce, configuration, healpix, objects, segments

pytest.importorskip("healpix_geo")
pytest.importorskip("h5py")

VARIABLES = {
    **HEIGHTS,
    "median": {"function": "median", "source": "h_li"},
    "lowest": {"expression": "max(floor_)", "resolution": "chunk"},
}


def config_of(**execution: Any) -> dict[str, Any]:
    config = configuration(healpix(6, 9, 12, coordinates="cell_ids"), VARIABLES, ATL06, **execution)
    config["aggregation"]["chunk_precompute"] = {"floor_": {"function": "min", "source": "h_li"}}
    return config


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("serial")
    run(config_of(), store=folder)
    return objects(folder)


class Twice(Engine):
    """Every task twice, the second time after the first."""

    name, window = "twice", 3

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        function(*arguments)
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future


class Anyhow(Engine):
    """Some threads, which start tasks in an order of their own."""

    name, window = "anyhow", 64

    def __init__(self) -> None:
        self.random, self.pool = random.Random(5), ThreadPoolExecutor(3)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        def late() -> Any:
            time.sleep(self.random.random() / 20)
            return function(*arguments)

        return self.pool.submit(late)

    def close(self) -> None:
        self.pool.shutdown()


@pytest.mark.parametrize("engine", ["threads", "processes", Twice, Anyhow, ThreadPoolExecutor])
def test_case_23_the_same_bytes_from_every_engine(
    engine: Any, expected: dict[str, bytes], tmp_path: Path
) -> None:
    what = engine if isinstance(engine, str) else engine()
    resume = engine is not Twice  # so that the second time writes again
    report = run(config_of(resume=resume, workers=2), store=tmp_path, engine=what)
    assert report.shards == 6 and report.points == 22_284
    assert objects(tmp_path) == expected
    if isinstance(what, Executor):
        what.shutdown()


def test_case_23_from_columns_instead_of_files(expected: dict[str, bytes], tmp_path: Path) -> None:
    run({**config_of(), "data_source": None}, segments(), store=tmp_path)
    assert {k: v for k, v in objects(tmp_path).items() if "__receipts" not in k} == {
        k: v for k, v in expected.items() if "__receipts" not in k
    }


def dispatched(config: dict[str, Any], folder: Path, engine: Any, before: Any = None) -> Report:
    checked = Config.from_dict(config)
    source = source_from(checked)
    plan = make_plan(checked, source)
    report, template = Report(), make_template(checked, folder)
    add_planned(template, plan.shards, "rename")
    dispatch(Job(checked, template, before), plan, source, engine, report)
    return report


def test_case_23_a_worker_is_killed(expected: dict[str, bytes], tmp_path: Path) -> None:
    before = DieOnce(16_160, str(tmp_path / "died"))
    report = dispatched(config_of(workers=2), tmp_path / "store", "processes", before)
    assert (tmp_path / "died").exists() and report.retried >= 1 and not report.failures
    assert report.shards == 6 and objects(tmp_path / "store") == expected


def test_a_script_that_runs_the_engine_at_its_top_is_told_so(tmp_path: Path) -> None:
    """Every worker imports it anew, starts an engine in turn, and dies of it."""
    script = tmp_path / "script.py"
    script.write_text(
        "from terrazzo.gridding.engines import engine_from\n"
        "engine = engine_from('processes', 1)\n"
        "engine.check(len, 'abc')\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1 and last.startswith(
        "terrazzo.gridding.errors.GridConfigError: the engine processes"
    )
    assert 'below `if __name__ == "__main__":`' in last
    guarded = script.read_text().replace("engine = ", "if __name__ == '__main__':\n    engine = ")
    script.write_text(guarded.replace("\nengine.check", "\n    engine.check") + "    engine.close()\n")
    assert subprocess.run([sys.executable, script], capture_output=True, timeout=120).returncode == 0


def test_a_shard_that_kills_every_worker_is_found_and_the_others_are_made(
    expected: dict[str, bytes], tmp_path: Path
) -> None:
    report = dispatched(config_of(workers=2, retries=1), tmp_path, "processes", DieAlways(16_160))
    assert list(report.failures) == [16_160] and report.failures[16_160][0] == 2 and report.shards == 5
    stored = objects(tmp_path)
    assert stored == {key: value for key, value in expected.items() if "16160" not in key}


def test_case_23_dask_and_a_worker_that_is_killed(expected: dict[str, bytes], tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        before = DieOnce(16_160, str(tmp_path / "died"))
        report = dispatched(config_of(), tmp_path / "store", client, before)
    assert (tmp_path / "died").exists() and not report.failures
    assert report.shards == 6 and objects(tmp_path / "store") == expected


def test_a_second_run_leaves_everything_as_it_is(expected: dict[str, bytes], tmp_path: Path) -> None:
    run(config_of(), store=tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("c/*")}
    store = CountingStore(LocalStore(tmp_path))
    report = run(config_of(), store=store)
    assert (report.current, report.written, report.points) == (6, 0, 22_284)
    assert store.counts.written_nbytes == 0
    assert times == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("c/*")}
    # a lost object, and a run that ended before its receipt
    lost = tmp_path / "12/count/c/16138"
    lost.unlink()
    (tmp_path / "12/__receipts/16160.json").unlink()
    report = run(config_of(), store=tmp_path)
    assert (report.current, report.written) == (4, 2) and objects(tmp_path) == expected


@pytest.mark.parametrize("sharded", [True, False])
def test_other_points_make_other_shards_and_leave_nothing_behind(sharded: bool, tmp_path: Path) -> None:
    points = segments()
    config = configuration(healpix(6, 9, 12, sharded=sharded), HEIGHTS)
    half = {name: column[::2][:4000] for name, column in points.items()}
    run(config, points, store=tmp_path / "a")
    plan = make_plan(Config.from_dict(config), points)
    second = run(config, half, store=tmp_path / "a", shards=None)
    run(config, half, store=tmp_path / "b")
    touched = make_plan(Config.from_dict(config), half).shards.tolist()
    assert second.written == len(touched) < len(plan)
    whole, fresh = (terrazzo.open_array(tmp_path / name / "12/count", mode="r") for name in "ab")
    for shard in touched:
        part = slice(shard * 4096, (shard + 1) * 4096)
        np.testing.assert_array_equal(whole[part], fresh[part])
        assert len(whole.inventory(part)) == len(fresh.inventory(part))


class Unlucky:
    """Answers the points of a shard, after failing as often as it is told."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times, self.calls = error, times, 0
        self.__module__, self.__qualname__ = "tests", "unlucky"

    def __call__(self, shard: int) -> dict[str, Any]:
        self.calls += 1
        if shard == 7 and self.times > 0:
            self.times -= 1
            raise self.error
        return points_of(shard)


SMALL = configuration(healpix(2, 4, 6), {"v": {"function": "mean", "source": "v"}}, retries=2)


def points_of(shard: int) -> dict[str, Any]:
    grid = Config.from_dict(SMALL).grid
    longitude, latitude = grid.centres(grid.cells_of(shard, np.array([3, 40])))
    return {"longitude": longitude, "latitude": latitude, "v": np.array([1.0, shard])}


def test_what_passes_is_tried_again(tmp_path: Path) -> None:
    function = Unlucky(TimeoutError("slow"), 2)
    report = run(SMALL, FunctionSource(function, [5, 7, 9]), store=tmp_path)
    assert report.retried == 2 and report.written == 3 and function.calls == 5


@pytest.mark.parametrize(("error", "tries"), [(TimeoutError("slow"), 3), (ValueError("wrong"), 1)])
def test_what_stays_wrong_is_said_and_the_others_are_kept(
    error: Exception, tries: int, tmp_path: Path
) -> None:
    source = FunctionSource(Unlucky(error, 99), [5, 7, 9])
    with pytest.raises(
        ShardFailedError, match=f"shard 7 after {tries} attempts: {type(error).__name__}"
    ) as raised:
        run(SMALL, source, store=tmp_path)
    assert list(raised.value.failures) == [7]
    assert {key for key in objects(tmp_path) if "/v/c/" in key} == {"6/v/c/5", "6/v/c/9"}
    report = run(SMALL, FunctionSource(Unlucky(error, 99), [5, 7, 9]), store=tmp_path, strict=False)
    assert report.current == 2 and list(report.failures) == [7]
    again = run(SMALL, FunctionSource(Unlucky(error, 0), [5, 7, 9]), store=tmp_path)
    assert (again.current, again.written) == (2, 1)


def test_a_slow_worker_gets_a_second(tmp_path: Path) -> None:
    hang, seen = threading.Event(), []

    def function(shard: int) -> dict[str, Any]:
        seen.append(shard)
        if shard == 7 and seen.count(7) == 1:
            hang.wait(20)
        if shard == 7:
            hang.set()
        return points_of(shard)

    config = Config.from_dict(SMALL).with_execution(timeout=0.2, workers=2, engine="threads")
    report = run(config, FunctionSource(function, [5, 7, 9]), store=tmp_path)
    assert seen.count(7) == 2 and report.shards == 3 and report.retried == 1


def test_progress_is_told_and_an_interrupt_ends_the_run(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    run(SMALL, FunctionSource(points_of, [5, 7, 9]), store=tmp_path, progress=lambda *step: told.append(step))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]

    def stop(done: int, total: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(SMALL, FunctionSource(points_of, [5, 7, 9]), store=tmp_path / "b", progress=stop)
    before = objects(tmp_path / "b")
    time.sleep(0.05)
    assert objects(tmp_path / "b") == before and "6/v/c/9" not in before


class Counted(Engine):
    """Does nothing, and counts."""

    name, window = "counted", 16

    def __init__(self) -> None:
        self.tasks = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        from terrazzo.gridding.receipts import Receipt

        self.tasks += 1
        future: Future[Any] = Future()
        future.set_result(Receipt(arguments[1].shard, "", "", 1, 1))
        return future


def test_a_plan_of_a_hundred_thousand_shards_takes_no_more_memory(tmp_path: Path) -> None:
    n = 100_000
    config = Config.from_dict(configuration(healpix(8, 13, 19)))
    plan = Plan(config.grid.signature, np.arange(n), np.arange(n + 1), np.zeros(n, np.int64), ("function",))
    source = FunctionSource(points_of, [])
    engine, report = Counted(), Report()
    job = Job(config, make_template(config, tmp_path))
    tracemalloc.start()
    try:
        dispatch(job, plan, source, engine, report)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert engine.tasks == report.shards == n
    assert peak < 1 << 20


@pytest.mark.parametrize("engine", ["processes", "dask"])
def test_what_cannot_be_sent_is_said_before_a_task_is(engine: str, tmp_path: Path) -> None:
    config = configuration(healpix(2, 4, 6), {"v": {"function": lambda values: values.max(), "source": "v"}})
    if engine == "dask":  # which sends functions by their code
        pytest.importorskip("distributed")
        config["execution"]["workers"] = 1
        assert run(config, points_of(7), store=tmp_path, engine=engine).written == 1
        return
    with pytest.raises(GridConfigError, match="engine processes sends work to other processes.*lambda"):
        run(config, points_of(7), store=tmp_path, engine=engine)
    assert not [key for key in objects(tmp_path) if "/c/" in key]


def test_a_run_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    run(config_of(), store=tmp_path)
    report = run(config_of(), store=ReadOnlyStore(LocalStore(tmp_path)))
    assert (report.current, report.written) == (6, 0)
    with pytest.raises(NodeNotFoundError):
        run(config_of(retries=0), store=ReadOnlyStore(LocalStore(tmp_path / "empty")))


def test_two_runs_at_once_make_one_store(expected: dict[str, bytes], tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(run, config_of(engine="threads"), store=tmp_path) for _ in range(3)]
        assert all(one.result().shards == 6 for one in runs)
    assert objects(tmp_path) == expected


@pytest.mark.parametrize(
    "runs", ["x", [[5, 5]], [[-1, 3]], [[0, 10**9]], [[0]], [[0, 190]] * 400_000, {"a": 1}, [["a", "b"]]]
)
def test_a_list_of_shards_that_is_wrong_is_not_believed(runs: Any, tmp_path: Path) -> None:
    run(SMALL, FunctionSource(points_of, [5, 7, 9]), store=tmp_path)
    grid = Config.from_dict(SMALL).grid
    store = LocalStore(tmp_path)
    assert read_planned(store, "6", grid).tolist() == [5, 7, 9]  # type: ignore[union-attr]
    file = tmp_path / "6/__receipts/shards.json"
    file.write_text(json.dumps({"grid_signature": grid.signature, "runs": runs}))
    assert read_planned(store, "6", grid) is None
    assert open_grid(tmp_path).shards().tolist() == [5, 7, 9], "they are listed instead"
    run(SMALL, FunctionSource(points_of, [5, 7, 9]), store=tmp_path)
    assert read_planned(store, "6", grid).tolist() == [5, 7, 9]  # type: ignore[union-attr]


def test_engines_have_names() -> None:
    with pytest.raises(GridConfigError, match="serial, threads"):
        engine_from("spark")
    for name, package in (("ray", "ray"), ("lithops", "lithops")):
        try:
            __import__(package)
        except ImportError:
            with pytest.raises(ImportError, match=rf"terrazzo\[{name}\]"):
                engine_from(name)
    assert replace(Config.from_dict(SMALL).execution, engine="dask").engine == "dask"


def many(shard: int) -> Any:
    """Two million points of one shard, forty thousand at a time."""
    grid = Config.from_dict(SMALL).grid
    for k in range(50):
        random = np.random.default_rng(k)
        longitude, latitude = grid.centres(
            grid.cells_of(shard, random.integers(0, grid.cells_per_shard, 40_000))
        )
        yield {"longitude": longitude, "latitude": latitude, "v": random.normal(size=40_000)}


def test_a_shard_of_any_number_of_points_fits_into_memory(tmp_path: Path) -> None:
    variables = {
        "n": {"function": "count"},
        "mean": {"function": "mean", "source": "v", "dtype": "float64"},
        "spread": {"function": "std", "source": "v", "dtype": "float64"},
    }
    config = configuration(healpix(2, 4, 6), variables, memory=1 << 20)
    tracemalloc.start()
    try:
        report = run(config, FunctionSource(many, [7]), store=tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.points == 2_000_000 and report.cells == 256
    # the points are 48 MB
    assert peak < 16 << 20
    values = np.concatenate([part["v"] for part in many(7)])
    grid = Config.from_dict(SMALL).grid
    cells = np.concatenate([grid.locate(part["longitude"], part["latitude"]) for part in many(7)])
    group = terrazzo.open_group(tmp_path / "6", mode="r")
    mine = values[cells == cells[0]]
    assert group["n"][cells[0]] == len(mine)
    assert group["mean"][cells[0]] == pytest.approx(mine.mean(), rel=1e-12)
    assert group["spread"][cells[0]] == pytest.approx(mine.std(), rel=1e-12)
