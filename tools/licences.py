"""Look at the licences of everything that is built with, linked or installed, and keep their texts for the wheel.

usage: python -m tools.licences [--write] [FOLDER ...]

Compares what `cargo metadata` and the installed distributions say of themselves with the lists below; asks nobody
over a network. --write: make licences/crates.txt and docs/licences.md anew; without it they are compared. FOLDER: more
environments whose packages are looked at, such as .venv-peers.

What it does not do: give advice on law. A licence that is not in the lists is a question for a person.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ROOT / "licences" / "crates.txt"
PAGE = ROOT / "docs" / "licences.md"

#: what may be in the wheel: text and copyright have to be passed on, and that is all
LINKED = frozenset(
    {"MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib", "0BSD", "Unicode-3.0", "CC0-1.0"}
)
#: what may be beside it: built or tested with, or installed by whoever wants an extra
BESIDE = LINKED | {
    *("MIT-0", "MPL-2.0", "PSF-2.0", "CNRI-Python", "BSD", "LGPL-2.1", "LGPL-2.1-or-later"),
    *("Apache-2.0 WITH LLVM-exception", "MIT-CMU"),
}
#: C and C++ inside crates, whose licence is its own; a crate that links something has to be here
VENDORED: dict[str, tuple[str, ...]] = {
    "blosc-src": (),  # carries no text: licences/c-blosc.txt
    "libdeflate-sys": ("libdeflate/COPYING",),
    "libz-sys": ("src/zlib/LICENSE",),
    "link-cplusplus": (),  # the system's C++ library, which is not in the wheel
    "lz4-sys": ("liblz4/lib/LICENSE",),
    "pyo3": (),
    "pyo3-ffi": (),
    "snappy_src": ("snappy/COPYING",),
    "zstd-sys": ("zstd/LICENSE",),
}
#: crates whose text lies in licences/ under another name
BY_HAND = {"blosc-src": "c-blosc.txt"}

#: what packages call licences that have a name of their own
_SPELLINGS = {
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache software license 2.0": "Apache-2.0",
    "bsd license": "BSD",
    "new bsd": "BSD",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd 3-clause license": "BSD-3-Clause",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mit no attribution license (mit-0)": "MIT-0",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "license :: osi approved :: bsd license": "BSD",
    "dual license": "",  # its classifiers say which
}
#: what packages say nowhere that a program can read
_UNSAID = {"geoarrow-rust-core": "MIT OR Apache-2.0", "ps-mem": "LGPL-2.1", "ptyprocess": "ISC"}
_TOKEN = re.compile(r"\(|\)|[A-Za-z0-9.+-]+")


def allowed(expression: str, among: Iterable[str]) -> bool:
    """Whether an SPDX expression can be met by these licences; a slash is the older way to say OR."""
    tokens = _TOKEN.findall(expression.replace("/", " OR "))
    known, at = frozenset(among), 0

    def either() -> bool:
        nonlocal at
        found = both()
        while at < len(tokens) and tokens[at].upper() == "OR":
            at += 1
            found = both() or found
        return found

    def both() -> bool:
        nonlocal at
        found = one()
        while at < len(tokens) and tokens[at].upper() == "AND":
            at += 1
            found = one() and found
        return found

    def one() -> bool:
        nonlocal at
        if at == len(tokens):
            return False
        name = tokens[at]
        at += 1
        if name == "(":
            found = either()
            closed = at < len(tokens) and tokens[at] == ")"
            at += 1
            return found and closed
        if tokens[at : at + 1] == ["WITH"]:
            name += f" WITH {' '.join(tokens[at + 1 : at + 2])}"
            at += 2
        return name in known

    found = either()
    return found and at == len(tokens)


def said(distribution: Distribution) -> str:
    """The licence of an installed package, as an SPDX expression where its metadata let one be made."""
    metadata = distribution.metadata
    expression = metadata.get("License-Expression") or _UNSAID.get(_normal(distribution.name))
    if expression:
        return str(expression)
    words = str(metadata.get("License") or "").strip()
    classifiers = [
        one.rpartition(" :: ")[2]
        for one in metadata.get_all("Classifier") or []
        if one.startswith("License :: ") and one != "License :: OSI Approved"
    ]
    known = [_SPELLINGS.get(one.lower(), one) for one in classifiers]
    if words and len(words) < 80 and "\n" not in words:
        spelled = _SPELLINGS.get(words.lower(), words)
        if spelled:
            return spelled
    return " OR ".join(known)


def problems_of(packages: Iterable[Distribution]) -> Iterator[str]:
    """A sentence for every package whose licence is not known to be allowed."""
    for package in packages:
        licence = said(package)
        if not allowed(licence, BESIDE):
            yield f"{package.name} {package.version}: {licence or 'says no licence'!r} is not in the list"


def crates() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(those in the wheel, all others that it is built with), by name; for this platform, whose crates are here."""
    told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = re.findall(r"^host: (\S+)$", told, re.MULTILINE)[0]
    done = subprocess.run(
        [
            *("cargo", "metadata", "--format-version", "1", "--locked", "--offline"),
            *("--filter-platform", host, "--manifest-path", str(ROOT / "kernel" / "Cargo.toml")),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout[done.stdout.index("{") :])
    packages = {one["id"]: one for one in found["packages"]}
    nodes = {one["id"]: one["deps"] for one in found["resolve"]["nodes"]}
    root = found["resolve"]["root"]
    linked: set[str] = set()
    waiting = [root]
    while waiting:
        here = waiting.pop()
        linked.add(here)
        for dependency in nodes[here]:
            one = dependency["pkg"]
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            macro = any("proc-macro" in target["kind"] for target in packages[one]["targets"])
            if normal and not macro and one not in linked:
                waiting.append(one)

    def sorted_of(ids: Iterable[str]) -> list[dict[str, Any]]:
        return sorted((packages[one] for one in ids if one != root), key=lambda one: str(one["name"]))

    return sorted_of(linked), sorted_of(packages.keys() - linked)


def texts_of(crate: dict[str, Any]) -> list[tuple[str, str]]:
    """(where it lies in the crate, text) of its licence, and of what it carries of others."""
    folder = Path(crate["manifest_path"]).parent
    own = sorted(
        path.name
        for path in folder.iterdir()
        if path.is_file() and path.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE"))
    )
    if crate["license"] and allowed(crate["license"], {"MIT"}):  # one of several is enough
        own = [name for name in own if "APACHE" not in name.upper()]
    names = [*own, *VENDORED.get(crate["name"], ())]
    return [(name, _text(folder / name)) for name in names]


def _text(path: Path) -> str:
    lines = (
        path.read_text(encoding="utf-8", errors="replace").replace("\r", "").replace("\f", "").splitlines()
    )
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def written(linked: list[dict[str, Any]]) -> str:
    """licences/crates.txt: every text once, under the names of all that it is of."""
    owners: dict[str, list[str]] = {}
    for crate in linked:
        for name, text in texts_of(crate):
            owners.setdefault(text, []).append(f"{crate['name']} {crate['version']}: {name}")
    parts = ["Licences of the Rust crates that the kernel links, and of the C and C++ in them."]
    for text, names in owners.items():
        parts.append("\n".join(["=" * 80, *names, "=" * 80, "", text]))
    return "\n\n".join(parts) + "\n"


def page(linked: list[dict[str, Any]]) -> str:
    """docs/licences.md."""
    lines = [
        "# Licences of what is linked and installed",
        "",
        "terrazzo is under the MIT licence. A wheel holds the code of these crates, linked into the kernel; their",
        "texts, and those of the C and C++ libraries in them, lie in the wheel beside its own",
        "(`terrazzo-*.dist-info/licenses`). Written by `python -m tools.licences --write`; `make check` compares it,",
        "and refuses what is not in the list of that tool.",
        "",
        "| crate | version | licence | carries |",
        "| --- | --- | --- | --- |",
    ]
    for crate in linked:
        name = crate["name"]
        carries = [f"`{one.rpartition('/')[0] or one}`" for one in VENDORED.get(name, ())]
        if name in BY_HAND:
            carries.append(f"`{BY_HAND[name].removesuffix('.txt')}`")
        lines.append(f"| {name} | {crate['version']} | {crate['license']} | {', '.join(carries)} |")
    lines += [
        "",
        "The standard library of Rust (MIT OR Apache-2.0) is linked too; nothing else is in a wheel. Installed beside",
        "it, by `pip`, under licences of their own: numpy, and what the extras name:",
        "",
        "| extra | packages |",
        "| --- | --- |",
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    pins = {_normal(line.partition("==")[0]) for line in pinned.splitlines()}
    here = {_normal(one.name): said(one) for one in distributions() if _normal(one.name) in pins}
    for extra, wanted in project["optional-dependencies"].items():
        if extra == "all":
            continue
        names = [re.split(r"[<>=!~\[ ]", one)[0] for one in wanted]
        told = [name + (f" ({here[_normal(name)]})" if _normal(name) in here else "") for name in names]
        lines.append(f"| `{extra}` | {', '.join(told)} |")
    return "\n".join(lines) + "\n"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def faults_of(linked: list[dict[str, Any]], others: list[dict[str, Any]]) -> Iterator[str]:
    """A sentence for every crate whose licence, or whose text, is not there or not allowed."""
    for crate in linked:
        name, licence = crate["name"], crate["license"] or ""
        if not allowed(licence, LINKED):
            yield f"crate {name} {crate['version']}: {licence!r} may not be linked"
        if crate["links"] and name not in VENDORED:
            yield f"crate {name} links {crate['links']!r}: say in VENDORED where its licence lies"
        if not texts_of(crate) and not (ROOT / "licences" / BY_HAND.get(name, "-")).is_file():
            yield f"crate {name} carries no text of its licence: put one into licences/ and into BY_HAND"
    for crate in others:
        if not allowed(crate["license"] or "", BESIDE):
            yield f"crate {crate['name']} {crate['version']}: {crate['license']!r} is not in the list"


def main(argv: list[str]) -> int:
    linked, others = crates()
    folders = [
        path for one in argv if one != "--write" for path in Path(one).glob("lib/python*/site-packages")
    ]
    packages = [
        *distributions(),
        *(one for folder in folders for one in distributions(path=[str(folder)])),
    ]
    found = [*faults_of(linked, others), *problems_of(packages)]
    for path, text in ((TEXTS, written(linked)), (PAGE, page(linked))):
        if "--write" in argv:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            found.append(
                f"{path.relative_to(ROOT)} is not what the crates say: python -m tools.licences --write"
            )
    for sentence in dict.fromkeys(found):
        print(sentence, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
