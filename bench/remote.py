"""Reading over a network: requests, bytes and seconds of terrazzo and of the other libraries, on the same bytes.

    python bench/remote.py                       the table, printed; a few minutes
    python bench/remote.py --write docs/bench    the same, written as remote.md
    python bench/remote.py --rows whole,8        only those sections (open, whole, 8, a[, 50 one, 50 at once)

A server on loopback answers every request after 20 ms, with ranges, and counts; every library reads from it in
processes of its own, in turns. Figures are medians over the turns of the first call of each row, as nobody asks twice
for the same.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import hashlib
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

LATENCY = 0.02
EDGE, SHARD, INNER = 512, 256, 32
LAYOUT = "shard32-zstd"
BUCKET = "bucket"  # the same objects by the paths that S3's clients ask for
PATIENCE = 8.0  # a library that takes longer than this for its rows runs twice
Box = tuple[slice, ...]


# -- the server -------------------------------------------------------------------------------------------------------


class Server(asyncio.Protocol):
    """HTTP/1.1 on one connection: GET and HEAD with ranges and conditions, each answered `LATENCY` later."""

    objects: dict[str, bytes] = {}
    requests = sent = 0

    def connection_made(self, transport: Any) -> None:
        self.transport, self.waiting = transport, b""

    def data_received(self, received: bytes) -> None:
        self.waiting += received
        while b"\r\n\r\n" in self.waiting:
            head, _, self.waiting = self.waiting.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            method, path, _ = first.split(" ", 2)
            headers = {
                name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines)
            }
            if path == "/counts":
                counts = json.dumps([Server.requests, Server.sent]).encode()
                self.answer("200 OK", counts, {})
                continue
            Server.requests += 1
            asyncio.get_running_loop().call_later(LATENCY, self.respond, method, path, headers)

    def respond(self, method: str, path: str, headers: dict[str, str]) -> None:
        value = Server.objects.get(path.partition("?")[0].removeprefix(f"/{BUCKET}").strip("/"))
        if value is None:
            self.answer("404 Not Found", b"", {})
            return
        tag = f'"{tag_of(value)}"'
        told = {"ETag": tag, "Accept-Ranges": "bytes", "Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT"}
        if headers.get("if-match", tag) not in (tag, "*"):
            self.answer("412 Precondition Failed", b"", {})
            return
        if headers.get("if-none-match") == tag:
            self.answer("304 Not Modified", b"", told)
            return
        status, body = "200 OK", memoryview(value)
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", headers.get("range", ""))
        if asked is not None:
            size = len(value)
            start = max(0, size - int(asked[2])) if not asked[1] else int(asked[1])
            stop = size if not asked[1] or not asked[2] else min(size, int(asked[2]) + 1)
            status, body = "206 Partial Content", body[start:stop]
            told["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        if method == "HEAD":
            self.answer(status, b"", {**told, "Content-Length": str(len(body))})
            return
        Server.sent += len(body)
        self.answer(status, body, told)

    def answer(self, status: str, body: bytes | memoryview, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status}"]
        lines += [f"{name}: {text}" for name, text in ({"Content-Length": str(len(body))} | headers).items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode())
        if len(body):
            self.transport.write(body)


def tag_of(value: bytes) -> str:
    found = TAGS.get(id(value))
    if found is None:
        found = TAGS[id(value)] = hashlib.blake2b(value, digest_size=8).hexdigest()
    return found


TAGS: dict[int, str] = {}


def serve(folder: str) -> None:
    """Serve every file below a folder; prints the port."""
    root = Path(folder)
    Server.objects = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    for value in Server.objects.values():
        tag_of(value)

    async def go() -> None:
        server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(go())


# -- the libraries ----------------------------------------------------------------------------------------------------


class Terrazzo:
    label, packages = "terrazzo, http", ("terrazzo", "aiohttp")

    def __init__(self, url: str) -> None:
        import terrazzo

        self.array = terrazzo.open_array(url, mode="r")

    def read(self, box: Box) -> Any:
        return self.array[box]

    def read_many(self, boxes: list[Box]) -> list[Any]:
        return list(self.array.read_many(boxes))


class TerrazzoS3(Terrazzo):
    label, packages = "terrazzo, s3", ("terrazzo", "obstore")

    def __init__(self, url: str) -> None:
        import terrazzo

        origin, _, path = url.rpartition("/")
        options = {"endpoint_url": origin, "anon": True, "region": "us-east-1"}
        self.array = terrazzo.open_array(f"s3://{BUCKET}/{path}", mode="r", storage_options=options)


class ZarrFused:
    label, packages = "zarr-python, fused", ("zarr", "obstore")
    settings: dict[str, Any] = {"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"}

    def __init__(self, url: str) -> None:
        import zarr

        zarr.config.set(self.settings)
        self.array = zarr.open_array(self.store(url), mode="r")

    def store(self, url: str) -> Any:
        from obstore.store import HTTPStore
        from zarr.storage import ObjectStore

        return ObjectStore(HTTPStore.from_url(url, client_options={"allow_http": True}), read_only=True)

    def read(self, box: Box) -> Any:
        return self.array[box]

    def read_many(self, boxes: list[Box]) -> list[Any]:
        from zarr.core.sync import sync

        async def gather() -> list[Any]:
            return await asyncio.gather(*(self.array.async_array.getitem(box) for box in boxes))

        return sync(gather())


class ZarrZarrs(ZarrFused):
    label, packages = "zarr-python + zarrs", ("zarr", "zarrs", "fsspec", "aiohttp")
    settings = {"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True}

    def store(self, url: str) -> Any:
        import zarrs  # noqa: F401
        from zarr.storage import FsspecStore

        return FsspecStore.from_url(url, read_only=True)


class Tensorstore:
    label, packages = "tensorstore", ("tensorstore",)
    cache_nbytes = 0

    def __init__(self, url: str) -> None:
        import tensorstore

        context = {"cache_pool": {"total_bytes_limit": self.cache_nbytes}} if self.cache_nbytes else {}
        kvstore = {"driver": "http", "base_url": url + "/"}
        spec: dict[str, Any] = {"driver": "zarr3", "kvstore": kvstore, "context": context}
        if self.cache_nbytes:
            spec["recheck_cached_data"] = False
        self.array = tensorstore.open(spec, open=True, read=True).result()

    def read(self, box: Box) -> Any:
        return self.array[box].read().result()

    def read_many(self, boxes: list[Box]) -> list[Any]:
        return [future.result() for future in [self.array[box].read() for box in boxes]]


class TensorstoreCached(Tensorstore):
    label, cache_nbytes = "tensorstore, cache", 1 << 30


class Zarrista:
    label, packages = "zarrista, async", ("zarrista", "obstore")
    loop = None

    def __init__(self, url: str) -> None:
        from obstore.store import HTTPStore
        from zarrista import AsyncArray

        store = HTTPStore.from_url(url, client_options={"allow_http": True})
        self.array = self._run(lambda: AsyncArray.open(store, "/"))

    def _run(self, call: Callable[[], Any]) -> Any:
        if Zarrista.loop is None:
            Zarrista.loop = asyncio.new_event_loop()

        async def waited() -> Any:
            return await call()

        return Zarrista.loop.run_until_complete(waited())

    def read(self, box: Box) -> Any:
        found = self._run(lambda: self.array.retrieve_array_subset(box)).to_numpy()
        return found.reshape([n for n, part in zip(found.shape, box, strict=True) if isinstance(part, slice)])

    def read_many(self, boxes: list[Box]) -> list[Any]:
        async def gather() -> list[Any]:
            return await asyncio.gather(*(self.array.retrieve_array_subset(box) for box in boxes))

        return [found.to_numpy() for found in self._run(gather)]


LIBRARIES: dict[str, Any] = {
    "terrazzo": Terrazzo,
    "terrazzo-s3": TerrazzoS3,
    "zarr-fused": ZarrFused,
    "zarr-zarrs": ZarrZarrs,
    "tensorstore": Tensorstore,
    "tensorstore-cache": TensorstoreCached,
    "zarrista": Zarrista,
}


# -- one process of one library ---------------------------------------------------------------------------------------


def blocks(n: int, seed: int) -> list[Box]:
    """Whole inner chunks at random, all different."""
    grid = EDGE // INNER
    chosen = np.random.default_rng(seed).choice(grid**3, n, replace=False)
    starts = INNER * np.stack(np.unravel_index(chosen, (grid,) * 3), axis=1)
    return [tuple(slice(s, s + INNER) for s in start) for start in starts.tolist()]


def cube(start: int, edge: int) -> Box:
    return (slice(start, start + edge),) * 3


CORNER = cube(SHARD - 4 * INNER, 8 * INNER)


def work(order: dict[str, Any]) -> dict[str, Any]:
    """Every row once, in a process that has read something else before."""
    make, origin = LIBRARIES[order["library"]], f"http://127.0.0.1:{order['port']}"
    values = np.load(order["values"], mmap_mode="r")
    control = http.client.HTTPConnection("127.0.0.1", order["port"])
    rows: dict[str, Any] = {}

    def counts() -> list[int]:
        control.request("GET", "/counts")
        return json.loads(control.getresponse().read())

    def row(name: str, call: Callable[[], Any], boxes: list[Box] | None = None) -> Any:
        before, start, cpu = counts(), time.perf_counter(), time.process_time()
        found = call()
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        after = counts()
        rows[name] = {
            "seconds": seconds,
            "cpu": cpu,
            "requests": after[0] - before[0],
            "nbytes": after[1] - before[1],
        }
        for box, part in zip(
            boxes or (), found if isinstance(found, list) else [found], strict=boxes is not None
        ):
            if not np.array_equal(np.asarray(part), values[box]):
                raise AssertionError(f"{order['library']}, {name}: what was read is not what was written")
        return found

    def opened() -> Any:
        return make(f"{origin}/array.zarr")

    def reading(name: str, array: Any, box: Box) -> None:
        row(name, lambda: array.read(box), [box])

    def inner_chunks() -> None:
        array = row("open", opened)
        reading("inner chunk, new shard", array, cube(0, INNER))
        reading("inner chunk, known shard", array, cube(INNER, INNER))
        reading("2 × 2 × 2 inner chunks, known shard", array, cube(2 * INNER, 2 * INNER))

    def whole_shard() -> None:
        whole = (slice(0, SHARD), slice(SHARD, EDGE), slice(0, SHARD))
        reading("whole shard (512 inner chunks)", opened(), whole)

    def corner() -> None:
        array = opened()
        reading("8 × 8 × 8 inner chunks over 8 shards, new", array, CORNER)
        if order["library"] != "tensorstore-cache":  # it has them decoded
            reading("the same, known", array, CORNER)

    def plane() -> None:
        array, k = opened(), SHARD + 40
        row("a[:, :, k]", lambda: array.read((slice(None), slice(None), k)), [(slice(None), slice(None), k)])

    def one_by_one() -> None:
        array, boxes = opened(), blocks(50, 1)
        row("50 random inner chunks, one by one", lambda: [array.read(box) for box in boxes], boxes)

    def at_once() -> None:
        array, boxes = opened(), blocks(50, 2)
        row("50 random inner chunks at once, new", lambda: array.read_many(boxes), boxes)
        others = blocks(50, 3)
        row("50 others at once, known", lambda: array.read_many(others), others)

    sections = {
        "open": inner_chunks,
        "whole": whole_shard,
        "8": corner,
        "a[": plane,
        "50 one": one_by_one,
        "50 at once": at_once,
    }
    make(f"{origin}/warm.zarr").read(cube(0, 8))
    for name, section in sections.items():
        if not order["rows"] or any(name.startswith(one) for one in order["rows"]):
            section()
    return rows


# -- the table --------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", metavar="FOLDER", help="write remote.md there")
    parser.add_argument("--turns", type=int, default=5, help="processes of each library (default 5)")
    parser.add_argument("--libraries", default=",".join(LIBRARIES), help="some, with commas between")
    parser.add_argument("--rows", default="", help="sections, with commas between")
    parser.add_argument("--reuse", metavar="FOLDER", help="a folder for the arrays that is kept")
    parser.add_argument("--role", choices=("serve", "work"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.role == "serve":
        serve(asked.folder)
        return
    if asked.role == "work":
        print("ANSWER " + json.dumps(work(json.load(sys.stdin))))
        return
    with tempfile.TemporaryDirectory(prefix="terrazzo-remote-") as temporary:
        folder = Path(asked.reuse or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows = [name for name in asked.rows.split(",") if name]
        measured, loads = commit(), [os.getloadavg()[0]]
        runs = measure(folder, asked.libraries.split(","), asked.turns, rows)
        loads.append(os.getloadavg()[0])
        text = page(runs, asked.turns, measured, loads)
    print(text)
    if asked.write:
        Path(asked.write, "remote.md").write_text(text)


def measure(folder: Path, names: list[str], turns: int, rows: list[str]) -> dict[str, list[dict[str, Any]]]:
    values = prepare(folder)
    serving = [sys.executable, __file__, "--role", "serve", "--folder", str(folder / "served")]
    with subprocess.Popen(serving, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
            for turn in range(turns):
                shift = turn % len(names)
                for name in names[shift:] + names[:shift]:
                    if turn > 1 and total(runs[name][0]) > PATIENCE:
                        continue
                    runs[name].append(
                        one({"library": name, "port": port, "values": str(values), "rows": rows})
                    )
                    print(f"{turn} {name} {total(runs[name][-1]):.1f} s", file=sys.stderr, flush=True)
            return runs
        finally:
            server.terminate()


def total(rows: dict[str, Any]) -> float:
    return sum(row["seconds"] for row in rows.values())


def one(order: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--role", "work"],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        timeout=300,
    )
    for line in done.stdout.splitlines():
        if line.startswith("ANSWER "):
            return json.loads(line.removeprefix("ANSWER "))
    raise SystemExit(f"{order['library']}: {done.stderr[-2000:]}")


def prepare(folder: Path) -> Path:
    """The arrays, as zarr-python writes them; answers the file of values."""
    from volumes import LAYOUTS, Quarry

    quarry = Quarry(folder, (EDGE,) * 3)
    served = folder / "served"
    layout = LAYOUTS[LAYOUT]
    values = quarry.values(layout)
    if not served.exists():
        stored = quarry.array(layout)
        unfinished = folder / "unfinished"
        unfinished.mkdir(exist_ok=True)
        os.rename(stored, unfinished / "array.zarr")
        import zarr

        warm = zarr.create_array(str(unfinished / "warm.zarr"), shape=(64,) * 3, chunks=(16,) * 3, dtype="u2")
        warm[...] = 1
        os.rename(unfinished, served)
    return values


def commit() -> str:
    """Of terrazzo, where this is a checkout."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    found = subprocess.run(asked, capture_output=True, text=True)
    return found.stdout.strip() or f"version {version('terrazzo')}"


def page(runs: dict[str, list[dict[str, Any]]], turns: int, measured: str, loads: list[float]) -> str:
    names = list(runs)
    packages = sorted({package for name in names for package in LIBRARIES[name].packages} - {"terrazzo"})
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    lines = [
        "# Reading over a network",
        "",
        f"Measured {datetime.date.today().isoformat()} by `bench/remote.py` on {os.cpu_count()} cores (the "
        f"machine's load was {loads[0]:.0f} before and {loads[1]:.0f} after), terrazzo {measured}, {versions}: a "
        f"server on loopback that answers each request after {1000 * LATENCY:.0f} ms, with ranges. One array of "
        f"{EDGE} × {EDGE} × {EDGE} uint16, written by zarr-python: 8 shards of {SHARD}³, inner chunks of {INNER}³, "
        f"zstd. Every process reads another array first. A cell holds requests / KiB / seconds (seconds "
        f"of the processor, the server's apart); medians over {turns} processes of each library in turns (2 for those "
        "that take long). The fastest of each row is bold; "
        "caches of decoded chunks stand apart. Where terrazzo is not the fastest, [missed figures](../missed.md) says "
        "why.",
        "",
        "| | " + " | ".join(LIBRARIES[name].label for name in names) + " |",
        "| --- " + "| ---: " * len(names) + "|",
    ]
    for title in runs[names[0]][0]:
        found = {
            name: {
                what: statistics.median(run[title][what] for run in runs[name])
                for what in ("seconds", "cpu", "requests", "nbytes")
            }
            for name in names
            if title in runs[name][0]
        }
        best = min(row["seconds"] for name, row in found.items() if "cache" not in name)
        cells = []
        for name in names:
            row = found.get(name)
            if row is None:
                cells.append("–")
                continue
            text = f"{row['requests']:.0f} / {row['nbytes'] / 1024:,.0f} / {row['seconds']:.3f} ({row['cpu']:.3f})"
            cells.append(f"**{text}**" if row["seconds"] == best and "cache" not in name else text)
        lines.append("| " + " | ".join([title, *cells]) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
