"""info: what an array or a group is, and with --stored what is stored of it."""

from __future__ import annotations

import argparse
from math import prod
from typing import Any

from terrazzo.arrays.array import Array
from terrazzo.cli.output import address_shown, print_fields, print_json, short_json
from terrazzo.drawing import nbytes_text
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open as open_node

__all__ = ["NAME", "add_arguments", "array_json", "run"]

NAME = "info"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="an array or a group")
    parser.add_argument("--stored", action="store_true", help="count what is stored: reads every shard index")


def run(arguments: argparse.Namespace) -> int:
    node = open_node(arguments.url, mode="r")
    if isinstance(node, Group):
        described = _group_json(node, arguments.url)
    else:
        described = array_json(node, arguments.url)
        if arguments.stored:
            described["stored"] = _stored_json(node)
    if arguments.json:
        print_json(described)
    else:
        print_fields(_group_fields(described) if isinstance(node, Group) else _array_fields(described))
    return 0


def array_json(array: Array, url: str | None = None) -> dict[str, Any]:
    """An array as stable keys; what the document says in the document's own form."""
    document = array.metadata.to_document()
    sharded = array.layout.sharding is not None
    regular = array.layout.grid.uniform_shape is not None
    sizes = list(map(list, array.write_chunk_sizes)) if not regular else None
    return {
        "kind": "array",
        **({} if url is None else {"url": address_shown(url)}),
        "zarr_format": document.get("zarr_format"),
        "shape": list(array.shape),
        "data_type": document.get("data_type"),
        "chunks": list(array.chunks) if regular or sharded else sizes,
        "shards": (list(array.shards or ()) if regular else sizes) if sharded else None,
        "dimension_names": document.get("dimension_names"),
        "fill_value": document.get("fill_value"),
        "codecs": document.get("codecs"),
        "nbytes": array.nbytes,
        "nchunks": array.nchunks,
        "nshards": prod(array.shard_grid_shape) if sharded else None,
        "attributes": document.get("attributes", {}),
    }


def _stored_json(array: Array) -> dict[str, Any]:
    found = array.inventory()
    return {
        "nbytes": int(found.sizes.sum()),
        "objects": len(found.keys),
        "chunks": len(found),
        "dead_nbytes": int(found.dead.sum()),
    }


def _group_json(group: Group, url: str) -> dict[str, Any]:
    listable = group.store.listable or group.metadata.consolidated is not None
    return {
        "kind": "group",
        "url": address_shown(url),
        "zarr_format": group.metadata.zarr_format,
        "arrays": sorted(group.array_keys()) if listable else None,
        "groups": sorted(group.group_keys()) if listable else None,
        "consolidated": group.metadata.consolidated is not None,
        "attributes": dict(group.attrs),
    }


def _array_fields(described: dict[str, Any]) -> list[tuple[str, object]]:
    def times(shape: list[Any] | None) -> str:
        if shape is None:
            return "none"
        return " × ".join(f"{n:,}" if isinstance(n, int) else short_json(n, 40) for n in shape) or "scalar"

    names = described["dimension_names"]
    fields: list[tuple[str, object]] = [
        ("kind", "array"),
        ("url", described["url"]),
        ("shape", times(described["shape"]) + (f" ({', '.join(n or '-' for n in names)})" if names else "")),
        ("data type", _named(described["data_type"])),
        ("fill value", short_json(described["fill_value"])),
        ("size", nbytes_text(described["nbytes"])),
    ]
    if described["nshards"] is not None:
        fields.append(("shards", f"{times(described['shards'])}, {described['nshards']:,} in all"))
        fields.append(("inner chunks", f"{times(described['chunks'])}, {described['nchunks']:,} in all"))
    else:
        fields.append(("chunks", f"{times(described['chunks'])}, {described['nchunks']:,} in all"))
    fields.append(("codecs", _chain(described["codecs"])))
    stored = described.get("stored")
    if stored is not None:
        share = described["nbytes"] / stored["nbytes"] if stored["nbytes"] else 0
        ratio = f", {share:.1f} times smaller" if share > 1 else ""
        fields.append(("stored", f"{nbytes_text(stored['nbytes'])} in {stored['objects']:,} objects{ratio}"))
        fields.append(("chunks stored", f"{stored['chunks']:,} of {described['nchunks']:,}"))
        fields.append(("dead space", nbytes_text(stored["dead_nbytes"])))
    return fields + _attribute_fields(described)


def _group_fields(described: dict[str, Any]) -> list[tuple[str, object]]:
    def listed(names: list[str] | None) -> str:
        if names is None:
            return "not known: the store cannot list"
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        return f"{len(names)}" + (f": {', '.join(names[:10])}{more}" if names else "")

    return [
        ("kind", "group"),
        ("url", described["url"]),
        ("arrays", listed(described["arrays"])),
        ("groups", listed(described["groups"])),
        ("consolidated", "yes" if described["consolidated"] else "no"),
        *_attribute_fields(described),
    ]


def _attribute_fields(described: dict[str, Any]) -> list[tuple[str, object]]:
    return [(f"@{name}", short_json(value)) for name, value in described["attributes"].items()]


def _named(extension: Any) -> str:
    return extension if isinstance(extension, str) else short_json(extension)


def _chain(codecs: Any) -> str:
    """Codecs by name with their configurations; those inside shards in brackets."""
    parts = []
    for codec in codecs or []:
        name = codec if isinstance(codec, str) else codec.get("name", "?")
        configuration = {} if isinstance(codec, str) else dict(codec.get("configuration") or {})
        if name == "sharding_indexed":
            parts.append(f"{name}[{_chain(configuration.get('codecs'))}]")
            continue
        words = ", ".join(
            f"{key}={value}" for key, value in configuration.items() if not isinstance(value, (dict, list))
        )
        parts.append(f"{name}({words})" if words else name)
    return " > ".join(parts)
