"""grid: points to statistics in shards: run, plan, status, audit, read, pyramid."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terrazzo.cli.output import print_fields, print_json, print_lines
from terrazzo.drawing import nbytes_text, printable

if TYPE_CHECKING:  # gridding is imported when an action runs: the other verbs start sooner
    from terrazzo.gridding import Cellwise, Config, GridStore
    from terrazzo.gridding.estimate import Expected
    from terrazzo.gridding.regions import Region

__all__ = ["NAME", "add_arguments", "run"]

NAME = "grid"
ENGINES = ("serial", "threads", "processes", "dask", "lithops", "ray")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)

    def action(name: str, words: str, call: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        one = actions.add_parser(name, help=words, description=words)
        one.add_argument("config", metavar="CONFIG", help="a YAML or JSON file")
        one.add_argument("--store", metavar="URL", help="instead of output.store")
        for flag, words_ in (
            ("--json", "print JSON with stable keys"),
            ("--quiet", "no progress, no warnings"),
        ):
            one.add_argument(flag, action="store_true", default=argparse.SUPPRESS, help=words_)
        one.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks")
        one.set_defaults(grid_action=call)
        return one

    one = action("run", "grid the points of a configuration", _run)
    one.add_argument("--plan", metavar="FILE", help="a plan that was made earlier")
    one.add_argument("--engine", choices=ENGINES, help="instead of execution.engine")
    one.add_argument("--workers", type=int, metavar="N", help="instead of execution.workers")
    one.add_argument("--shards", metavar="KEYS", type=_keys, help="only these shards, as 12,17")
    one.add_argument("--overwrite", action="store_true", help="delete the group first")
    one.add_argument("--map", metavar="FILE", help="draw the shards: .svg, .png or .geojson")
    one.add_argument("--picture", metavar="FILE", help="draw a field: .png or .svg")
    one.add_argument("--field", metavar="NAME", help="the field to draw (the first)")
    one = action("plan", "which shards there are, and what a run would write at most", _plan)
    one.add_argument("--quick", action="store_true", help="do not make some shards in memory to say more")
    one.add_argument("--out", metavar="FILE", help="keep the plan: .json, or .parquet")
    one.add_argument("--shards", metavar="KEYS", type=_keys, help="only these shards, as 12,17")
    one = action("status", "what is stored so far", _status)
    one.add_argument("--map", metavar="FILE", help="draw the shards: .svg, .png or .geojson")
    one = action("audit", "compare the store with its receipts", _audit)
    one.add_argument("--lengths", action="store_true", help="compare lengths only, read no object")
    one = action("read", "cells of a region as CSV, or a picture of them", _read)
    one.add_argument("--box", metavar="W,S,E,N", type=_numbers("west, south, east, north", 4), help="degrees")
    one.add_argument(
        "--polygon",
        metavar="LON,LAT,…",
        type=_numbers("longitude and latitude of each corner"),
        help="degrees, corner after corner",
    )
    one.add_argument(
        "--point",
        metavar="LON,LAT",
        type=_numbers("longitude and latitude", 2),
        help="the cell around a point",
    )
    one.add_argument("--fields", metavar="NAMES", help="some fields, with commas between")
    one.add_argument(
        "--out", metavar="FILE", help="CSV, .png or .svg (a field), .geojson (shards); CSV to the terminal"
    )
    one = action("pyramid", "make coarser grids of what is stored", _pyramid)
    one.add_argument("levels", metavar="LEVELS", type=int)


def run(arguments: argparse.Namespace) -> int:
    call: Callable[[argparse.Namespace], int] = arguments.grid_action
    return call(arguments)


def _config(arguments: argparse.Namespace) -> Config:
    from terrazzo.gridding import load_config

    try:
        return load_config(arguments.config)
    except UnicodeDecodeError:
        raise ValueError(f"{arguments.config!r} is no configuration: it is not text in UTF-8") from None


def _opened(arguments: argparse.Namespace) -> GridStore:
    from terrazzo.gridding import GridConfigError, open_grid

    config = _config(arguments)
    store = arguments.store or config.output.store
    if store is None:
        raise GridConfigError(
            "there is no store: output.store is missing in the configuration; --store names one"
        )
    return open_grid(store, config.grid.group)


def _run(arguments: argparse.Namespace) -> int:
    from terrazzo.gridding import Plan, open_grid
    from terrazzo.gridding.run import run as run_config

    config = _config(arguments)
    if arguments.workers is not None:
        config = config.with_execution(workers=arguments.workers)
    plan = None if arguments.plan is None else Plan.load(arguments.plan)
    report = run_config(
        config,
        store=arguments.store,
        plan=plan,
        engine=arguments.engine,
        shards=arguments.shards,
        overwrite=arguments.overwrite,
        progress=not arguments.quiet,
        strict=False,
    )
    if arguments.json:
        print_json(asdict(report))
    else:
        outside = f", {report.outside} outside" if report.outside else ""
        filtered = f", {report.filtered} filtered" if report.filtered else ""
        print_lines(f"{report.points} points in {report.cells} cells{outside}{filtered}")
        print_lines(
            f"{report.shards} shards: {report.written} written, {report.current} current, {report.empty} empty, "
            f"{len(report.failures)} failed; {report.objects} objects, {nbytes_text(report.nbytes)}"
        )
        for shard, (tries, words) in report.failures.items():
            print_lines(f"shard {shard} failed after {tries} attempts: {printable(words)}")
    if arguments.map or arguments.picture:
        store = open_grid(arguments.store or config.output.store, config.grid.group)
        if arguments.map:
            _draw_shards(store, arguments.map)
        if arguments.picture:
            _draw_field(store, arguments.picture, arguments.field)
    return 1 if report.failures else 0


def _plan(arguments: argparse.Namespace) -> int:
    from terrazzo.gridding import make_plan
    from terrazzo.gridding.estimate import estimate
    from terrazzo.gridding.inputs import source_from

    config = _config(arguments)
    source = source_from(config)
    source.check(config.columns)
    plan = make_plan(config, source, shards=arguments.shards)
    if arguments.out is not None:
        plan.save(arguments.out)
    found = estimate(config, plan, None if arguments.quick else source)
    if arguments.json:
        print_json(asdict(found))
    else:
        print_fields(
            [
                ("shards", found.shards),
                ("granules", f"{found.granules}, read {found.tasks} times"),
                (
                    "points",
                    f"{found.points} inside, {found.outside} outside, {found.filtered} filtered"
                    if plan.counted
                    else "not counted: shards are found from footprints",
                ),
                ("objects", f"at most {found.objects}"),
                ("bytes", f"at most {nbytes_text(found.nbytes)}"),
                *_expectations(found.expected),
            ]
        )
    return 0


def _expectations(found: Expected | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    shards = f"from {found.probed} shards made in memory"
    lines = [
        ("expected", f"{found.objects} objects, {nbytes_text(found.nbytes)} ({shards})"),
        (
            "time",
            f"about {found.work:.3g} s of one worker, {found.seconds:.3g} s with all, without the storage's",
        ),
    ]
    return lines if found.cost is None else [*lines, ("cost", f"about {found.cost:.4g}, by execution.prices")]


def _status(arguments: argparse.Namespace) -> int:
    store = _opened(arguments)
    shards, chunks = store.shards(), store.chunks()
    if arguments.map:
        _draw_shards(store, arguments.map)
    if arguments.json:
        print_json(
            {
                "grid": store.grid.describe(),
                "fields": list(store.fields),
                "shards": shards.tolist(),
                "chunks": len(chunks),
            }
        )
    else:
        print_fields(
            [
                ("grid", printable(store.grid)),
                ("fields", printable(", ".join(store.fields))),
                ("shards", f"{len(shards)} of {store.grid.n_shards}"),
                ("inner chunks", f"{len(chunks)} of {store.grid.k * len(shards)} in them"),
            ]
        )
    return 0


def _audit(arguments: argparse.Namespace) -> int:
    from terrazzo.gridding.audit import audit

    config = _config(arguments)
    found = audit(arguments.store or config.output.store, config.grid.group, contents=not arguments.lengths)
    if arguments.json:
        print_json(asdict(found))
    else:
        for words in found.problems:
            print_lines(printable(words))
        verdict = f"{len(found.problems)} problems" if found.problems else "as they were written"
        print_lines(f"{found.shards} shards, {found.objects} objects, {nbytes_text(found.nbytes)}: {verdict}")
    return 1 if found.problems else 0


def _read(arguments: argparse.Namespace) -> int:
    import numpy as np

    from terrazzo.gridding.regions import Box, Polygon

    store = _opened(arguments)
    fields = arguments.fields.split(",") if arguments.fields else None
    if arguments.point is not None:
        (longitude, latitude) = arguments.point
        cell = store.grid.locate(np.array([longitude]), np.array([latitude]))
        values = {name: store.point(longitude, latitude, name) for name in fields or store.fields}
        print_json(
            {"cell": int(cell[0]), **{name: np.asarray(value).tolist() for name, value in values.items()}}
        )
        return 0
    region: Region | None = None
    if arguments.box is not None:
        region = Box(*arguments.box)
    elif arguments.polygon is not None:
        region = Polygon(np.reshape(arguments.polygon, (-1, 2)).tolist())
    if arguments.out is not None and arguments.out.endswith(".geojson"):
        _draw_shards(store, arguments.out, region)
        return 0
    if arguments.out is not None and not arguments.out.endswith(".csv"):
        _draw_field(store, arguments.out, fields[0] if fields else None, region)
        return 0
    found = store.region(region, fields)
    if arguments.json:
        columns = {name: values.tolist() for name, values in found.values.items()}
        print_json({"cell": found.cells.tolist(), **columns})
    elif arguments.out is None:
        print_lines(_table(found).rstrip("\n"))
    else:
        Path(arguments.out).write_text(_table(found), encoding="utf-8")
    return 0


def _pyramid(arguments: argparse.Namespace) -> int:
    from terrazzo.gridding.pyramid import build_pyramid

    config = _config(arguments)
    made, left = build_pyramid(
        arguments.store or config.output.store,
        arguments.levels,
        group=config.grid.group,
        progress=not arguments.quiet,
    )
    if arguments.json:
        print_json({"groups": made, "left_out": left})
    else:
        print_lines(
            f"made {', '.join(made) or 'nothing'}" + (f"; left out: {', '.join(left)}" if left else "")
        )
    return 0


def _draw_shards(store: GridStore, path: str, region: Region | None = None) -> None:
    from terrazzo.gridding.maps import shard_map
    from terrazzo.gridding.pictures import shards_geojson, shards_svg

    match Path(path).suffix:
        case ".geojson":
            Path(path).write_text(shards_geojson(store, region=region), encoding="utf-8")
        case ".svg":
            Path(path).write_text(shards_svg(store, region), encoding="utf-8")
        case ".png":
            Path(path).write_bytes(shard_map(store, region).to_png())
        case _:
            raise ValueError(f"{path!r}: the ending says what is drawn: .svg, .png or .geojson")


def _draw_field(store: GridStore, path: str, name: str | None, region: Region | None = None) -> None:
    from terrazzo.gridding.maps import field_map

    if Path(path).suffix not in (".svg", ".png"):
        raise ValueError(f"{path!r}: the ending says what is drawn: .svg or .png")
    found = field_map(store, name or next(iter(store.fields)), region)
    if path.endswith(".svg"):
        Path(path).write_text(found.to_svg(), encoding="utf-8")
    else:
        Path(path).write_bytes(found.to_png())


def _table(found: Cellwise) -> str:
    names = list(found.values)
    lines = [",".join(["cell", "longitude", "latitude", *names])]
    columns: list[Any] = [found.values[name].tolist() for name in names]
    for k, cell in enumerate(found.cells.tolist()):
        place = f"{cell},{found.longitude[k]:.7f},{found.latitude[k]:.7f}"
        lines.append(",".join([place, *(_value(column[k]) for column in columns)]))
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    return ";".join(map(_value, value)) if isinstance(value, list) else f"{value}"


def _numbers(words: str, *counts: int) -> Callable[[str], list[float]]:
    """A parser of numbers with commas between: as many as one of `counts`, or any even number from six up."""

    def parse(text: str) -> list[float]:
        try:
            found = [float(part) for part in text.split(",")]
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text!r}: numbers with commas between are needed: {words}"
            ) from None
        if len(found) not in counts and (counts or len(found) < 6 or len(found) % 2):
            raise argparse.ArgumentTypeError(f"{text!r} has {len(found)} numbers; {words} are needed")
        return found

    return parse


def _keys(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: whole numbers with commas between are needed") from None
