"""A real volume poured into shards, looked at, read back in pieces, changed, and compared with its source.

Run by `make demo`; writes the array and two pictures below demo-output/, and prints what was measured.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np

import terrazzo
from terrazzo.drawing import heatmap_png, shard_map_svg

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "data" / "mni152-t1-head.nii.gz"
CHUNKS, SHARDS = (32, 32, 32), (128, 128, 128)


def main() -> None:
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "demo-output"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)

    image = nibabel.load(SOURCE)
    head = np.asarray(image.dataobj)
    print(f"source       {SOURCE.name}: {head.shape} voxels of {head.dtype}, {megabytes(head.nbytes)}")

    path = output / "head.zarr"
    array, seconds = timed(lambda: pour(path, head, image.affine))
    stored = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(f"written      {seconds * 1e3:7.1f} ms, {megabytes(stored)} in {len(objects(path))} shards\n")
    print(array.info, "\n")

    array = terrazzo.open_array(path, mode="r")
    whole, seconds = timed(lambda: array[...])
    same("the whole", whole, head)
    print(f"whole        {seconds * 1e3:7.1f} ms, {head.nbytes / seconds / 1e6:,.0f} MB/s")

    middle, seconds = timed(lambda: array[:, :, 94])
    same("a slice", middle, head[:, :, 94])
    print(f"one slice    {seconds * 1e3:7.1f} ms for {middle.shape}")

    boxes = random_boxes(head.shape, edge=20, count=300)
    found, seconds = timed(lambda: [array[box] for box in boxes])
    for box, piece in zip(boxes, found, strict=True):
        same(f"box {box}", piece, head[box])
    print(
        f"random boxes {seconds / len(boxes) * 1e3:7.2f} ms each, {len(boxes)} of 20 x 20 x 20 at any place"
    )

    change(path, head)
    picture(output / "slice.png", middle)
    shard_map(output / "shard.svg", objects(path)[0])
    print(
        f"\nall equal to the source; see {output.name}/slice.png, {output.name}/shard.svg, {output.name}/head.zarr"
    )


def pour(path: Path, head: np.ndarray[Any, Any], affine: np.ndarray[Any, Any]) -> terrazzo.Array:
    return terrazzo.create_array(
        store=path,
        data=head,
        chunks=CHUNKS,
        shards=SHARDS,
        dimension_names=("x", "y", "z"),
        attributes={"affine": affine.tolist(), "units": "mm"},
    )


def change(path: Path, head: np.ndarray[Any, Any]) -> None:
    """Write a box that meets many chunks of several shards; nothing around it may change."""
    array = terrazzo.open_array(path, mode="r+")
    box = (slice(100, 150), slice(90, 140), slice(110, 160))
    inverted = 255 - head[box]
    _, seconds = timed(lambda: array.__setitem__(box, inverted))
    wanted = head.copy()
    wanted[box] = inverted
    same("the volume after a write", terrazzo.open_array(path, mode="r")[...], wanted)
    print(
        f"changed      {seconds * 1e3:7.1f} ms for a box of {inverted.shape} across shards, durable on return"
    )
    array[box] = head[box]


def picture(path: Path, plane: np.ndarray[Any, Any]) -> None:
    """The slice as a radiologist turns it: front at the top."""
    path.write_bytes(heatmap_png(plane.T[::-1], colours="grey"))


def shard_map(path: Path, shard: Path) -> None:
    """The bytes of one shard: its chunks in the order in which they lie, and its index at the end."""
    content = shard.read_bytes()
    grid = [outer // inner for outer, inner in zip(SHARDS, CHUNKS, strict=True)]
    index_nbytes = 16 * int(np.prod(grid)) + 4  # pairs of offset and nbytes, and a checksum
    entries = np.frombuffer(content[-index_nbytes:-4], "<u8").reshape(-1, 2)
    title = f"one shard of the head: {len(entries)} inner chunks of 32 x 32 x 32"
    nbytes = int(np.prod(CHUNKS))
    drawn = shard_map_svg(
        entries,
        len(content),
        (-index_nbytes, index_nbytes),
        grid,
        colour="ratio",
        chunk_nbytes=nbytes,
        title=title,
    )
    path.write_text(drawn, encoding="utf-8")


def objects(path: Path) -> list[Path]:
    return sorted(file for file in (path / "c").rglob("*") if file.is_file())


def random_boxes(shape: tuple[int, ...], edge: int, count: int) -> list[tuple[slice, ...]]:
    rng = np.random.default_rng(7)
    starts = rng.integers([extent - edge for extent in shape], size=(count, len(shape)))
    return [tuple(slice(int(start), int(start) + edge) for start in row) for row in starts]


def same(what: str, found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> None:
    if not np.array_equal(found, wanted):
        raise SystemExit(f"{what}: differs from the source")


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = call()
    return found, time.perf_counter() - start


def megabytes(nbytes: int) -> str:
    return f"{nbytes / 1e6:.2f} MB"


if __name__ == "__main__":
    main()
