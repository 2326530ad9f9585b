"""What a folder answers: at the root a page or a few lines about the node there, below it a listing where that is on.

What it does not do: run anything in a browser, load anything, or name anything that documents or `listing` do not.

Every name is text of others: it is escaped where it is shown, and percent-encoded where it is a link.
"""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import quote

from terrazzo.arrays.array import Array
from terrazzo.drawing import printable
from terrazzo.errors import KeyRefusedError, MetadataError, NodeNotFoundError, StoreError, TerrazzoError
from terrazzo.groups.group import Group
from terrazzo.groups.opening import open as open_node
from terrazzo.serve.application import Application, Refusal
from terrazzo.serve.objects import key_of
from terrazzo.stores.keys import check_prefix
from terrazzo.stores.store import Store

if TYPE_CHECKING:
    from starlette.responses import Response

__all__ = ["folder_response", "openings", "without_root"]

#: the page's own style and the pictures' are written in it; nothing else is let in
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = "body{font:15px/1.4 sans-serif;margin:2em;max-width:70em}pre{background:#f4f2ee;padding:.8em;overflow:auto}"
_SHOWN = 1000  # names in one listing
_DRAWN = 40  # nodes on the page


def folder_response(application: Application, path: str, html: bool) -> Response:
    """The answer to a GET of the root ("") or of a path that ends with a slash."""
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse

    if path:
        if not application.listing or key_of(path[:-1], application.hidden) is None:
            raise _absent(path)
        keys, prefixes, more = _listed(application, path)
        if not keys and not prefixes:
            raise _absent(path)
        if not html:
            return JSONResponse({"keys": keys, "prefixes": prefixes, "complete": not more})
        body = f"<h1>{_text(path)}</h1>" + _links(path, keys, prefixes, more)
        return HTMLResponse(_document(path, body), headers={"Content-Security-Policy": _POLICY})
    if not html:
        if application.listing:
            keys, prefixes, more = _listed(application, "")
            return JSONResponse({"keys": keys, "prefixes": prefixes, "complete": not more})
        lines = openings(application.store, application.address or "")
        return PlainTextResponse("\n".join(f"{what}: {line}" for what, line in lines) + "\n")
    return HTMLResponse(_root(application), headers={"Content-Security-Policy": _POLICY})


def openings(store: Store, address: str) -> list[tuple[str, str]]:
    """How the node at the root is opened from elsewhere: (with what, the line), only ones that work."""
    node = root_node(store)
    lines = [("address", address or "/")]
    if node is None:
        return lines
    if node.metadata.zarr_format == 3:
        lines.append(("document", f"{address}zarr.json"))
    lines.append(("Python", f'terrazzo.open("{address}")'))
    kind = "array" if isinstance(node, Array) else "group"
    store_line = f'new zarr.FetchStore("{address.rstrip("/")}")'
    lines.append(("JavaScript", f'zarr.open({store_line}, {{ kind: "{kind}" }})  // zarrita'))
    if isinstance(node, Array) and node.metadata.zarr_format in (2, 3):
        lines.append(("neuroglancer", f"zarr{node.metadata.zarr_format}://{address}"))
    return lines


def root_node(store: Store) -> Array | Group | None:
    """The array or group whose document lies at the root, where one can be read."""
    try:
        return open_node(store, mode="r")
    except (TerrazzoError, OSError, ValueError):
        return None


def without_root(store: Store) -> str:
    """Why there is no node at the root, in words that anybody may read."""
    try:
        open_node(store, mode="r")
    except MetadataError as error:  # the document itself is served, too
        return f"What lies at the root cannot be opened: {error}"
    except NodeNotFoundError:
        pass
    except (TerrazzoError, OSError, ValueError):  # this may name files
        return "What lies at the root cannot be read."
    return "No array or group lies at the root of this store."


def _root(application: Application) -> str:
    store = application.store
    node = root_node(store)
    parts = ["<h1>terrazzo</h1>"]
    if node is None:
        parts.append(f"<p>{_text(without_root(store), 500)}</p>")
    else:
        lines = "\n".join(f"{what}: {line}" for what, line in openings(store, application.address or ""))
        parts.append(f"<pre>{_text(lines, None)}</pre>")
        parts.append(_drawn(node))
        if isinstance(node, Group) and (
            application.listing or node.metadata.consolidated_metadata is not None
        ):
            parts += _members(node)
    if application.listing:
        parts.append(_links("", *_listed(application, "")))
    return _document("terrazzo", "".join(parts))


def _members(group: Group) -> list[str]:
    """What lies below a group, each group before what is in it."""
    parts: list[str] = []
    waiting: list[tuple[str, Array | Group]] = [("", group)]
    drawn = 0
    while waiting and drawn <= _DRAWN:
        path, node = waiting.pop()
        drawn += 1
        if path:
            parts.append(f"<h2>{_text(path)}</h2>{_drawn(node)}")
        if isinstance(node, Group):
            try:
                found = sorted(islice(node.members(), _DRAWN), reverse=True, key=lambda pair: pair[0])
            except TerrazzoError as error:
                parts.append(f"<p>{_text(error, 300)}</p>")
                continue
            waiting += [(f"{path}/{name}" if path else name, member) for name, member in found]
    if waiting:
        parts.append(f"<p>There is more; {_DRAWN} nodes are drawn.</p>")
    return parts


def _drawn(node: Array | Group) -> str:
    return node._repr_html_()


def _listed(application: Application, path: str) -> tuple[list[str], list[str], bool]:
    """Names of keys and prefixes that may be seen, and whether there are more."""
    try:
        keys, prefixes = application.store.list_dir(check_prefix(path))
    except (KeyRefusedError, StoreError):
        raise _absent(path) from None
    seen = [key.removeprefix(path) for key in keys if key_of(key, application.hidden) is not None]
    below = [one.removeprefix(path) for one in prefixes if key_of(one[:-1], application.hidden) is not None]
    more = len(seen) > _SHOWN or len(below) > _SHOWN
    return seen[:_SHOWN], below[:_SHOWN], more


def _links(path: str, keys: list[str], prefixes: list[str], more: bool) -> str:
    names = [*prefixes, *keys]
    # "./" first: a name with a colon would be an address of another scheme
    items = "".join(f'<li><a href="./{quote(name, safe="/")}">{_text(name)}</a></li>' for name in names)
    rest = f"<p>… and more; {_SHOWN} of each kind are shown.</p>" if more else ""
    return f"<ul>{items}</ul>{rest}"


def _document(title: str, body: str) -> str:
    head = f"<meta charset=utf-8><title>{_text(title)}</title><style>{_STYLE}</style>"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>"


def _text(text: object, longest: int | None = 200) -> str:
    lines = str(text).split("\n")
    return "\n".join(escape(printable(line, longest)) for line in lines)


def _absent(path: str) -> Refusal:
    return Refusal(404, f"nothing is stored under {printable(path, 200)}")
