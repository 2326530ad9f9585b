"""The check of a hierarchy: every document, every key, every shard index, and on request every chunk.

What it does not do: change anything, or trust anything. What cannot be read is a problem with a place, not an error;
only a place without any node is one.
Specification: Zarr core 3.0, "Hierarchy"; sharding_indexed 1.0, "Binary shard format".
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from terrazzo.arrays.array import Array
from terrazzo.arrays.documents import document_key, read_contents
from terrazzo.arrays.place import StorePath
from terrazzo.care.beside import UNPLACED, is_saved
from terrazzo.care.objects import check_objects
from terrazzo.care.report import Findings, Report
from terrazzo.config import options_from
from terrazzo.errors import NodeNotFoundError, TerrazzoError
from terrazzo.groups.formats import settled
from terrazzo.groups.places import place_of, trusted
from terrazzo.metadata import ArrayMetadata, GroupMetadata, Node, is_node_name, parse_node, sort_key
from terrazzo.options import Options
from terrazzo.progress import Progress, follow

__all__ = ["check"]


def check(
    node: Any,
    *,
    verify_data: bool = False,
    max_seconds: float | None = None,
    progress: Progress = None,
    storage_options: dict[str, Any] | None = None,
) -> Report:
    """Look at an array, or at a group with all that is below it, and report what is wrong.

    node: an Array, a Group, or anything that `open` takes. verify_data: decode every stored chunk too, which reads
    everything. max_seconds: stop looking after so long; the report says what was not looked at, and is not `ok`.
    progress: counts stored objects. Raises NodeNotFoundError where there is no node.
    """
    place = place_of(node, mode="r", storage_options=storage_options)
    options = trusted(node, options_from({"missing": "fill"}))
    place = settled(place, options)
    findings = Findings(max_seconds)
    findings.verified = verify_data
    arrays = list(_documents(place, options, findings))
    total = sum(prod(array.shard_grid_shape) for array in arrays)
    with follow(progress, total, "checking") as step:
        for number, array in enumerate(arrays):
            if findings.late():
                findings.leave(*(one.name for one in arrays[number:]))
                return findings.report()
            left = prod(array.shard_grid_shape)
            for _ in check_objects(array, findings, verify_data):
                if left:
                    step(1)
                    left -= 1
                if findings.late():
                    findings.leave(*(one.name for one in arrays[number:]))
                    return findings.report()
            step(left)  # what is not stored needs no look
    return findings.report()


def _documents(place: StorePath, options: Options, findings: Findings) -> Iterator[Array]:
    """Every array whose document can be read, from the top down; problems of documents and of groups on the way."""
    store = place.store
    findings.listed = store.listable
    known: dict[str, dict[str, Any]] = {}
    consolidated: list[tuple[str, GroupMetadata]] = []
    waiting = [(place.path, 0)]
    while waiting:
        path, depth = waiting.pop()
        if findings.late():
            findings.leave(*("/" + one for one, _ in [(path, depth), *reversed(waiting)]))
            return
        node = _node(place, path, options, findings)
        if node is None:
            continue
        known[path] = node.to_document()
        if isinstance(node, ArrayMetadata):
            try:
                array = Array(store, path, node, options, read_only=True)
            except TerrazzoError as error:
                findings.add("document", "/" + path, document_key(path), str(error))
                continue
            findings.arrays += 1
            yield array
            continue
        findings.groups += 1
        if node.consolidated is not None:
            consolidated.append((path, node))
        if not store.listable:
            continue
        if depth >= options.limits.depth:
            findings.add(
                "document", "/" + path, document_key(path), f"groups are nested more than {depth} levels deep"
            )
            continue
        prefix = f"{path}/" if path else ""
        keys, prefixes = store.list_dir(prefix)
        for key in keys:
            if key != document_key(path):
                findings.add("foreign", "/" + path, key, f"{key!r} lies in a group and is not its document")
        names = [found[len(prefix) : -1] for found in prefixes]
        # names that begin with "__" are kept for extensions: what lies there is theirs
        waiting += [
            (prefix + name, depth + 1)
            for name in sorted(names, key=sort_key, reverse=True)
            if is_node_name(name)
        ]
    for path, node in consolidated:
        _compare_consolidated(path, node, known, findings)


def _node(place: StorePath, path: str, options: Options, findings: Findings) -> Node | None:
    key = document_key(path)
    try:
        (content,) = read_contents(place.store, [path], options)
        if content is not None:
            return parse_node(content, key, options)
    except (TerrazzoError, OSError) as error:
        findings.add(
            "document" if not isinstance(error, OSError) else "unreadable", "/" + path, key, str(error)
        )
        return None
    if path != place.path and _saved_by_repair(place, path, findings):
        return None
    if path == place.path:
        raise NodeNotFoundError(f"there is no array and no group at {place.name!r} in {place.store}")
    stray = next(iter(place.store.list_prefix(path + "/")), None)
    if stray is not None:
        findings.add(
            "orphan",
            "/" + path,
            stray,
            f"keys such as {stray!r} lie below {'/' + path!r}, which has no document",
        )
    return None


def _saved_by_repair(place: StorePath, path: str, findings: Findings) -> bool:
    """Whether a folder without a document is what a repair in place saved beside an array; then it is noted."""
    store = place.store
    array = path.removesuffix(UNPLACED)
    if array == path or not store.exists(document_key(array)):
        return False
    keys = list(store.list_prefix(path + "/"))
    if not keys or not all(is_saved(key.removeprefix(path + "/")) for key in keys):
        return False
    nbytes = sum(store.getsize(key) or 0 for key in keys)
    files = "file" if len(keys) == 1 else "files"
    unfinished = any("/journal/" in key for key in keys)
    what = "; that repair was cut off: repair in place again, which finishes it" if unfinished else ""
    findings.note(
        "saved",
        "/" + array,
        path + "/",
        nbytes,
        f"{path + '/'!r} has {len(keys):,} {files} of {nbytes:,} bytes that a repair of {'/' + array!r} saved; delete "
        f"the folder when you need none of them{what}",
    )
    return True


def _compare_consolidated(
    path: str, group: GroupMetadata, known: dict[str, dict[str, Any]], findings: Findings
) -> None:
    """Problems where the consolidated metadata of a group differ from the documents below it."""
    assert group.consolidated is not None
    prefix = f"{path}/" if path else ""
    told = group.consolidated.documents
    found = {name.removeprefix(prefix) for name in known if name != path and name.startswith(prefix)}
    stale = [f"{name!r} is there and left out" for name in sorted(found - set(told))]
    if findings.listed:
        stale += [f"{name!r} is told of and not there" for name in sorted(set(told) - found)]
    for name in sorted(found & set(told)):
        here, there = _comparable(known[prefix + name]), _comparable(group.member(name).to_document())
        differing = sorted(
            member for member in here.keys() | there.keys() if here.get(member) != there.get(member)
        )
        if differing:
            stale.append(f"{name!r} differs in {', '.join(differing)}")
    if stale:
        more = f" and {len(stale) - 3} more" if len(stale) > 3 else ""
        findings.add(
            "consolidated",
            "/" + path,
            document_key(path),
            f"the consolidated metadata are out of date: {'; '.join(stale[:3])}{more}; consolidate again",
        )


def _comparable(document: dict[str, Any]) -> dict[str, Any]:
    return {member: value for member, value in document.items() if member != "consolidated_metadata"}
