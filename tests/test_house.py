"""The house holds: who may import whom, how long a file may be, what it may be called, what may be imported early.

The table below is the plan of the house as data. A new room needs a line here and a sketch of what it does to
requests, bytes and copies.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOUSE = ROOT / "src" / "terrazzo"
KERNEL = ROOT / "kernel"
LONGEST = 500

#: open to every room
OPEN = {"errors", "options"}

#: room -> the rooms it stands on, besides itself and the open ones
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "options": set(),
    "config": set(),
    "drawing": set(),
    "blocks": set(),
    "progress": set(),
    "metadata": set(),
    "chunk_grid": set(),
    "chunk_keys": set(),
    "shard": set(),
    "foreign": set(),
    "stores": set(),
    "codecs": {"metadata", "shard"},
    "dialects": {"metadata", "chunk_keys", "stores"},
    "indexing": {"chunk_grid"},
    "shapes": {"chunk_grid"},
    "layout": {"codecs", "metadata", "chunk_grid", "chunk_keys", "shard"},
    "strategy": {"shard"},
    "index": {"codecs", "layout", "shard", "stores"},
    "transformers": {"metadata", "index", "layout", "shard", "chunk_grid", "chunk_keys", "stores"},
    "read": {"index", "layout", "codecs", "indexing", "shard", "stores"},
    "write": {"foreign", "read", "index", "strategy", "layout", "indexing", "shard", "stores"},
    "inventory": {"read", "index", "layout", "indexing", "shard", "stores"},
    "writer": {"write", "index", "strategy", "layout", "indexing", "stores"},
    "arrays": {
        *("writer", "inventory", "write", "read", "index", "strategy", "layout", "indexing", "transformers"),
        *(
            "chunk_grid",
            "chunk_keys",
            "shapes",
            "codecs",
            "metadata",
            "stores",
            "drawing",
            "config",
            "dialects",
        ),
    },
    "groups": {
        *("arrays", "layout", "strategy", "metadata", "transformers", "stores"),
        *("drawing", "config", "progress", "dialects"),
    },
}
#: these stand on groups and arrays and all that those stand on, but not on one another
UPPER = ("care", "importing", "containers", "gridding", "adapters", "serve")
FOUNDATION = set(ROOMS)
for upper in UPPER:
    ROOMS[upper] = set(FOUNDATION)
ROOMS["api"] = set(FOUNDATION)
ROOMS["storage"] = {"arrays", "groups", "stores"}
#: these stand on everything
ROOMS["cli"] = set(ROOMS)
ROOMS["__init__"] = set(ROOMS)
ROOMS["__main__"] = {"cli"}

#: the only files that know the native door
DOOR = {
    "codecs/native.py",
    "layout.py",
    "read/cached.py",
    "read/decode.py",
    "read/small.py",
    "write/encoding.py",
    "stores/local.py",
}

#: words that name nothing
EMPTY_NAMES = {"util", "utils", "common", "manager", "info", "data", "helpers", "misc"}

PYTHON_FILES = sorted(HOUSE.rglob("*.py"))
RUST_FILES = sorted(path for path in KERNEL.rglob("*.rs") if "target" not in path.relative_to(KERNEL).parts)


def house_path(path: Path) -> str:
    return path.relative_to(HOUSE).as_posix()


def room_of(path: Path) -> str:
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


def imports(path: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that is imported; `from a import b` counts as `a.b`."""
    package = ["terrazzo", *path.relative_to(HOUSE).parts[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            for alias in node.names:
                yield node.lineno, ".".join([*base, *filter(None, [node.module]), alias.name])


def early_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What is imported when the module is, outside functions; blocks for type checkers do not run."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.lineno, node.module
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting.extend(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))
            if isinstance(node, ast.Try):
                waiting.extend(statement for handler in node.handlers for statement in handler.body)


def test_the_table_has_no_circle() -> None:
    done: set[str] = set()
    left = {room: below - OPEN - {room} for room, below in ROOMS.items()}
    while left:
        free = {room for room, below in left.items() if below <= done | OPEN}
        assert free, f"these rooms stand on one another: {sorted(left)}"
        done |= free
        left = {room: below for room, below in left.items() if room not in free}


@pytest.mark.parametrize("path", PYTHON_FILES, ids=house_path)
def test_imports_only_what_the_room_stands_on(path: Path) -> None:
    room = room_of(path)
    assert room in ROOMS, f"{room!r} is not a room of the house: give it a line in the table"
    allowed = ROOMS[room] | OPEN | {room}
    wrong = []
    for line, name in imports(path, ast.parse(path.read_text(encoding="utf-8"))):
        parts = name.split(".")
        if parts[0] != "terrazzo":
            continue
        below = parts[1] if len(parts) > 1 else "__init__"
        if below == "_kernel":
            if house_path(path) not in DOOR:
                wrong.append(f"line {line}: {name} (only {sorted(DOOR)} know the native door)")
        elif below not in allowed:
            wrong.append(f"line {line}: {name} ({room} stands on {sorted(allowed - {room})})")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", PYTHON_FILES, ids=house_path)
def test_only_numpy_is_imported_early(path: Path) -> None:
    """An optional package is imported where it is used, so that `import terrazzo` needs numpy alone."""
    known = set(sys.stdlib_module_names) | {"terrazzo", "numpy"}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    wrong = [f"line {line}: {name}" for line, name in early_imports(tree) if name.split(".")[0] not in known]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "path", [*PYTHON_FILES, *RUST_FILES], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_no_file_is_too_long(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST, f"{lines} lines: look for two nouns in it, and split"


@pytest.mark.parametrize("path", PYTHON_FILES, ids=house_path)
def test_a_file_says_what_it_is(path: Path) -> None:
    assert not EMPTY_NAMES & set(path.stem.split("_")), f"{path.stem!r} names nothing"
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), (
        "the first lines say what the file is"
    )


def test_every_room_of_the_table_that_exists_is_found() -> None:
    """Guards the tests above against looking at an empty folder."""
    assert {"errors", "options", "stores", "codecs"} <= {room_of(path) for path in PYTHON_FILES}
