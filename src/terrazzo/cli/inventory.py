"""inventory: which chunks are stored, where and how large; saved as a manifest if asked."""

from __future__ import annotations

import argparse
from typing import Any

from terrazzo.arrays.array import Array
from terrazzo.care.hierarchy import Summary, inventories
from terrazzo.care.presence import presence_map
from terrazzo.cli.output import address_shown, print_fields, print_json, print_lines, write_picture
from terrazzo.cli.selection import parse_selection
from terrazzo.drawing import nbytes_text, printable
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open as open_node
from terrazzo.inventory import Inventory

__all__ = ["NAME", "add_arguments", "run"]

NAME = "inventory"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="an array, or a group with every array below it")
    parser.add_argument("region", metavar="REGION", nargs="?", help="of the array: 0:100,:,5")
    parser.add_argument("--save", metavar="FILE", help="write a manifest")
    parser.add_argument("--against", metavar="FILE", help="tell what changed since a manifest was written")
    parser.add_argument("--map", action="store_true", help="draw which shards are stored, and how full")
    parser.add_argument("--picture", metavar="FILE", help="the same as a picture: FILE.svg or FILE.png")
    parser.add_argument("--slack", action="store_true", help="read the unused bytes and tell slack from them")
    parser.add_argument("--chunks", action="store_true", help="with --json: one line for every stored chunk")


def run(arguments: argparse.Namespace) -> int:
    array = open_node(arguments.url, mode="r")
    if not isinstance(array, Array):
        return _of_group(array, arguments)
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
    summary = Summary.of_inventory(found, array.nchunks)
    if arguments.json:
        told: dict[str, Any] = summary.to_json()
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
    print_fields(_fields(summary))
    return 0


def _of_group(group: Group, arguments: argparse.Namespace) -> int:
    """One line for every array below a group, and all of them together."""
    for word in ("region", "save", "against", "picture"):
        if getattr(arguments, word) is not None:
            raise ValueError(
                f"{word} is for one array, and {address_shown(arguments.url)!r} is a group; name the array"
            )
    if arguments.map or arguments.chunks:
        raise ValueError(
            f"maps and tables are of one array, and {address_shown(arguments.url)!r} is a group; name the array"
        )
    found = inventories(group, slack=arguments.slack, progress=not arguments.quiet)
    nothing = Summary(0, 0, 0, 0, 0, 0, 0, 0 if arguments.slack else None)
    total = sum(found.values(), nothing)
    if arguments.json:
        arrays = {path: summary.to_json() for path, summary in found.items()}
        print_json({"arrays": arrays, "total": total.to_json()})
        return 0
    lines = [
        (
            printable(path),
            f"{one.chunks:,} of {one.of:,} chunks in {one.objects:,} objects of {nbytes_text(one.nbytes)}"
            + (f", {nbytes_text(one.dead_nbytes)} dead" if one.dead_nbytes else ""),
        )
        for path, one in found.items()
    ]
    print_fields([*lines, ("arrays", f"{len(found):,}"), *_fields(total)])
    return 0


def _fields(found: Summary) -> list[tuple[str, object]]:
    slack = "" if found.slack_nbytes is None else f", {nbytes_text(found.slack_nbytes)} of them slack"
    return [
        ("chunks stored", f"{found.chunks:,} of {found.of:,}"),
        ("objects", f"{found.objects:,} of {nbytes_text(found.nbytes)}"),
        ("chunk bytes", nbytes_text(found.chunk_nbytes) + _smaller(found.ratio)),
        ("dead bytes", nbytes_text(found.dead_nbytes) + slack),
    ]


def _smaller(ratio: float) -> str:
    if not ratio:
        return ""
    return (
        f", {ratio:.1f} times smaller than decoded"
        if ratio >= 1
        else f", {1 / ratio:.1f} times larger than decoded"
    )
