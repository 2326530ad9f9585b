"""The page at the root and the listings: what they show, and that names of others stay text."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin

import numpy as np
import pytest

import terrazzo
from terrazzo.serve import serve
from tests.serve.asking import Client

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"
HOSTILE = '"><script>alert(1)<'


class Seen(HTMLParser):
    """The tags, links and text of a page."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.attributes: set[str] = set()
        self.words = ""
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, text: str) -> None:
        self.words += text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = terrazzo.create_group(tmp_path / "g.zarr")
    root.create_array("heights", data=np.ones((40, 40)), chunks=(4, 4), shards=(20, 20))
    below = root.create_group(HOSTILE)
    below.create_array("javascript:alert(2)", data=np.zeros(4), chunks=(2,))
    (tmp_path / "g.zarr" / "it's <b>&.txt").write_text("x")
    return tmp_path / "g.zarr"


def test_an_array_is_drawn(tmp_path: Path) -> None:
    terrazzo.create_array(tmp_path / "a.zarr", data=np.zeros((40, 40)), chunks=(4, 4), shards=(20, 20))
    with serve(tmp_path / "a.zarr") as server:
        answer = Client(server)("GET", "/", Accept=HTML)
        seen = Seen(answer.body)
        assert answer.status == 200 and "svg" in seen.tags and "script" not in seen.tags
        assert f'terrazzo.open("{server.address}")' in seen.words
        assert f"zarr3://{server.address}" in seen.words
        plain = Client(server)("GET", "/")
        assert plain.headers["content-type"].startswith("text/plain")
        assert f"document: {server.address}zarr.json" in plain.body.decode()


def test_nothing_of_a_page_is_run_or_loaded(folder: Path) -> None:
    with serve(folder, listing=True) as server:
        for path in ("/", "/heights/"):
            answer = Client(server)("GET", path, Accept=HTML)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy and "script" not in policy
            seen = Seen(answer.body)
            assert not {"script", "iframe", "img", "link", "object", "form", "base"} & seen.tags
            assert not [name for name in seen.attributes if name.startswith("on")]


def test_names_are_text(folder: Path) -> None:
    with serve(folder, listing=True) as server:
        ask = Client(server)
        seen = Seen(ask("GET", "/", Accept=HTML).body)
        assert HOSTILE in seen.words and "it's <b>&.txt" in seen.words and "b" not in seen.tags
        for link in seen.links:
            assert urljoin(server.address, link).startswith(server.address)
        assert ask("GET", urljoin("/", next(one for one in seen.links if "txt" in one))).body == b"x"
        (below,) = [one for one in seen.links if "script" in one]
        inner = Seen(ask("GET", urljoin("/", below), Accept=HTML).body)
        (link,) = inner.links[-1:]
        assert "javascript" in unquote(" ".join(inner.links))
        assert urljoin(server.address + below[2:], link).startswith(server.address)


def test_folders_are_listed_where_that_is_on(folder: Path) -> None:
    (folder / ".env").write_text("secret")
    (folder / "heights" / "zarr.json.__lock").touch()
    with serve(folder, listing=True) as server:
        ask = Client(server)
        found = json.loads(ask("GET", "/").body)
        assert found["keys"] == ["it's <b>&.txt", "zarr.json"] and "heights/" in found["prefixes"]
        assert found["complete"] is True
        assert json.loads(ask("GET", "/heights/").body) == {
            "keys": ["zarr.json"],
            "prefixes": ["c/"],
            "complete": True,
        }
        assert ask("GET", "/nothing/").status == 404
        assert ask("GET", "/../").status == 404


def test_folders_are_not_listed_by_default(folder: Path) -> None:
    with serve(folder) as server:
        ask = Client(server)
        for path in ("/heights/", "/heights/c/"):
            assert ask("GET", path).status == ask("GET", path, Accept=HTML).status == 404
        page = ask("GET", "/", Accept=HTML).body
        assert b"heights" not in page and b".txt" not in page
        assert b"heights" not in ask("GET", "/").body


def test_consolidated_documents_name_their_nodes(folder: Path) -> None:
    terrazzo.consolidate_metadata(folder)
    with serve(folder) as server:
        seen = Seen(Client(server)("GET", "/", Accept=HTML).body)
        assert "heights" in seen.words and "svg" in seen.tags and ".txt" not in seen.words


def test_long_listings_are_cut(tmp_path: Path) -> None:
    for number in range(1200):
        (tmp_path / f"{number:04}").touch()
    with serve(tmp_path, listing=True) as server:
        found = json.loads(Client(server)("GET", "/").body)
        assert len(found["keys"]) == 1000 and found["complete"] is False
        assert b"and more" in Client(server)("GET", "/", Accept=HTML).body


@pytest.mark.parametrize("document", ["{", '{"zarr_format": 3, "node_type": "array"}', "[" * 100_000])
def test_a_document_that_is_wrong_does_no_harm(tmp_path: Path, document: str) -> None:
    (tmp_path / "zarr.json").write_text(document)
    with serve(tmp_path, listing=True) as server:
        ask = Client(server)
        assert ask("GET", "/", Accept=HTML).status == 200
        assert ask("GET", "/zarr.json").body == document.encode()


def test_a_document_that_is_wrong_is_said_to_be(tmp_path: Path) -> None:
    terrazzo.create_array(tmp_path / "x.zarr", shape=3, dtype="i1")
    for document, words in (
        (b'{"zarr_format": 3, ', "What lies at the root cannot be opened: zarr.json: is not JSON"),
        (None, "No array or group lies at the root of this store."),
    ):
        path = tmp_path / "x.zarr" / "zarr.json"
        path.unlink() if document is None else path.write_bytes(document)
        with serve(tmp_path / "x.zarr") as server:
            ask = Client(server)
            assert words in Seen(ask("GET", "/", Accept=HTML).body).words
            ask.close()
    (tmp_path / "x.zarr" / "zarr.json").mkdir()  # what a store says may name files
    with serve(tmp_path / "x.zarr") as server:
        ask = Client(server)
        page = ask("GET", "/", Accept=HTML).body
        assert "What lies at the root cannot be read." in Seen(page).words and b"x.zarr" not in page
        ask.close()
