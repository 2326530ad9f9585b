"""Coarser grids equal gridding the points coarser, whether a run makes them or what is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from terrazzo.gridding import Config, GridConfigError, SchemaError, open_grid, run
from terrazzo.gridding.audit import audit
from terrazzo.gridding.pyramid import build_pyramid
from terrazzo.gridding.statistics import digest_quantile
from tests.gridding.cases import GREENLAND, configuration, healpix, segments

pytest.importorskip("healpix_geo")
pytest.importorskip("pyproj")
pytest.importorskip("h5py")

COARSE = {**GREENLAND, "resolution": 2000, "chunk_shape": [64, 64], "chunk_inner": [16, 16]}
BOTH = pytest.mark.parametrize(
    ("keys", "coarse", "names"),
    [
        (healpix(6, 9, 12), healpix(6, 7, 10), ["11", "10"]),
        (healpix(6, 9, 12, sharded=False), healpix(6, 7, 10, sharded=False), ["11", "10"]),
        (GREENLAND, COARSE, ["rectilinear_2", "rectilinear_4"]),
    ],
    ids=["healpix", "plain", "rectilinear"],
)


def of(function: str, **more: Any) -> dict[str, Any]:
    return {"function": function, "source": "h_li", "dtype": "float64", **more}


HISTOGRAM = {"bins": [0, 500, 1000, 1500, 2500]}
#: every statistic that merges
MERGING: dict[str, Any] = {
    "count": {"function": "count"},
    "good": {"function": "count", "source": "holes"},
    "sum": of("sum"),
    "mean": of("mean"),
    "weighted": of("average", params={"weights": "h_li_sigma"}),
    "inverse_variance": of("average", params={"weights": "1 / h_li_sigma**2"}),
    "low": of("min"),
    "high": of("max"),
    "var": of("var"),
    "sample": of("std", params={"ddof": 1}),
    "nanmean": of("nanmean", source="holes"),
    "nanvar": of("nanvar", source="holes"),
    "nanlow": of("nanmin", source="holes"),
    "earliest": of("first", params={"by": "clock"}),
    "bins": {
        "function": "histogram",
        "source": "h_li",
        "params": HISTOGRAM,
        "kind": "vector",
        "trailing_shape": [4],
    },
    "digest": of("tdigest", kind="vector", trailing_shape=[40, 2]),
}
NEVER: dict[str, Any] = {
    "median": of("median"),
    "first": of("first"),
    "span": {"expression": "max(h_li) - min(h_li)"},
}


def points() -> dict[str, Any]:
    found = dict(segments())
    n = len(found["h_li"])
    found["holes"] = np.where(np.arange(n) % 7 < 2, np.nan, found["h_li"])
    found["clock"] = np.random.default_rng(9).permutation(n).astype(np.float64)
    return found


def check(ours: Any, direct: Any, fields: list[str], rel: float) -> None:
    assert ours.grid.shape == direct.grid.shape and ours.grid.sharded == direct.grid.sharded
    found, wanted = ours.everything(fields), direct.everything(fields)
    assert (found.cells == wanted.cells).all()
    for name in fields:
        if name == "digest":
            check_digests(found.values[name], found.cells, ours.grid)
            continue
        spread = name in ("var", "sample", "nanvar")
        # a difference of heights of some hundred metres squared; its digits are those of the means
        floor = rel * 1e6 if spread else 0.0
        np.testing.assert_allclose(
            found.values[name], wanted.values[name], rtol=rel * 10, atol=floor, err_msg=name
        )


def check_digests(digests: Any, cells: Any, grid: Any) -> None:
    """Quantiles of merged digests, by their rank among the points of the cell."""
    given = points()
    owner = grid.locate(given["longitude"], given["latitude"])
    for digest, cell in zip(digests, cells.tolist(), strict=True):
        values = np.sort(given["h_li"][owner == cell].astype(np.float64))
        n = len(values)
        assert np.nansum(digest[:, 1]) == n
        for part in (0.05, 0.5, 0.9):
            found = digest_quantile(digest, part)
            low, high = (
                np.searchsorted(values, found, "left") / n,
                np.searchsorted(values, found, "right") / n,
            )
            assert low - 1 / n - 2 / 40 <= part <= high + 1 / n + 2 / 40


@BOTH
def test_a_run_makes_the_coarser_grids_that_the_points_would(
    keys: dict[str, Any], coarse: dict[str, Any], names: list[str], tmp_path: Path
) -> None:
    config = configuration(keys, {**MERGING, **NEVER}, memory=1 << 16, batch_points=2000)
    config["output"]["pyramid"] = 2
    report = run(config, points(), store=tmp_path / "fine")
    run(configuration(coarse, MERGING), points(), store=tmp_path / "coarse")
    ours, direct = open_grid(tmp_path / "fine", names[-1]), open_grid(tmp_path / "coarse")
    assert sorted(ours.fields) == sorted(MERGING), "what does not merge is left out"
    check(ours, direct, sorted(MERGING), 1e-13)
    assert open_grid(tmp_path / "fine").group.basename not in names
    assert audit(tmp_path / "fine").problems == []
    assert sum(1 for path in (tmp_path / "fine").rglob("c/**/*") if path.is_file()) >= report.objects
    # a second run leaves all of it, and an object that is gone is made again
    assert run(config, points(), store=tmp_path / "fine").written == 0
    gone = next(
        path for path in sorted((tmp_path / "fine" / names[0] / "mean/c").rglob("*")) if path.is_file()
    )
    before = gone.read_bytes()
    gone.unlink()
    assert len(audit(tmp_path / "fine").problems) == 1
    assert run(config, points(), store=tmp_path / "fine").written == 1 and gone.read_bytes() == before
    (gone.parent / "99").write_bytes(b"x")
    assert any("no receipt" in words for words in audit(tmp_path / "fine").problems)


@BOTH
def test_a_pyramid_of_what_is_stored(
    keys: dict[str, Any], coarse: dict[str, Any], names: list[str], tmp_path: Path
) -> None:
    run(configuration(keys, {**MERGING, **NEVER}), points(), store=tmp_path / "fine")
    made, left = build_pyramid(tmp_path / "fine", 2)
    lost = {*NEVER, "weighted", "inverse_variance", "earliest"}
    assert made == names and set(left) == lost
    run(configuration(coarse, MERGING), points(), store=tmp_path / "coarse")
    ours, direct = open_grid(tmp_path / "fine", names[-1]), open_grid(tmp_path / "coarse")
    check(ours, direct, sorted(set(MERGING) - lost), 1e-12)
    # again, and less of it: what was made before goes
    assert build_pyramid(tmp_path / "fine", 1)[0] == names[:1]
    assert not (tmp_path / "fine" / names[1]).exists()
    assert audit(tmp_path / "fine").problems == []


def test_what_a_store_names_is_not_imported(tmp_path: Path) -> None:
    run(configuration(healpix(6, 9, 12), {"n": {"function": "count"}}), segments(), store=tmp_path)
    file = tmp_path / "12/n/zarr.json"
    document = json.loads(file.read_text())
    for function in ("os.getcwd", "np.os.getcwd", 5, "median", "nothing"):
        document["attributes"]["aggregation"] = {"function": function, "source": "h"}
        file.write_text(json.dumps(document))
        with pytest.raises(SchemaError, match="can be merged"):
            build_pyramid(tmp_path, 1)


def test_a_pyramid_has_to_fit(tmp_path: Path) -> None:
    config = configuration(healpix(6, 9, 12), MERGING)
    config["output"]["pyramid"] = 7
    with pytest.raises(GridConfigError, match="at most 6 coarser grids"):
        Config.from_dict(config)
    config = configuration({**GREENLAND, "chunk_inner": [32, 64]}, MERGING)
    config["output"]["pyramid"] = 6
    with pytest.raises(GridConfigError, match="at most 5 coarser grids"):
        Config.from_dict(config)
    config = configuration(healpix(6, 9, 12), NEVER)
    config["output"]["pyramid"] = 1
    with pytest.raises(SchemaError, match="none of the fields"):
        Config.from_dict(config)
    config = configuration(healpix(6, 9, 12), {"n": {"function": "count"}})
    config["output"]["pyramid"] = 6
    assert run(config, segments(), store=tmp_path).written == 6
    assert open_grid(tmp_path, "6").everything().values["n"].sum() == 22_284
