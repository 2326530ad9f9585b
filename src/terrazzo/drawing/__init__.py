"""Drawing: chunk grids, shard maps and presence as SVG, values as PNG, tables and maps as text.

What it does not do: know arrays, stores or documents. Numbers go in, text or bytes come out; nothing is read.
Specification: SVG 1.1 (no script, no style sheet, no reference to anything outside), PNG (ISO/IEC 15948).

Every picture is bounded, whatever the numbers are: lines are thinned and rectangles merged, and the caption says so.
"""

from __future__ import annotations

from terrazzo.drawing.colours import colour_table
from terrazzo.drawing.grid import grid_svg
from terrazzo.drawing.heatmap import heatmap_png
from terrazzo.drawing.presence import presence_svg
from terrazzo.drawing.shard_map import shard_map_png, shard_map_svg, shard_map_text
from terrazzo.drawing.text import nbytes_text, printable, text_table

__all__ = [
    "colour_table",
    "grid_svg",
    "heatmap_png",
    "nbytes_text",
    "presence_svg",
    "printable",
    "shard_map_png",
    "shard_map_svg",
    "shard_map_text",
    "text_table",
]
