"""Statistics against numpy, cell by cell; states of batches merge to the same; expressions are arithmetic only."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terrazzo.gridding import Config, GridConfigError, SchemaError, json_schema
from terrazzo.gridding.accumulate import cast
from terrazzo.gridding.fields import fields_from
from terrazzo.gridding.statistics import Cells, Points, digest_quantile, sort_by_cell, statistic_for
from tests.gridding.cases import ATL06, PAGE_HEALPIX, PAGE_RECTILINEAR

COLUMNS = ("h", "s", "t")

DECLARED: dict[str, tuple[dict[str, Any], Any]] = {
    "count": ({"function": "count"}, lambda c: len(c["h"])),
    "sum": ({"function": "sum", "source": "h"}, lambda c: np.sum(c["h"])),
    "min": ({"function": "min", "source": "h"}, lambda c: np.min(c["h"])),
    "max": ({"function": "np.max", "source": "h"}, lambda c: np.max(c["h"])),
    "mean": ({"function": "mean", "source": "h"}, lambda c: np.mean(c["h"])),
    "var": ({"function": "var", "source": "h"}, lambda c: np.var(c["h"])),
    "std sample": (
        {"function": "std", "source": "h", "params": {"ddof": 1}},
        lambda c: np.std(c["h"], ddof=1) if len(c["h"]) > 1 else np.nan,
    ),
    "median": ({"function": "median", "source": "h"}, lambda c: np.median(c["h"])),
    "quantile": (
        {"function": "quantile", "source": "h", "params": {"q": 0.3}},
        lambda c: np.quantile(c["h"], 0.3),
    ),
    "percentile": (
        {"function": "percentile", "source": "h", "params": {"q": 90}},
        lambda c: np.percentile(c["h"], 90),
    ),
    "first": ({"function": "first", "source": "h"}, lambda c: c["h"][0]),
    "last": ({"function": "last", "source": "h"}, lambda c: c["h"][-1]),
    "first by": (
        {"function": "first", "source": "h", "params": {"by": "t"}},
        lambda c: c["h"][np.argmin(c["t"])],
    ),
    "last by": (
        {"function": "last", "source": "h", "params": {"by": "t"}},
        lambda c: c["h"][np.flatnonzero(c["t"] == c["t"].max())[0]],
    ),
    "weighted": (
        {"function": "average", "source": "h", "params": {"weights": "1 / s**2"}},
        lambda c: np.average(c["h"], weights=1 / c["s"] ** 2),
    ),
    "weighted by a column": (
        {"function": "average", "source": "h", "params": {"weights": "s"}},
        lambda c: np.average(c["h"], weights=c["s"]),
    ),
    "mode": (
        {"function": "mode", "source": "t"},
        lambda c: (lambda v, n: v[np.argmax(n)])(*np.unique(c["t"], return_counts=True)),
    ),
    "expression": (
        {"expression": "np.sqrt(1 / np.sum(1 / s**2)) + np.max(abs(h - np.mean(h)))"},
        lambda c: np.sqrt(1 / np.sum(1 / c["s"] ** 2)) + np.max(np.abs(c["h"] - np.mean(c["h"]))),
    ),
    "share": ({"expression": "np.sum(h > 0) / len(h)"}, lambda c: np.mean(c["h"] > 0)),
    "expressed quantile": (
        {"expression": "quantile(h, 0.75) - median(h)"},
        lambda c: np.quantile(c["h"], 0.75) - np.median(c["h"]),
    ),
    "numpy's ptp": ({"function": "ptp", "source": "h"}, lambda c: np.ptp(c["h"])),
    "imported": ({"function": "statistics.fmean", "source": "h"}, lambda c: np.mean(c["h"])),
    "histogram": (
        {
            "function": "histogram",
            "source": "t",
            "params": {"bins": [0, 1, 3, 5]},
            "kind": "vector",
            "trailing_shape": [3],
        },
        lambda c: np.histogram(c["t"], [0, 1, 3, 5])[0],
    ),
    "quantiles": (
        {
            "function": "quantile",
            "source": "h",
            "params": {"q": [0.25, 0.5]},
            "kind": "vector",
            "trailing_shape": [2],
        },
        lambda c: np.quantile(c["h"], [0.25, 0.5]),
    ),
    "a function": ({"function": np.nanmax, "source": "h"}, lambda c: np.nanmax(c["h"])),
}


def points_of(cells: Any, columns: dict[str, Any]) -> Points:
    runs, order = sort_by_cell(np.asarray(cells))
    return Points(runs, order, columns)


def declared(how: dict[str, Any]) -> Any:
    return fields_from({"f": how}, COLUMNS)["f"].statistic


def sample(seed: int, n: int, cells: int) -> tuple[Any, dict[str, Any]]:
    random = np.random.default_rng(seed)
    columns = {
        "h": random.normal(1000, 300, n),
        "s": random.uniform(0.1, 2, n).astype(np.float32),
        "t": random.integers(0, 6, n),
    }
    return random.integers(0, cells, n) * 7 + 3, columns


@pytest.mark.parametrize("name", DECLARED)
@given(seed=st.integers(0, 1000), n=st.integers(1, 80), cells=st.integers(1, 20))
def test_every_statistic_is_numpys(name: str, seed: int, n: int, cells: int) -> None:
    how, oracle = DECLARED[name]
    cell, columns = sample(seed, n, cells)
    statistic = pickle.loads(pickle.dumps(declared(how)))
    points = points_of(cell, columns)
    found = statistic.compute(points)
    for k, one in enumerate(points.cells.cells.tolist()):
        mine = {key: column[cell == one] for key, column in columns.items()}
        wanted = oracle({key: v.astype(np.float64) if v.dtype.kind == "f" else v for key, v in mine.items()})
        np.testing.assert_allclose(found[k], wanted, rtol=1e-9, atol=1e-9, err_msg=f"{name}, cell {one}")


MERGEABLE = [name for name, (how, _) in DECLARED.items() if declared(how).mergeable]


@pytest.mark.parametrize("name", MERGEABLE)
@given(seed=st.integers(0, 1000), n=st.integers(2, 80), cut=st.integers(1, 79))
def test_states_of_batches_merge_to_the_whole(name: str, seed: int, n: int, cut: int) -> None:
    cell, columns = sample(seed, n, 9)
    cut = min(cut, n - 1)
    statistic = declared(DECLARED[name][0])
    parts = [
        points_of(cell[part], {key: column[part] for key, column in columns.items()})
        for part in (slice(0, cut), slice(cut, n))
    ]
    states = [statistic.begin(part) for part in parts]
    runs, order = sort_by_cell(np.concatenate([part.cells.cells for part in parts]))
    joined = {key: np.concatenate([state[key] for state in states]) for key in states[0]}
    if order is not None:
        joined = {key: column[order] for key, column in joined.items()}
    merged = statistic.finish(statistic.merge(joined, runs))
    np.testing.assert_allclose(merged, statistic.compute(points_of(cell, columns)), rtol=1e-9, atol=1e-9)


def test_most_statistics_merge() -> None:
    assert set(MERGEABLE) >= {
        "count",
        "sum",
        "min",
        "max",
        "mean",
        "var",
        "std sample",
        "weighted",
        "histogram",
        "first",
        "last by",
    }


def test_case_15_three_values_in_a_cell() -> None:
    points = points_of([5, 5, 5], {"h": np.array([1.0, 2, 3]), "s": np.array([1.0, 1, 2])})

    def value(**how: Any) -> float:
        return float(fields_from({"f": how}, ("h", "s"))["f"].statistic.compute(points)[0])

    assert value(function="count") == 3
    assert value(function="mean", source="h") == 2
    assert value(function="average", source="h", params={"weights": "1/s**2"}) == pytest.approx(
        5 / 3, abs=1e-15
    )
    assert value(expression="np.sqrt(1/np.sum(1/s**2))") == pytest.approx(2 / 3, abs=1e-15)
    assert value(function="var", source="h") == pytest.approx(2 / 3, abs=1e-15)
    assert [value(function="quantile", source="h", params={"q": q}) for q in (0.25, 0.5, 0.75)] == [
        1.5,
        2.0,
        2.5,
    ]


@pytest.mark.parametrize("name", ["mean", "sum", "min", "max", "var", "median"])
def test_nan_spreads_unless_it_is_left_out(name: str) -> None:
    values = np.array([1.0, np.nan, 4.0, 5.0, np.nan])
    points = points_of([0, 0, 0, 1, 2], {"h": values})
    plain = fields_from({"f": {"function": name, "source": "h"}}, ("h",))["f"].statistic.compute(points)
    without = fields_from({"f": {"function": f"nan{name}", "source": "h"}}, ("h",))["f"].statistic.compute(
        points
    )
    assert np.isnan(plain[0]) and not np.isnan(plain[1])
    np.testing.assert_allclose(without[0], getattr(np, f"nan{name}")(values[:3]))
    assert np.isnan(without[2]) if name != "sum" else without[2] == 0


def test_a_digest_is_close_and_merges() -> None:
    random = np.random.default_rng(7)
    values = random.normal(size=20_000)
    statistic = statistic_for("tdigest", None, "h", {"size": 100}, (100, 2), "here")
    whole = points_of(np.zeros(20_000, np.int64), {"h": values})
    halves = [
        statistic.begin(points_of(np.zeros(10_000, np.int64), {"h": part}))["digest"]
        for part in np.split(values, 2)
    ]
    runs, _ = sort_by_cell(np.zeros(2, np.int64))
    merged = statistic.merge({"digest": np.concatenate(halves)}, runs)["digest"][0]
    for digest in (statistic.compute(whole)[0], merged):
        assert np.nansum(digest[:, 1]) == 20_000
        for part in (0.01, 0.25, 0.5, 0.75, 0.99):
            rank = np.searchsorted(np.sort(values), digest_quantile(digest, part)) / 20_000
            assert abs(rank - part) < 0.01
    assert np.isnan(digest_quantile(np.full((4, 2), np.nan), 0.5))


def test_sorting_is_stable_for_wide_numbers_too() -> None:
    random = np.random.default_rng(8)
    for top in (10, 2**40, 2**62):
        numbers = random.integers(0, top, 500) // 3 * 3
        runs, order = sort_by_cell(numbers)
        assert order is not None and (order == np.argsort(numbers, kind="stable")).all()
        assert (runs.cells == np.unique(numbers)).all() and runs.counts.sum() == 500
    runs, order = sort_by_cell(np.zeros(0, np.int64))
    assert len(runs) == 0 and order is None


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')",
        "h.__class__",
        "np.load('x')",
        "(lambda: 1)()",
        "[h for h in h]",
        "h[0]",
        "open('x')",
        "np.sum(h, axis=0)",
        "'text'",
        "10**10**10",
        "h if 1 else 2",
        "1 < h < 2",
        "h and s",
        "True",
        "np",
        "",
        "h +",
        "sum(h" + ")" * 200,
        "-" * 100 + "h",
        "quantile(h, s)",
    ],
)
def test_an_expression_is_arithmetic_and_no_more(text: str) -> None:
    with pytest.raises(SchemaError, match="aggregation.variables.f.expression"):
        fields_from({"f": {"expression": text}}, COLUMNS)


def test_an_expression_of_points_needs_a_reduction() -> None:
    statistic = fields_from({"f": {"expression": "h * 2"}}, COLUMNS)["f"].statistic
    with pytest.raises(SchemaError, match="one value per point"):
        statistic.compute(points_of(*sample(1, 5, 2)))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"function": "count", "expression": "sum(h)"}, "both"),
        ({}, "neither"),
        ({"function": "mean"}, "source is missing"),
        ({"function": "mean", "source": "q"}, "no column"),
        ({"expression": "np.sum(q)"}, "uses q"),
        ({"function": "nothing_like_it", "source": "h"}, "none of"),
        ({"function": "no_such.module", "source": "h"}, "cannot be imported"),
        ({"function": "mean", "source": "h", "dtype": "float33"}, "dtype"),
        ({"function": "mean", "source": "h", "dtype": "S3"}, "numbers are needed"),
        ({"function": "count", "fill_value": "NaN"}, "fill_value"),
        ({"function": "count", "fill_value": 1.5}, "fill_value"),
        ({"function": "mean", "source": "h", "kind": "vector"}, "trailing_shape"),
        ({"function": "mean", "source": "h", "trailing_shape": [2]}, "kind is scalar"),
        ({"function": "count", "kind": "vector", "trailing_shape": [2]}, "one number per cell"),
        ({"function": "mean", "source": "h", "resolution": "shard"}, "cell or chunk"),
        ({"function": "mean", "source": "h", "params": {"q": 1}}, "takes none"),
        ({"function": "quantile", "source": "h"}, "params.q is missing"),
        ({"function": "quantile", "source": "h", "params": {"q": 2}}, "from 0 to 1"),
        ({"function": "var", "source": "h", "params": {"ddof": 1.5}}, "ddof is 1.5"),
        ({"function": "histogram", "source": "h", "params": {"bins": 3}}, "range"),
        ({"function": "mean", "source": "h", "attrs": {"a": float("nan")}}, "JSON"),
        ({"function": "mean", "sorce": "h"}, "did you mean source"),
        (
            {
                "function": "histogram",
                "source": "h",
                "params": {"bins": [0, 1, 2]},
                "kind": "vector",
                "trailing_shape": [3],
            },
            "shape",
        ),
    ],
)
def test_what_is_wrong_with_a_field_is_said(how: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        fields_from({"f": how}, COLUMNS)


@pytest.mark.parametrize("name", ["", "a/b", "__x", "cell_ids", ".."])
def test_names_that_arrays_cannot_have(name: str) -> None:
    with pytest.raises(SchemaError, match="cannot be called"):
        fields_from({name: {"function": "count"}}, COLUMNS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"agregation": {}}, "did you mean aggregation"),
        ({"output": None}, "output is missing"),
        ({"execution": {"engine": "spark"}}, "engine"),
        ({"execution": {"workers": 0}}, "workers"),
        (
            {
                "output": {
                    "grid": {"type": "healpix", "parent_order": 2, "child_order": 5},
                    "storage": {"inner_codecs": []},
                }
            },
            "a list of codecs is needed",
        ),
        ({"execution": {"retries": -1}}, "retries"),
        ({"execution": {"timeout": 0}}, "timeout"),
        ({"pipeline": {"type": "temporal"}}, "only spatial"),
        ({"data_source": {"reader": "netcdf"}}, "reader"),
        ({"data_source": {"coordinates": {"longitude": "x"}}}, "latitude is missing"),
        ({"bounds": {}}, "not supported"),
    ],
)
def test_what_is_wrong_elsewhere_is_said(changes: dict[str, Any], words: str) -> None:
    base = {
        "aggregation": {"variables": {"n": {"function": "count"}}},
        "output": {"grid": {"type": "healpix", "parent_order": 2, "child_order": 5}},
    }
    with pytest.raises(GridConfigError, match=words):
        Config.from_dict({**base, **changes})


def test_the_schema_has_the_keys_that_are_taken() -> None:
    schema = json_schema()
    assert schema["additionalProperties"] is False and schema["required"] == ["aggregation", "output"]
    healpix, rectilinear = schema["properties"]["output"]["properties"]["grid"]["oneOf"]
    for grid, keys in ((healpix, PAGE_HEALPIX), (rectilinear, PAGE_RECTILINEAR)):
        assert set(keys) <= set(grid["properties"]) and set(grid["required"]) <= set(keys)
    assert set(ATL06) <= set(schema["properties"]["data_source"]["properties"])


@pytest.mark.parametrize(
    ("offset", "scale"), [(1e9, 1.0), (1e15, 1e3), (-1e6, 1e-3), (0.1, 0.0), (1e150, 1e140)]
)
@pytest.mark.parametrize("size", [100_000, 997, 1])
def test_large_means_cost_no_digits(offset: float, scale: float, size: int) -> None:
    n = 20_000 if size > 1 else 500
    random = np.random.default_rng(1)
    values = offset + random.normal(size=n) * scale
    columns = {"v": values, "w": random.random(n)}
    wide, weights = values.astype(np.longdouble), columns["w"].astype(np.longdouble)
    mean = wide.mean()
    wanted = {
        "mean": mean,
        "sum": wide.sum(),
        "var": ((wide - mean) ** 2).mean(),
        "average": (wide * weights).sum() / weights.sum(),
    }
    for name, right in wanted.items():
        params = {"weights": "w"} if name == "average" else {}
        statistic = statistic_for(name, None, "v", params, (), "test")
        state: Any = None
        for start in range(0, n, size):
            part = {key: column[start : start + size] for key, column in columns.items()}
            cells, order = sort_by_cell(np.zeros(len(part["v"]), np.int64))
            fresh = statistic.begin(Points(cells, order, part))
            if state is None:
                state = fresh
                continue
            joined = {key: np.concatenate([state[key], fresh[key]]) for key in fresh}
            state = statistic.merge(joined, Cells(np.zeros(1, np.int64), np.zeros(1, np.int64), 2))
        (found,) = statistic.finish(state)
        error = abs(np.longdouble(found) - right)
        # a variance is as good as its values are: their last digits are noise of their own
        assert error <= 1e-13 * abs(right) + (1e-30 if name == "var" else 0), (name, found, right)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_that_do_not_fit_are_refused(dtype: str) -> None:
    field = fields_from({"f": {"function": "max", "source": "h", "dtype": dtype}}, COLUMNS)["f"]
    limits = np.iinfo(dtype)
    for found in (
        np.array([float(limits.max) * 2]),
        np.array([limits.max + 1], object).astype(np.float64),
        np.array([np.inf]),
        np.array([-np.inf]),
        np.array([float(limits.min) * 2 - 1]),
    ):
        with pytest.raises(SchemaError, match="declare a wider dtype"):
            cast(found, field)
    if dtype != "uint64":
        with pytest.raises(SchemaError, match=f"from {limits.min} to {limits.max}"):
            cast(np.array([limits.max + 1], np.uint64), field)
    kept = np.array([limits.min, 0, limits.max], dtype)
    assert (cast(kept, field) == kept).all()
    if dtype == "uint8":
        # a part of a number is cut off, as numpy does
        assert cast(np.array([-0.5, 254.9, 255.9, np.nan]), field).tolist() == [0, 254, 255, 0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_expressions_of_integers_do_not_wrap_around(dtype: str) -> None:
    limits = np.iinfo(dtype)
    low, high = (0, 120) if limits.bits > 8 else (limits.min, limits.max)
    columns = {"h": np.array([low, high, high], dtype)}
    points = Points(Cells(np.array([0]), np.array([0]), 3), None, columns)

    def computed(text: str) -> float:
        return float(fields_from({"f": {"expression": text}}, ["h"])["f"].statistic.compute(points)[0])

    assert computed("np.max(h) - np.min(h)") == high - low
    assert computed("np.sum(h**2)") == low**2 + 2 * high**2
    assert computed("np.min(h - 200)") == low - 200
    assert computed("np.sum((h & 1) == 0)") == sum(v & 1 == 0 for v in (low, high, high))
    assert computed("np.max((h + 200)**-1)") == 1 / (low + 200)


def test_large_unsigned_columns_in_expressions() -> None:
    points = Points(Cells(np.array([0]), np.array([0]), 1), None, {"h": np.array([(1 << 64) - 1], np.uint64)})
    statistic = fields_from({"f": {"expression": "np.max(h)"}}, ["h"])["f"].statistic
    assert statistic.compute(points)[0] == float((1 << 64) - 1)


def test_the_mean_of_equal_numbers_is_that_number() -> None:
    columns = {"h": np.full(10_007, 1.7389103385832711)}
    points = Points(Cells(np.arange(7), np.array([0, 1, 4, 10, 100, 1000, 5000]), 10_007), None, columns)
    for text, wanted in (("np.mean(h)", columns["h"][0]), ("np.var(h)", 0.0), ("np.std(h)", 0.0)):
        found = fields_from({"f": {"expression": text}}, ["h"])["f"].statistic.compute(points)
        assert (found == wanted).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("np.sum(np.where(h > 0))", "where.. takes 3"),
        ("np.sum(np.sqrt(h, h))", "sqrt.. takes 1"),
        ("np.sum(np.maximum(h, 1, 2))", "maximum.. takes 2"),
        ("np.sum(np.arctan2(h))", "arctan2.. takes 2"),
        ("np.sum(np.round(h, 1, h))", "round.. takes 1 or 2"),
        ("np.sum(np.round(h, 0.5))", "a whole number"),
        ("np.sum(np.round(h, h))", "a number"),
        ("np.quantile(h, 2)", "0 to 1 are allowed"),
        ("np.percentile(h, 101)", "0 to 100 are allowed"),
        ("np.median(h, 1)", "median.. takes 1"),
    ],
)
def test_functions_are_given_what_they_take(text: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        fields_from({"f": {"expression": text}}, COLUMNS)


def test_comparisons_can_be_counted_and_types_that_do_not_fit_are_said() -> None:
    columns = {"h": np.array([1.0, -2.0, 3.0]), "b": np.array([True, False, True]), "i": np.array([1, 2, 4])}
    points = Points(Cells(np.array([0]), np.array([0]), 3), None, columns)

    def computed(text: str) -> float:
        return float(fields_from({"f": {"expression": text}}, columns)["f"].statistic.compute(points)[0])

    for text, wanted in {
        "np.sum(b + b)": 4,
        "np.sum(-b)": -2,
        "np.sum((h > 0) - b)": 0,
        "np.sum(b * 2.5)": 5,
        "np.sum(b & (h > 2))": 1,
        "np.sum(~b)": 1,
        "np.max(np.power(i, -1))": 1,
        "np.sum(i**-1)": 1.75,
        "np.sum(np.round(h / 3, 1))": 0.6,
        "np.sum(np.clip(h, 0, 2))": 3,
        "np.quantile(h, 1)": 3,
    }.items():
        assert computed(text) == pytest.approx(wanted), text
    for text in ("np.sum(~h)", "np.sum(h & 1)", "np.sum(h | b)"):
        with pytest.raises(SchemaError, match="cannot be computed for columns of these types"):
            computed(text)
