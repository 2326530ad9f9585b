"""Ray and Lithops write the same bytes; run where one of them is installed (`make engines`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from terrazzo.gridding import run
from tests.gridding.cases import ATL06, HEIGHTS, configuration, healpix, objects

pytest.importorskip("healpix_geo")
pytest.importorskip("h5py")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ray", "lithops"])
def test_the_same_bytes(engine: str, tmp_path: Path) -> None:
    pytest.importorskip(engine)
    config = configuration(healpix(6, 9, 12), HEIGHTS, ATL06, workers=2)
    run(config, store=tmp_path / "serial")
    report = run(config, store=tmp_path / "other", engine=engine)
    assert report.points == 22_284 and report.written == 6
    assert objects(tmp_path / "other") == objects(tmp_path / "serial")
