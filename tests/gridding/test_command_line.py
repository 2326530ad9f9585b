"""`terrazzo grid` as a stranger meets it: one command to a picture, errors that say what to do, kills and resumes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from terrazzo.cli import main
from tests.gridding.cases import SAMPLES, objects

pytest.importorskip("healpix_geo")
pytest.importorskip("h5py")
pytest.importorskip("yaml")

CONFIG = """
data_source:
  files: {samples}/ATL06_*.h5
  groups: [gt1l, gt1r, gt2l, gt2r, gt3l, gt3r]
  coordinates: {{longitude: "{{group}}/land_ice_segments/longitude", latitude: "{{group}}/land_ice_segments/latitude"}}
  variables: {{h: "{{group}}/land_ice_segments/h_li"}}
  quality_filter: {{dataset: "{{group}}/land_ice_segments/atl06_quality_summary", value: 0}}
aggregation: {{variables: {{count: {{function: count}}, mean: {{function: mean, source: h}}}}}}
output:
  store: out.zarr
  grid: {{type: healpix, parent_order: 6, child_order: 12, chunk_inner: 9, sharded: true}}
execution: {{durability: rename}}
"""
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    (tmp_path / "a.yaml").write_text(CONFIG.format(samples=SAMPLES))

    def call(action: str, *words: str, config: str = "a.yaml") -> tuple[int, str, str]:
        code = main(["grid", action, str(tmp_path / config), *words])
        found = capsys.readouterr()
        return code, found.out, found.err

    return call


def test_one_command_from_files_to_a_picture(command: Command, tmp_path: Path) -> None:
    pictures = [f"--map={tmp_path}/m.svg", f"--picture={tmp_path}/h.png", "--field=mean"]
    code, out, _ = command("run", *pictures)
    assert code == 0 and "22284 points in 254 cells, 14650 filtered" in out and "6 shards: 6 written" in out
    assert (tmp_path / "h.png").read_bytes().startswith(b"\x89PNG") and (tmp_path / "m.svg").exists()
    assert "0 written, 6 current" in command("run")[1]
    for name in ("m.png", "m.geojson"):
        assert (
            command("status", f"--map={tmp_path}/{name}")[0] == 0 and (tmp_path / name).stat().st_size > 500
        )
    assert (
        command("run", f"--picture={tmp_path}/h.svg")[0] == 0 and "<image" in (tmp_path / "h.svg").read_text()
    )
    code, out, err = command("read", "--out=x.jpg")
    assert code == 2 and ".svg or .png" in err


def test_plans_status_audit_and_reading(command: Command, tmp_path: Path) -> None:
    assert command("run", "--quiet")[0] == 0
    code, out, _ = command("plan", "--json", f"--out={tmp_path}/plan.json")
    found = json.loads(out)
    assert (found["shards"], found["points"], found["granules"]) == (6, 22_284, 8)
    assert "6 current" in command("run", f"--plan={tmp_path}/plan.json")[1]
    assert json.loads(command("status", "--json")[1])["chunks"] == 40
    assert command("audit")[0] == 0
    out = command("read", "--box=-50.3,70,-49.9,70.5")[1]
    assert out.splitlines()[0] == "cell,longitude,latitude,count,mean" and len(out.splitlines()) == 5
    cell = out.splitlines()[1].split(",")
    assert json.loads(command("read", f"--point={cell[1]},{cell[2]}")[1])["cell"] == int(cell[0])
    triangle = "--polygon=-50.3,70,-49.9,70,-50.1,70.6"
    assert command("read", triangle, "--json")[0] == 0
    assert command("pyramid", "1")[1].strip() == "made 11"
    assert command("read", f"--out={tmp_path}/x.geojson")[0] == 0
    (tmp_path / "out.zarr/12/count/c/16138").write_bytes(b"short")
    code, out, _ = command("audit")
    assert code == 1 and "its receipt says" in out


def test_a_plan_says_what_a_run_would_take(command: Command, tmp_path: Path) -> None:
    text = CONFIG.format(samples=SAMPLES)
    prices = "durability: rename, prices: {worker_hour: 36, thousand_writes: 1000}"
    (tmp_path / "b.yaml").write_text(text.replace("durability: rename", prices))
    code, out, _ = command("plan", "--json", config="b.yaml")
    found = json.loads(out)
    assert code == 0 and not (tmp_path / "out.zarr").exists(), "nothing is written"
    expected = found["expected"]
    assert expected["probed"] == 3 and 0 < expected["nbytes"] <= found["nbytes"]
    assert expected["objects"] == found["objects"] == 12 and expected["work"] >= expected["seconds"] > 0
    assert expected["cost"] == pytest.approx(expected["work"] / 100 + 12)
    report = json.loads(command("run", "--json", config="b.yaml")[1])
    assert report["objects"] == 12 and abs(report["nbytes"] - expected["nbytes"]) < report["nbytes"]
    assert json.loads(command("plan", "--json", "--quick")[1])["expected"] is None
    assert "about" in command("plan")[1] and "cost" not in command("plan")[1]


WRONG = [
    ("parent_order: 6", "parent_order: 13", "output.grid.child_order is 12.*at least parent_order"),
    ("chunk_inner: 9", "chunk_iner: 9", "output.grid.chunk_iner is unknown; did you mean chunk_inner"),
    ("chunk_inner: 9", "chunk_inner: 6", r"output.grid.sharded is true.*K = 1.*chunk_inner \(6\)"),
    (
        "child_order: 12",
        "child_order: twelve",
        "output.grid.child_order is 'twelve': an integer from 0 to 29",
    ),
    ("sharded: true", "sharded: yess", "output.grid.sharded is 'yess': true, false or"),
    ("durability: rename", "engine: thread", "execution.engine is 'thread'.*did you mean threads"),
    ("durability: rename", "enigne: threads", "execution.enigne is unknown; did you mean engine"),
    ("durability: rename", "workers: 0", "execution.workers is 0; an integer of at least 1"),
    ("durability: rename", "prices: {hour: 1}", "execution.prices.hour is unknown; known are worker_hour"),
    ("durability: rename", "prices: {worker_hour: x}", "execution.prices.worker_hour is 'x'"),
    ("durability: rename", "timeout: -1", "execution.timeout is -1; a number of seconds"),
    ("function: mean", "function: meen", "mean.function is 'meen': did you mean mean"),
    ("source: h", "source: hh", "aggregation.variables.mean uses hh.*there are h"),
    ("source: h", "sorce: h", "mean.sorce is unknown; did you mean source"),
    ("function: mean", "expression: h + 1", "leave source and params out"),
    ("function: count", "function: count, kind: ragged", "count.kind is 'ragged'.*trailing_shape"),
    ("ATL06_*.h5", "none_*.h5", "data_source.files: nothing matches"),
    ("ATL06_*.h5", "none.h5", "data_source.files: there is no file"),
    ("segments/latitude", "segments/lat", "has no dataset 'gt1l/land_ice_segments/lat'"),
    ("land_ice_segments/h_li", "land_ice_segments/hli", "has no dataset 'gt1l/land_ice_segments/hli'"),
    ("quality_filter", "quality_filtr", "data_source.quality_filtr is unknown; did you mean quality_filter"),
    ("value: 0", "vlaue: 0", "quality_filter.vlaue is unknown; did you mean value"),
    ("output:", "outptu:", "outptu is unknown; did you mean output"),
    ("store: out.zarr", "store_layout: hive", "output.store_layout is 'hive'; only flat"),
    ("store: out.zarr", "pyramid: 9", "output.pyramid is 9.*at most 6"),
    ("aggregation: {", "aggregation: [", "is no YAML"),
]


@pytest.mark.parametrize(("good", "bad", "words"), WRONG, ids=[case[1] for case in WRONG])
def test_what_is_wrong_is_said_and_nothing_is_written(
    good: str, bad: str, words: str, command: Command, tmp_path: Path
) -> None:
    import re

    text = CONFIG.format(samples=SAMPLES)
    assert good in text
    (tmp_path / "b.yaml").write_text(text.replace(good, bad))
    code, out, err = command("run", "--quiet", config="b.yaml")
    assert code in (1, 3) and re.search(words, err, re.DOTALL), err
    assert "Traceback" not in err and not (tmp_path / "out.zarr").exists() and out == ""


def test_what_is_not_there_is_said(command: Command, tmp_path: Path) -> None:
    assert command("run", config="none.yaml")[0] == 3
    for action in ("status", "audit", "read"):
        code, _, err = command(action)
        assert code == 3 and "out.zarr" in err, err
    command("run", "--quiet")
    code, _, err = command("read", "--fields=nothing")
    assert code == 3 and "there are count, mean" in err
    code, _, err = command("read", "--box=1,2,3")
    assert code == 2 and "west, south, east, north" in err
    code, _, err = command("read", "--point=500")
    assert code == 2 and "longitude and latitude" in err
    code, _, err = command("read", "--polygon=1,2,3,4,5,x")
    assert code == 2 and "of each corner" in err
    code, _, err = command("run", "--shards=99999999")
    assert code == 1 and "its shards are 0 to 49151" in err
    code, _, err = command("run", "--shards=a")
    assert code == 2 and "whole numbers" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes where it likes")
def test_a_folder_that_cannot_be_written(command: Command, tmp_path: Path) -> None:
    (tmp_path / "out.zarr").mkdir(mode=0o555)
    code, _, err = command("run", "--quiet")
    assert code == 1 and "out.zarr" in err and "Traceback" not in err


def test_shards_that_fail_are_listed_and_the_code_is_not_zero(command: Command, tmp_path: Path) -> None:
    command("run", "--quiet")
    # something is in the way of one shard's object
    gone = tmp_path / "out.zarr/12/mean/c/16160"
    gone.unlink()
    gone.mkdir()
    (gone / "x").write_bytes(b"x")
    code, out, _err = command("run", "--quiet")
    assert code == 1 and "5 current" in out and "1 failed" in out
    assert "shard 16160 failed after" in out
    (gone / "x").unlink()
    gone.rmdir()
    code, out, _ = command("run", "--quiet")
    assert code == 0 and "1 written, 5 current" in out


SLOW = """
import sys, time
from terrazzo.gridding import worker
from terrazzo.gridding import run as running
real = worker.make_shard
def slow(*rest):
    time.sleep(0.4)
    return real(*rest)
running.make_shard = slow
from terrazzo.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_run_that_is_killed_is_resumed(command: Command, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [
        sys.executable,
        "-c",
        SLOW,
        "grid",
        "run",
        str(tmp_path / "a.yaml"),
        "--engine=serial",
        "--quiet",
    ]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL)
    receipts = tmp_path / "out.zarr/12/__receipts"
    end = time.monotonic() + 60
    while len([one for one in receipts.glob("*.json") if one.stem.isdigit()]) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    done = len([one for one in receipts.glob("*.json") if one.stem.isdigit()])
    assert 2 <= done < 6
    code, out, _ = command("run", "--quiet")
    assert code == 0 and f"{6 - done} written, {done} current" in out
    assert command("audit")[0] == 0
    killed = objects(tmp_path / "out.zarr")
    other = tmp_path / "other.zarr"
    assert command("run", "--quiet", f"--store={other}")[0] == 0
    assert killed == objects(other)


def test_create_only_leaves_what_is_there(command: Command, tmp_path: Path) -> None:
    command("run", "--quiet")
    before: dict[str, Any] = objects(tmp_path / "out.zarr")
    text = CONFIG.format(samples=SAMPLES).replace("durability: rename", "create_only: true, resume: false")
    (tmp_path / "b.yaml").write_text(text)
    code, out, _ = command("run", "--quiet", config="b.yaml")
    assert code == 1 and "6 failed" in out and "DuplicateShardError" in out
    assert objects(tmp_path / "out.zarr") == before
