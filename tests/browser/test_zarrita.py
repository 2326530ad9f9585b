"""zarrita.js in headless Chromium reads sharded arrays from `terrazzo serve`, at another origin than its page's.

Not part of `make test`: `make browser` gets Chromium and the npm packages, and runs it.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

import terrazzo
from terrazzo.codecs.blosc import BloscCodec
from terrazzo.serve import Server, serve

HERE = Path(__file__).resolve().parent
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
SHAPE = (50, 70)
Y, X = np.mgrid[: SHAPE[0], : SHAPE[1]]
WAVES = (100 * np.sin(X / 8) * np.cos(Y / 6)).astype("f4")

#: name -> (values, how the array is made)
ARRAYS: dict[str, tuple[np.ndarray[Any, Any], dict[str, Any]]] = {
    "zstd": (WAVES, {"compressors": "zstd:3"}),
    "zstd-checked": (WAVES.astype("f8"), {"compressors": "zstd:3,crc32c"}),
    "gzip": (WAVES.astype("i2"), {"compressors": "gzip:5"}),
    "blosc-lz4": (WAVES.astype("i4"), {"compressors": BloscCodec(cname="lz4", clevel=5)}),
    "blosc-zstd": ((WAVES * 1e6).astype("i8"), {"compressors": BloscCodec(cname="zstd", clevel=5)}),
    "bare": (np.abs(WAVES).astype("u1"), {"compressors": None}),
    "plain": (WAVES, {"compressors": "zstd:3", "shards": None}),
    "deep/er": (WAVES.astype("u2"), {"compressors": "zstd:3", "attributes": {"unit": "m", "π": [1, None]}}),
    "holes": (
        np.where((X > 40) & (Y < 20), WAVES, 7).astype("f4"),
        {"fill_value": 7, "compressors": "zstd:3"},
    ),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("browser") / "b.zarr"
    root = terrazzo.create_group(folder)
    for name, (values, how) in {**ARRAYS, "start": (WAVES, {"index_location": "start"})}.items():
        settings = {"chunks": (8, 10), "shards": (24, 40), **how}
        array = root.create_array(name, shape=SHAPE, dtype=values.dtype, **settings)
        array[:] = values
    return folder


class Recorded:
    """An application that notes every request and the status of its answer."""

    def __init__(self, application: Any) -> None:
        self.application = application
        self.seen: list[tuple[str, str, str, int]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        told = dict(scope["headers"]).get(b"range", b"").decode()

        async def noted(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.seen.append((scope["method"], scope["path"], told, message["status"]))
            await send(message)

        await self.application(scope, receive, noted)


@pytest.fixture
def server(store: Path) -> Iterator[Server]:
    server = serve(store)
    server.stop()
    server = Server(server.store)
    server.application = Recorded(server.application)  # type: ignore[assignment]
    with server:
        yield server


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """The address of the page: of the same machine, at another port, so of another origin."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(HERE))
    ) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{pages.server_port}/page.html"
        pages.shutdown()


def driven(page: str, server: Server, arrays: list[str], picture: Path, suffix: bool = False) -> Any:
    assert CHROMIUM, "there is no chromium; `make browser` gets it"
    asked = {"store": server.address, "arrays": arrays, "suffix": suffix, "drawn": ["zstd", "gzip", "holes"]}
    command = ["node", "drive.mjs", f"{page}#{quote(json.dumps(asked))}", str(picture), CHROMIUM]
    ended = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)["result"]


def as_told(values: np.ndarray[Any, Any]) -> list[Any]:
    return values.ravel().tolist()


def numbers(found: list[str], values: np.ndarray[Any, Any]) -> list[Any]:
    """What JavaScript wrote as text, as numbers: exact for both."""
    return [float(one) if values.dtype.kind == "f" else int(one) for one in found]


@pytest.mark.parametrize("suffix", [False, True])
def test_every_codec_reads_the_same_numbers(server: Server, page: str, tmp_path: Path, suffix: bool) -> None:
    kept = os.environ.get("SCREENSHOTS")
    picture = Path(kept or tmp_path) / f"zarrita{'-suffix' if suffix else ''}.png"
    result = driven(page, server, list(ARRAYS), picture, suffix)
    assert result.pop("origin") not in server.address
    assert {name: found.get("error") for name, found in result.items() if "error" in found} == {}
    for name, (values, how) in ARRAYS.items():
        found = result[name]
        assert found["shape"] == list(SHAPE) and found["dtype"] == values.dtype.name
        assert numbers(found["values"], values) == as_told(values), name
        assert numbers(found["corner"], values) == as_told(values[3:9, 5:12]), name
        assert found["attributes"] == how.get("attributes", {})
    assert picture.stat().st_size > 5000
    seen = server.application.seen  # type: ignore[attr-defined]
    assert {status for _, _, _, status in seen} <= {200, 204, 206, 304, 404}
    shards = [
        (method, told, status) for method, path, told, status in seen if "/c/" in path and "plain" not in path
    ]
    ranged = [(told, status) for method, told, status in shards if method == "GET"]
    # 304: the browser kept a range, and asked whether it still holds
    assert ranged and all(told and status in (206, 304, 404) for told, status in ranged)
    if suffix:
        assert any(method == "OPTIONS" and status == 204 for method, _, status in shards)
        assert any(told.startswith("bytes=-") and status == 206 for told, status in ranged)
    else:
        assert any(method == "HEAD" and status == 200 for method, _, status in shards)
        assert not any(told.startswith("bytes=-") for told, _ in ranged)


def test_what_it_says_of_an_index_at_the_start(server: Server, page: str, tmp_path: Path) -> None:
    """zarrita 0.7.5 looks for the index at the end, wherever the document says it is."""
    found = driven(page, server, ["start"], tmp_path / "start.png")["start"]
    assert "values" not in found or numbers(found["values"], WAVES) != as_told(WAVES)
    print("index at the start:", found.get("error", "wrong numbers"), found.get("cause", ""))
