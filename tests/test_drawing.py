"""Pictures are checked as what they are: well-formed SVG with the right numbers of things, and PNG that decodes."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from terrazzo.drawing import (
    colour_table,
    grid_svg,
    heatmap_png,
    nbytes_text,
    presence_svg,
    printable,
    shard_map_png,
    shard_map_svg,
    shard_map_text,
    text_table,
)

EMPTY = 2**64 - 1
SVG = "{http://www.w3.org/2000/svg}"


def parse(svg: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    assert root.tag == SVG + "svg"
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    for box in root.iter(SVG + "rect"):
        x, y, w, h = (float(box.get(name, "nan")) for name in ("x", "y", "width", "height"))
        assert w >= 0 and h >= 0
        assert x >= -1 and x + w <= width + 1 and y >= -1 and y + h <= height + 1
    return root


def words(svg: str) -> str:
    return "\n".join(t.text or "" for t in parse(svg).iter(SVG + "text"))


def decode_png(png: bytes) -> np.ndarray:
    """(height, width, 4), by the PNG standard, for palette images with filter 0."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    pieces: dict[bytes, bytes] = {}
    at = 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, content = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + content)
        pieces[kind] = content
        at += 12 + length
    width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", pieces[b"IHDR"])
    assert (depth, colour, rest) == (8, 3, [0, 0, 0])
    lines = np.frombuffer(zlib.decompress(pieces[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not lines[:, 0].any()
    palette = np.frombuffer(pieces[b"PLTE"], np.uint8).reshape(-1, 3)
    alpha = np.full(len(palette), 255, np.uint8)
    alpha[: len(pieces[b"tRNS"])] = np.frombuffer(pieces[b"tRNS"], np.uint8)
    return np.concatenate([palette, alpha[:, None]], axis=1)[lines[:, 1:]]


# text


@pytest.mark.parametrize(
    "nbytes, expected",
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (12_345, "12 kB"),
        (999_600, "1.0 MB"),
        (4_000_000, "4.0 MB"),
        (10**20, "100 EB"),
        (10**23, "100,000 EB"),
    ],
)
def test_sizes_read_as_people_say_them(nbytes: int, expected: str) -> None:
    assert nbytes_text(nbytes) == expected


@given(st.text())
@settings(max_examples=100)
def test_printable_text_never_steers_a_terminal(text: str) -> None:
    shown = printable(text)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)
    assert "\u202e" not in shown
    assert printable(shown) == shown
    if text.isascii() and text.isprintable():
        assert shown == text


def test_printable_names_what_it_hides() -> None:
    assert printable("a\nb\x1b[31m\u202eé\\") == "a\\nb\\x1b[31m\\u202eé\\"
    assert printable("abcdef", 4) == "abc…"


def test_tables_align_and_escape() -> None:
    table = text_table([["a\n", 5], ["longer", 1234]], ["name", "bytes"], right=[1])
    assert table.splitlines() == [
        "name    bytes",
        "------  -----",
        "a\\n         5",
        "longer   1234",
    ]
    assert text_table([]) == ""
    assert text_table([["日本", "x"], ["abcd", "y"]]).splitlines() == ["日本  x", "abcd  y"]


# colours and values


def test_colours_rise_evenly_in_lightness() -> None:
    table = colour_table(64).astype(float) / 255
    linear = np.where(table <= 0.04045, table / 12.92, ((table + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(luminance) > 0).all()
    lightness = 116 * np.cbrt(luminance) - 16
    assert np.diff(lightness).max() < 2.5 * np.diff(lightness).mean()
    with pytest.raises(ValueError, match="at least 1"):
        colour_table(0)


def test_a_picture_of_values_decodes_to_their_order() -> None:
    values = np.arange(6.0).reshape(2, 3)
    values[1, 1] = np.nan
    picture = decode_png(heatmap_png(values, colours="grey"))
    assert picture.shape == (2, 3, 4)
    assert picture[1, 1, 3] == 0 and (picture[..., 3] == 0).sum() == 1
    grey = picture[..., 0].astype(int).reshape(-1)
    assert grey[0] == 1 and grey[5] == 255
    assert (np.diff(np.delete(grey, 4)) > 0).all()


def test_large_pictures_are_averaged() -> None:
    values = np.zeros((10, 3000), np.uint8)
    values[:, 1500:] = 200
    picture = decode_png(heatmap_png(values, longest=100, low=0, high=200, colours="grey"))
    assert picture.shape == (1, 100, 4)
    assert set(picture[0, :50, 0]) == {1} and set(picture[0, 50:, 0]) == {255}


@pytest.mark.parametrize(
    "values", [np.zeros((0, 4)), np.full((3, 3), np.nan), np.array([[np.inf, 1.0]]), np.ones((2, 2), bool)]
)
def test_pictures_of_odd_values(values: np.ndarray) -> None:
    assert decode_png(heatmap_png(values)).ndim == 3


@pytest.mark.parametrize(
    "values, message",
    [
        (np.zeros(3), "choose two"),
        (np.zeros((2, 2), complex), "real numbers"),
        (np.array([["a"]]), "real numbers"),
    ],
)
def test_pictures_of_what_is_no_picture(values: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        heatmap_png(values)


# grids


def test_a_grid_says_shapes_and_sizes() -> None:
    svg = grid_svg((300, 400, 500), (25, 25, 25), (100, 100, 100), ("z", "y", None), itemsize=4)
    shown = words(svg)
    for expected in (
        "array 300 × 400 × 500, 240 MB",
        "60 shards (3 × 4 × 5)",
        "shard 100 × 100 × 100, 4.0 MB",
        "64 inner chunks (4 × 4 × 4)",
        "inner chunk 25 × 25 × 25, 62 kB",
        "y 400",
        "z 300",
    ):
        assert expected in shown.splitlines()


def test_a_grid_draws_every_boundary_once_per_face() -> None:
    root = parse(grid_svg((30, 40), (10, 10)))
    (path,) = root.iter(SVG + "path")
    assert (path.get("d") or "").count("M") == 2 + 3


def test_a_grid_thins_its_lines_and_says_so() -> None:
    svg = grid_svg((10**9, 10**6), (1, 1), names=["time", None])
    assert len(svg) < 20_000
    assert "drawn along time" in words(svg) and "drawn along dimension 1" in words(svg)


def test_a_grid_escapes_names() -> None:
    svg = grid_svg((4,), (2,), names=['<script>&"'])
    parse(svg)
    assert "<script" not in svg


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_grid_can_be_drawn(data: st.DataObject) -> None:
    ndim = data.draw(st.integers(0, 6))
    extents = st.integers(0, 10**12)
    shape = data.draw(st.tuples(*[extents] * ndim))
    inner = data.draw(st.tuples(*[st.integers(1, 1000)] * ndim))
    counts = data.draw(st.tuples(*[st.integers(1, 1000)] * ndim))
    shards = tuple(i * c for i, c in zip(inner, counts, strict=True)) if data.draw(st.booleans()) else None
    assert len(grid_svg(shape, inner, shards, itemsize=8)) < 60_000
    parse(grid_svg(shape, inner, shards))


def test_rectilinear_grids_have_their_own_edges() -> None:
    svg = grid_svg((60, 100), ([10, 20, 30], [50, 25, 25]))
    assert "9 chunks (3 × 3) of 10 × 50" in words(svg)
    (path,) = parse(svg).iter(SVG + "path")
    assert (path.get("d") or "").count("M") == 4


def test_grids_of_unequal_ranks_are_refused() -> None:
    with pytest.raises(ValueError, match="chunks has 1 entries for an array of 2 dimensions"):
        grid_svg((3, 4), (1,))


# shards


def shard(
    counts: tuple[int, ...], nbytes: int = 100, gap: int = 0, start: bool = False
) -> tuple[np.ndarray, int]:
    n = int(np.prod(counts))
    entries = np.empty((n, 2), np.uint64)
    at = 16 * n + 4 if start else 0
    for i in range(n):
        entries[i] = at, nbytes
        at += nbytes + gap
    return entries, at + (0 if start else 16 * n + 4)


def test_a_shard_map_accounts_for_every_byte() -> None:
    entries, size = shard((2, 3), gap=20)
    entries[4] = EMPTY
    svg = shard_map_svg(entries, size, (-100, None), (2, 3), title="c/0/1")
    shown = words(svg)
    # six gaps of 20 bytes, and the 100 of the absent chunk
    assert "5 of 6 inner chunks, 500 B of 820 B; dead space 220 B (27%); index 100 B at the end" in shown
    titles = [t.text for t in parse(svg).iter(SVG + "title")]
    assert "inner chunk (1, 2): bytes 600 to 700 (100 B)" in titles
    assert not any("inner chunk (1, 1)" in (t or "") for t in titles)


def test_a_shard_map_with_the_index_first() -> None:
    entries, size = shard((4,), start=True)
    assert "index 68 B at the start" in words(shard_map_svg(entries, size, (0, 68), (4,)))


def test_a_large_shard_map_is_bounded() -> None:
    entries, size = shard((64, 64, 16), nbytes=1000)
    svg = shard_map_svg(entries, size, (-(16 * 65536 + 4), None), (64, 64, 16))
    assert 1000 < sum(1 for _ in parse(svg).iter(SVG + "rect")) <= 2100
    assert "many chunks share one cell" in words(svg)


def test_overlaps_and_entries_outside_are_said() -> None:
    entries = np.array([[0, 100], [50, 100], [2**63, 2**63], [150, 2**64 - 2]], np.uint64)
    shown = words(shard_map_svg(entries, 300, (-68, None), (4,)))
    assert "2 entries reach past the end of the shard" in shown
    assert "118 B belong to more than one" in shown  # 50 of two chunks, 68 of a chunk and the index


def test_compression_colours_need_the_raw_size() -> None:
    entries, size = shard((4,))
    entries[0, 1] = 10
    assert "100×" in words(shard_map_svg(entries, size, None, (4,), colour="ratio", chunk_nbytes=1000))
    with pytest.raises(ValueError, match="chunk_nbytes"):
        shard_map_svg(entries, size, None, (4,), colour="ratio")


def test_a_shard_map_as_text() -> None:
    entries, size = shard((4,), nbytes=64, gap=0)
    text = shard_map_text(entries, size + 32, (-68, None), (4,), width=16, rows=4)
    lines = text.splitlines()
    assert (
        "".join(line.split()[-1] for line in lines[:4])
        == "0" * 11 + "c" * 10 + "n" * 11 + "z" * 11 + "." * 5 + "#" * 12
    )
    assert "4 of 4 inner chunks" in lines[-1]


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_any_index_can_be_drawn(data: st.DataObject) -> None:
    """Hostile entries too: what a broken shard looks like is the point of the map."""
    n = data.draw(st.integers(1, 30))
    number = st.one_of(st.integers(0, 2000), st.integers(0, 2**64 - 1))
    entries = np.array(data.draw(st.lists(st.tuples(number, number), min_size=n, max_size=n)), np.uint64)
    size = data.draw(st.integers(0, 2000))
    where = data.draw(st.sampled_from([None, (-(16 * n + 4), None), (0, 16 * n + 4)]))
    parse(shard_map_svg(entries, size, where, (n,)))
    shard_map_text(entries, size, where, (n,), width=20, rows=5)


def test_entries_must_fit_the_grid() -> None:
    with pytest.raises(ValueError, match=r"\(6, 2\) is needed"):
        shard_map_svg(np.zeros((4, 2), np.uint64), 10, None, (2, 3))


# presence


def test_presence_counts_shards_and_chunks() -> None:
    counts = np.array([[0, 4, 2], [4, 0, 0]])
    svg = presence_svg(counts, 4, ("lat", "lon"), title="temperature")
    assert "3 of 6 shards exist, 2 of them full; 10 of 24 inner chunks" in words(svg)
    assert "down: lat, across: lon" in words(svg)
    outlined = [box for box in parse(svg).iter(SVG + "rect") if box.get("fill") == "none"]
    assert len(outlined) == 3 + 1  # and one in the legend


@pytest.mark.parametrize(
    "shape", [(), (1,), (300,), (0, 3), (500, 700), (12, 4, 6, 9), (100, 100, 100), (10**5, 1)]
)
def test_presence_is_bounded(shape: tuple[int, ...]) -> None:
    counts = np.random.default_rng(0).integers(0, 2, shape)
    svg = presence_svg(counts)
    assert sum(1 for _ in parse(svg).iter(SVG + "rect")) <= 2100
    assert f"of {counts.size:,} chunks exist" in words(svg)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="0 to 4 are possible"):
        presence_svg([5], 4)
    with pytest.raises(ValueError, match="names has 1 entries"):
        presence_svg([[1]], 4, ["x"])


def test_a_shard_map_as_pixels() -> None:
    """Every byte has a colour: chunks those of the table, the index red, dead space grey, slack light grey."""
    entries = np.array([[0, 1000], [1500, 500], [2**64 - 1, 2**64 - 1], [2000, 300]], np.uint64)
    size = 3000
    drawn = shard_map_png(entries, size, (-200, None), (2, 2), slack=[(1250, 1500)], title="c/0/0")
    assert drawn.startswith(b"\x89PNG\r\n\x1a\n")
    assert b"c/0/0: colours from inner chunk 0 (dark)" in drawn
    start = drawn.index(b"IDAT")
    nbytes = int.from_bytes(drawn[start - 4 : start], "big")
    height = int.from_bytes(drawn[20:24], "big")
    lines = np.frombuffer(zlib.decompress(drawn[start + 4 : start + 4 + nbytes]), np.uint8)
    pixels = lines.reshape(height, -1)[:, 1:]
    assert decode_png(drawn).shape[:2] == pixels.shape
    row = pixels[height // 2, 3:643]
    of_kind = {
        kind: np.count_nonzero(row == number) / 640 for kind, number in (("index", 253), ("dead", 254))
    }
    assert of_kind == pytest.approx({"index": 200 / size, "dead": (250 + 500) / size}, abs=0.01)
    assert np.count_nonzero(row == 255) / 640 == pytest.approx(250 / size, abs=0.01)
    assert np.count_nonzero((row > 0) & (row < 253)) / 640 == pytest.approx(1800 / size, abs=0.01)
    assert (pixels[0] == 0).all(), "around it the page is seen"
    assert shard_map_png(np.full((1, 2), 2**64 - 1, np.uint64), 0, None, ()).startswith(b"\x89PNG")
