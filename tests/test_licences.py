"""Licences: what an expression allows, what packages say, and that texts of what is linked are in the wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools import licences
from tools.licences import BESIDE, LINKED, ROOT, VENDORED, allowed, faults_of, problems_of, said


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("GPL-3.0-only OR MIT", True),
        ("MIT AND GPL-3.0-only", False),
        ("MIT/Apache-2.0", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("(MIT OR GPL-3.0-only) AND GPL-3.0-only", False),
        ("MIT OR GPL-3.0-only AND GPL-2.0-only", True),  # AND binds closer
        ("Apache-2.0 WITH LLVM-exception", False),
        ("GPL-2.0-only WITH Classpath-exception-2.0 OR MIT", True),
        ("MPL-2.0", False),
        ("GPL-3.0-only", False),
        ("MIT MIT", False),
        ("(MIT", False),
        ("MIT)", False),
        ("MIT AND", False),
        ("", False),
        ("Proprietary", False),
    ],
)
def test_an_expression_is_allowed_where_it_can_be_met(expression: str, holds: bool) -> None:
    assert allowed(expression, LINKED) == holds


def package(**fields: Any) -> Any:
    metadata = Message()
    for name, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            metadata[name.replace("_", "-")] = value
    return SimpleNamespace(name="x", version="1", metadata=metadata)


BSD = "License :: OSI Approved :: BSD License"
GPL = "License :: OSI Approved :: GNU General Public License v3 (GPLv3)"


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License_Expression": "MIT OR Apache-2.0", "License": "nonsense"}, "MIT OR Apache-2.0"),
        ({"License": "Apache License 2.0"}, "Apache-2.0"),
        ({"License": "A long text\nof many lines", "Classifier": [BSD]}, "BSD"),
        (
            {"License": "Dual License", "Classifier": [BSD, GPL]},
            "BSD OR GNU General Public License v3 (GPLv3)",
        ),
        ({"Classifier": ["Typing :: Typed"]}, ""),
    ],
)
def test_what_a_package_says(fields: dict[str, Any], licence: str) -> None:
    assert said(package(**fields)) == licence


def test_a_package_that_is_not_allowed_is_named() -> None:
    found = list(problems_of([package(License="GPL-3.0"), package(), package(License="MIT")]))
    assert found == ["x 1: 'GPL-3.0' is not in the list", "x 1: 'says no licence' is not in the list"]


def test_a_crate_that_may_not_be_linked_is_named(tmp_path: Path) -> None:
    def crate(name: str, licence: str | None, links: str | None = None) -> dict[str, Any]:
        (tmp_path / name).mkdir()
        manifest = str(tmp_path / name / "Cargo.toml")
        return {"name": name, "version": "1", "license": licence, "links": links, "manifest_path": manifest}

    linked = [crate("a", "MPL-2.0"), crate("b", "MIT", "z"), crate("c", None)]
    (tmp_path / "a" / "LICENSE").write_text("text")
    found = "\n".join(faults_of(linked, [crate("d", "GPL-3.0-only"), crate("e", "MPL-2.0")]))
    assert "crate a 1: 'MPL-2.0' may not be linked" in found
    assert "crate b links 'z': say in VENDORED" in found and "crate b carries no text" in found
    assert "crate c 1: '' may not be linked" in found
    assert "crate d 1: 'GPL-3.0-only' is not in the list" in found and "crate e" not in found
    assert LINKED < BESIDE


def test_the_wheel_has_the_texts_of_what_is_linked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    held = {
        path.relative_to(ROOT).as_posix() for glob in project["license-files"] for path in ROOT.glob(glob)
    }
    assert {"LICENSE", "licences/c-blosc.txt", "licences/crates.txt", "licences/rust.txt"} <= held
    text = (ROOT / "licences" / "crates.txt").read_text()
    locked = (ROOT / "kernel" / "Cargo.lock").read_text()
    for crate, files in VENDORED.items():
        (version,) = re.findall(rf'name = "{crate}"\nversion = "([^"]+)"', locked)
        for file in files:
            assert f"{crate} {version}: {file}\n" in text
    for words in ("Meta Platforms", "Eric Biggers", "Yann Collet", "Jean-loup Gailly", "Google Inc"):
        assert words in text
    blosc = (ROOT / "licences" / "c-blosc.txt").read_text()
    assert all(words in blosc for words in ("Francesc Alted", "Kiyoshi Masui", "Ariya Hidayat"))


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
def test_texts_and_page_are_made_from_the_lock() -> None:
    try:
        linked, others = licences.crates()
    except subprocess.CalledProcessError:
        pytest.skip("the crates are not on this machine")
    assert list(faults_of(linked, others)) == []
    assert licences.TEXTS.read_text() == licences.written(linked), (
        f"{sys.executable} -m tools.licences --write"
    )
    for crate in linked:
        assert f"| {crate['name']} | {crate['version']} | {crate['license']} |" in licences.PAGE.read_text()
