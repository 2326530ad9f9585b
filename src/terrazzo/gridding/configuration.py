"""The configuration: one mapping, from YAML, JSON or Python, checked whole before anything is read or written.

What it does not do: open files or stores. Page: docs/gridding.md has every key.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from terrazzo.gridding.checking import boolean, check_known, mapping, one_of, whole
from terrazzo.gridding.errors import GridConfigError, SchemaError
from terrazzo.gridding.fields import Field, fields_from, precomputed_from
from terrazzo.gridding.grid import Grid, refuse
from terrazzo.gridding.healpix import HealpixGrid
from terrazzo.gridding.optional import required
from terrazzo.gridding.origin import DataSource, source_of
from terrazzo.gridding.rectilinear import RectilinearGrid, check_keys
from terrazzo.options import Durability

__all__ = ["Config", "Execution", "Output", "grid_from", "load_config"]

SECTIONS = ("pipeline", "data_source", "aggregation", "output", "execution", "catalog", "worker")
AGGREGATION = ("variables", "coordinates", "chunk_precompute", "handoff", "streaming")
HEALPIX = (
    *("type", "parent_order", "child_order", "chunk_inner", "sharded", "ellipsoid", "coordinates"),
    *("indexing_scheme", "layout", "emit_cell_ids"),
)
RECTILINEAR = (
    "type",
    "crs",
    "resolution",
    "bounds",
    "chunk_shape",
    "chunk_inner",
    "sharded",
    "ellipsoid",
    "coordinates",
)
OUTPUT = ("grid", "store", "storage", "product_name", "store_layout", "consolidate_metadata", "pyramid")
STORAGE = ("inner_codecs", "index_location", "companion_chunks", "consolidated")
EXECUTION = (
    *("engine", "workers", "retries", "timeout", "receipts", "resume", "create_only", "memory", "address"),
    *("durability", "batch_points", "prices"),
)
ENGINES = ("serial", "threads", "processes", "dask", "lithops", "ray")


@dataclass(frozen=True)
class Output:
    """Where the arrays go, and how they are stored."""

    store: Any = None
    inner_codecs: Any = ("bytes",)
    index_location: str = "end"
    companion_chunks: str = "shard"
    consolidated: bool = False
    product_name: str | None = None
    pyramid: int = 0


@dataclass(frozen=True)
class Execution:
    """How the work is done; nothing of it changes a byte of the result.

    timeout: seconds after which a shard is given to a second worker. memory: bytes of points one worker holds.
    receipts: "checksums" (of every object, read back), "lengths", or "none". resume: skip shards that are current.
    create_only: refuse shards that another run has made. prices: of an hour of one worker, and of a thousand objects
    written, in any currency, for estimates.
    """

    engine: str = "threads"
    workers: int | None = None
    retries: int = 2
    timeout: float | None = None
    receipts: str = "checksums"
    resume: bool = True
    create_only: bool = False
    memory: int = 256 << 20
    address: str | None = None
    durability: Durability = "fsync"
    batch_points: int = 1 << 20
    prices: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """A checked configuration."""

    grid: Grid
    fields: Mapping[str, Field]
    precomputed: Mapping[str, Field] = field(default_factory=dict)
    source: DataSource | None = None
    output: Output = field(default_factory=Output)
    execution: Execution = field(default_factory=Execution)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], folder: str | os.PathLike[str] | None = None) -> Config:
        """Check a configuration; raises GridConfigError or SchemaError, before anything is written.

        folder: what relative paths of files are relative to.
        """
        check_known(
            given,
            SECTIONS,
            "",
            elsewhere={
                "bounds": "choose points by filters, or files by data_source.files",
            },
        )
        pipeline = mapping(given.get("pipeline"), "pipeline")
        if pipeline.get("type", "spatial") != "spatial":
            raise GridConfigError(f"pipeline.type is {pipeline['type']!r}; only spatial is supported")
        for section in ("aggregation", "output"):
            if given.get(section) is None:
                raise GridConfigError(f"the section {section} is missing; aggregation and output are needed")
        output = mapping(given["output"], "output")
        aggregation = mapping(given["aggregation"], "aggregation", SchemaError)
        check_known(
            aggregation,
            AGGREGATION,
            "aggregation",
            SchemaError,
        )
        grid_keys = dict(mapping(output.get("grid"), "output.grid"))
        if "cell_ids" in mapping(aggregation.get("coordinates"), "aggregation.coordinates", SchemaError):
            grid_keys.setdefault("coordinates", "cell_ids")
        grid = grid_from(grid_keys)
        source = source_of(given.get("data_source"), given.get("catalog"), Path(folder or "."))
        columns = None if source is None else tuple(source.variables)
        precomputed = precomputed_from(aggregation.get("chunk_precompute"), columns)
        fields = fields_from(aggregation.get("variables"), columns, tuple(precomputed))
        stored = _output(output, Path(folder or "."))
        _check_pyramid(stored.pyramid, grid, fields)
        return cls(grid, fields, precomputed, source, stored, _execution(given.get("execution")))

    def with_execution(self, **changed: Any) -> Config:
        return replace(self, execution=replace(self.execution, **changed))

    @property
    def columns(self) -> frozenset[str]:
        """Columns of the points that fields need, besides the coordinates."""
        wanted: frozenset[str] = frozenset().union(
            *(one.columns for one in (*self.fields.values(), *self.precomputed.values()))
        )
        return wanted - set(self.precomputed)

    def describe(self) -> dict[str, Any]:
        """What decides the bytes of the result, but for the points: for hashes, receipts and the store's attributes."""
        return {
            "grid": self.grid.describe(),
            "variables": {name: dict(one.declared) for name, one in self.fields.items()},
            "chunk_precompute": {name: dict(one.declared) for name, one in self.precomputed.items()},
            "source": None if self.source is None else self.source.describe(),
            "storage": {
                "inner_codecs": repr(self.output.inner_codecs),
                "index_location": self.output.index_location,
                "companion_chunks": self.output.companion_chunks,
            },
            "pyramid": self.output.pyramid,
            # sums of floating point numbers depend on where a batch ends
            "batch": [self.execution.memory, self.execution.batch_points],
        }

    @property
    def signature(self) -> str:
        text = json.dumps(self.describe(), sort_keys=True, default=repr)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def load_config(path: str | os.PathLike[str]) -> Config:
    """The configuration in a YAML or JSON file; relative paths in it are relative to its folder."""
    file = Path(path)
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        try:
            given = json.loads(text)
        except ValueError as error:
            raise GridConfigError(f"{file} is no JSON: {error}") from None
    else:
        yaml = required("yaml", "YAML configurations", "healpix")
        try:
            given = yaml.safe_load(text)
        except yaml.YAMLError as error:
            words = " ".join(str(error).split())
            raise GridConfigError(f"{file} is no YAML: {words}") from None
    if not isinstance(given, Mapping):
        raise GridConfigError(
            f"{file} holds {type(given).__name__}; the sections aggregation and output are needed"
        )
    return Config.from_dict(given, file.parent)


def grid_from(given: Mapping[str, Any]) -> Grid:
    """The grid of `output.grid`."""
    kind = given.get("type")
    if kind == "healpix":
        check_known(given, HEALPIX, "output.grid")
        for key in ("parent_order", "child_order"):
            if given.get(key) is None:
                raise GridConfigError(
                    f"output.grid.{key} is missing: healpix needs parent_order and child_order"
                )
        if given.get("indexing_scheme", "nested") != "nested":
            raise refuse("indexing_scheme", given["indexing_scheme"], "only nested is supported")
        if given.get("layout", "fullsphere") != "fullsphere":
            raise refuse("layout", given["layout"], "only fullsphere is supported")
        emit = boolean(given.get("emit_cell_ids", False), "output.grid.emit_cell_ids")
        return HealpixGrid(
            given["parent_order"],
            given["child_order"],
            given.get("chunk_inner"),
            given.get("sharded", False),
            given.get("ellipsoid", "WGS84"),
            given.get("coordinates", "cell_ids" if emit else "none"),
        )
    if kind == "rectilinear":
        check_known(given, RECTILINEAR, "output.grid")
        check_keys(given)
        if given.get("ellipsoid", "WGS84") != "WGS84":
            raise refuse(
                "ellipsoid", given["ellipsoid"], "the crs of a rectilinear grid says it; leave it out"
            )
        if given.get("coordinates", "none") != "none":
            raise refuse("coordinates", given["coordinates"], "a rectilinear grid has y and x; leave it out")
        return RectilinearGrid(
            given["crs"],
            given["resolution"],
            given["bounds"],
            given.get("chunk_shape", (256, 256)),
            given.get("chunk_inner"),
            given.get("sharded", False),
        )
    raise refuse("type", kind, "healpix or rectilinear are allowed")


def _output(given: Mapping[str, Any], folder: Path) -> Output:
    check_known(
        given,
        OUTPUT,
        "output",
        elsewhere={
            "sweep": "output.pyramid makes coarser grids",
            "windowing": "run once per window, with a filter on time",
            "endpoint_url": "give a store object",
            "region": "give a store object",
            "coverage_moc": "the populated shards are in `terrazzo grid status`",
            "aoi_mask": "use data_source.filters",
        },
    )
    if given.get("store_layout", "flat") != "flat":
        raise GridConfigError(f"output.store_layout is {given['store_layout']!r}; only flat is supported")
    storage = mapping(given.get("storage"), "output.storage")
    check_known(storage, STORAGE, "output.storage")
    store = given.get("store")
    if isinstance(store, str) and "://" not in store:
        store = str(folder / store)
    consolidated = storage.get("consolidated", given.get("consolidate_metadata", False))
    return Output(
        store,
        _codecs(storage.get("inner_codecs", ("bytes",))),
        one_of(storage.get("index_location", "end"), ("start", "end"), "output.storage.index_location"),
        one_of(
            storage.get("companion_chunks", "shard"), ("shard", "unit"), "output.storage.companion_chunks"
        ),
        boolean(consolidated, "output.storage.consolidated"),
        given.get("product_name"),
        whole(given.get("pyramid", 0), "output.pyramid", 0),
    )


def _codecs(given: Any) -> Any:
    """The codecs of inner chunks; whether they fit a field is seen where the arrays are made."""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Mapping) or not isinstance(given, Sequence) or not given:
        raise GridConfigError(
            f"output.storage.inner_codecs is {given!r}; a list of codecs is needed, such as [bytes, zstd, crc32c]"
        )
    return tuple(given)


def _check_pyramid(levels: int, grid: Grid, fields: Mapping[str, Field]) -> None:
    """Refuse more coarser grids than there are, and fields of which none has a coarser one."""
    if not levels:
        return
    coarse: Grid | None = grid
    for made in range(levels):
        assert coarse is not None
        coarse = coarse.coarser()
        if coarse is None:
            raise GridConfigError(
                f"output.pyramid is {levels}: a shard of {grid.shard_shape} cells in chunks of {grid.chunk_shape} "
                f"can be halved {made} times; at most {made} coarser grids are allowed"
            )
    if not any(one.nests for one in fields.values()):
        raise SchemaError(
            f"output.pyramid is {levels}, and none of the fields {', '.join(fields)} merges from cell to coarser cell; "
            "count, sum, min, max, mean, average, var, std, histogram and tdigest do"
        )


def _execution(given: object) -> Execution:
    keys = dict(mapping(given, "execution"))
    check_known(keys, EXECUTION, "execution")
    default = Execution()
    receipts = keys.get("receipts", default.receipts)
    if isinstance(receipts, bool):
        receipts = "checksums" if receipts else "none"
    timeout = keys.get("timeout")
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0
    ):
        raise GridConfigError(f"execution.timeout is {timeout!r}; a number of seconds above 0 is needed")
    workers = keys.get("workers")
    return Execution(
        one_of(keys.get("engine", default.engine), ENGINES, "execution.engine"),
        None if workers is None else whole(workers, "execution.workers"),
        whole(keys.get("retries", default.retries), "execution.retries", 0),
        timeout,
        one_of(receipts, ("checksums", "lengths", "none"), "execution.receipts"),
        boolean(keys.get("resume", default.resume), "execution.resume"),
        boolean(keys.get("create_only", default.create_only), "execution.create_only"),
        whole(keys.get("memory", default.memory), "execution.memory", 1 << 16),
        keys.get("address"),
        _durability(keys.get("durability", default.durability)),
        whole(keys.get("batch_points", default.batch_points), "execution.batch_points"),
        _prices(keys.get("prices")),
    )


def _prices(given: object) -> dict[str, float]:
    prices = mapping(given, "execution.prices")
    check_known(prices, ("worker_hour", "thousand_writes"), "execution.prices")
    for name, value in prices.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise GridConfigError(f"execution.prices.{name} is {value!r}; a number from 0 up is needed")
    return {name: float(value) for name, value in prices.items()}


def _durability(given: object) -> Durability:
    match one_of(given, ("fsync", "rename", "none"), "execution.durability"):
        case "rename":
            return "rename"
        case "none":
            return "none"
    return "fsync"
