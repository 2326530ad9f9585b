"""inventory: which chunks are stored, where and how large; saved as a manifest if asked."""

from __future__ import annotations

import argparse
from typing import Any

from terrazzo.care.presence import presence_map
from terrazzo.cli.output import print_fields, print_json, print_lines, write_picture
from terrazzo.cli.selection import parse_selection
from terrazzo.drawing import nbytes_text
from terrazzo.groups.opening import open_array
from terrazzo.inventory import Inventory

__all__ = ["NAME", "add_arguments", "run"]

NAME = "inventory"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="an array")
    parser.add_argument("region", metavar="REGION", nargs="?", help="of the array: 0:100,:,5")
    parser.add_argument("--save", metavar="FILE", help="write a manifest")
    parser.add_argument("--against", metavar="FILE", help="tell what changed since a manifest was written")
    parser.add_argument("--map", action="store_true", help="draw which shards are stored, and how full")
    parser.add_argument("--picture", metavar="FILE", help="the same as a picture: FILE.svg or FILE.png")
    parser.add_argument("--slack", action="store_true", help="read the unused bytes and tell slack from them")
    parser.add_argument("--chunks", action="store_true", help="with --json: one line for every stored chunk")


def run(arguments: argparse.Namespace) -> int:
    array = open_array(arguments.url, mode="r")
    if arguments.against is not None:
        stale = Inventory.load(arguments.against).stale_keys(array)
        if arguments.json:
            print_json({"stale": bool(stale), "keys": stale})
        else:
            shown = [("stale", "yes" if stale else "no"), ("objects that changed", f"{len(stale):,}")]
            print_fields([*shown, *(("", key) for key in stale[:20])])
        return 1 if stale else 0
    region = None
    if arguments.region is not None:
        box = parse_selection(arguments.region, array.shape)
        region = tuple(
            entry if isinstance(entry, int) else slice(entry.start, entry.stop, entry.step)
            for entry in box.entries
        )
    if arguments.map or arguments.picture is not None:
        drawn = presence_map(array, region)
        if arguments.picture is not None:
            write_picture(arguments.picture, drawn.svg, drawn.png)
        if arguments.map and not arguments.json:
            print_lines(str(drawn))
            return 0
    found = array.inventory(region, slack=arguments.slack)
    if arguments.save is not None:
        found.save(arguments.save)
    if arguments.json:
        told: dict[str, Any] = {
            "chunks": len(found),
            "chunks_of_array": array.nchunks,
            "objects": len(found.keys),
            "nbytes": int(found.sizes.sum()),
            "chunk_nbytes": found.stored_nbytes,
            "dead_nbytes": found.dead_nbytes,
            "slack_nbytes": found.slack_nbytes,
            "ratio": found.ratio,
        }
        if arguments.chunks:
            told["table"] = [
                {"chunk": chunk, "key": found.keys[number], "offset": offset, "nbytes": nbytes}
                for chunk, number, offset, nbytes in zip(
                    found.chunks.tolist(),
                    found.object.tolist(),
                    found.offset.tolist(),
                    found.nbytes.tolist(),
                    strict=True,
                )
            ]
        print_json(told)
        return 0
    print_fields(
        [
            ("chunks stored", f"{len(found):,} of {array.nchunks:,}"),
            ("objects", f"{len(found.keys):,} of {nbytes_text(int(found.sizes.sum()))}"),
            (
                "chunk bytes",
                f"{nbytes_text(found.stored_nbytes)}, {found.ratio:.1f} times smaller than decoded",
            ),
            (
                "dead bytes",
                nbytes_text(found.dead_nbytes)
                + (f", {nbytes_text(found.slack_nbytes or 0)} of them slack" if arguments.slack else ""),
            ),
        ]
    )
    return 0
