"""Nodes made in an object store: in how few requests, and what is noticed all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("obstore")

import terrazzo
from terrazzo.dialects import view_of
from terrazzo.errors import ConflictError, ContainsArrayError, ContainsGroupError, ContainsNodeError
from terrazzo.options import Options
from terrazzo.stores.remote import RemoteStore
from tests.remote.place import Place

HOW: dict[str, Any] = {"shape": (4,), "dtype": "i4", "chunks": (2,)}


@pytest.fixture
def place() -> Iterator[Place]:
    with Place() as made:
        yield made


def store(place: Place, path: str = "x", **more: Any) -> RemoteStore:
    return RemoteStore(
        f"s3://b/{path}", endpoint_url=place.origin, key="k", secret="s", trust_conditions=True, **more
    )


def asked(place: Place, work: Callable[[], Any]) -> list[str]:
    place.requests.clear()
    work()
    return [request.method for request in place.requests]


def test_a_node_is_made_in_few_requests(place: Place) -> None:
    assert asked(place, lambda: terrazzo.create_array(store(place), **HOW)) == ["GET", "PUT"]
    assert place.requests[0].query["prefix"] == "x/"  # chunks that would show up as values
    assert place.requests[1].headers["if-none-match"] == "*"
    assert asked(place, lambda: terrazzo.create_array(store(place), overwrite=True, **HOW)) == [
        "DELETE",
        "GET",
        "PUT",
    ]
    assert asked(place, lambda: terrazzo.create_group(store(place, "g"))) == ["PUT"]
    group = terrazzo.open_group(store(place, "g"), mode="r+")
    assert asked(place, lambda: group.create_array("a", **HOW)) == ["GET", "GET", "GET", "PUT"]
    made = asked(place, lambda: group.create_array("p/q/r", **HOW))
    assert sorted(made) == ["GET"] * 5 + ["PUT"] * 3
    assert asked(place, lambda: terrazzo.open_array(store(place, "y"), mode="w-", **HOW)) == [
        "GET",
        "GET",
        "PUT",
    ]
    assert len(asked(place, lambda: terrazzo.open_array(store(place, "z"), mode="a", **HOW))) == 7


def kept(place: Place, error: type[Exception], work: Callable[[], Any]) -> None:
    """`work` is refused, and nothing is changed."""
    before = dict(place.objects)
    with pytest.raises(error):
        work()
    assert place.objects == before


@pytest.mark.parametrize("values", [None, np.arange(4)])
def test_an_array_that_is_there_stays(place: Place, values: Any) -> None:
    array = terrazzo.create_array(store(place), **HOW)
    if values is not None:
        array[...] = values
    kept(place, ContainsArrayError, lambda: terrazzo.create_array(store(place), **HOW))
    kept(place, ContainsArrayError, lambda: terrazzo.create_group(store(place)))
    kept(place, ContainsArrayError, lambda: terrazzo.open_array(store(place), mode="w-", **HOW))
    kept(place, ContainsArrayError, lambda: terrazzo.create_array(store(place), name="below/it", **HOW))
    assert terrazzo.open_array(store(place), mode="a", **HOW).shape == (4,)


def test_a_group_that_is_there_stays(place: Place) -> None:
    terrazzo.create_group(store(place), attributes={"a": 1})
    kept(place, ContainsGroupError, lambda: terrazzo.create_group(store(place)))
    kept(place, ContainsGroupError, lambda: terrazzo.create_array(store(place), **HOW))


def test_chunks_without_a_document_are_noticed(place: Place) -> None:
    place.objects["/b/x/c/0"] = b"chunk"
    kept(place, ContainsNodeError, lambda: terrazzo.create_array(store(place), **HOW))
    kept(place, ContainsNodeError, lambda: terrazzo.open_array(store(place), mode="w-", **HOW))
    terrazzo.create_array(store(place), overwrite=True, **HOW)
    assert set(place.objects) == {"/b/x/zarr.json"}


def test_something_else_is_noticed_where_nothing_may_be(place: Place) -> None:
    place.objects["/b/x/readme"] = b"text"
    kept(place, ContainsNodeError, lambda: terrazzo.open_array(store(place), mode="w-", **HOW))
    terrazzo.create_array(store(place), **HOW)
    assert place.objects["/b/x/readme"] == b"text"


@pytest.mark.parametrize("how", [{"zarr_format": 2}, {"dialect": "P"}, {"dialect": "D"}])
def test_nodes_of_other_formats_are_not_replaced(place: Place, how: dict[str, Any]) -> None:
    terrazzo.create_array(store(place), name="a", **HOW, **how)
    kept(place, ContainsArrayError, lambda: terrazzo.create_array(store(place), name="a", **HOW, **how))
    place.objects.clear()
    terrazzo.create_array(store(place), **HOW, **how)
    kept(place, ContainsArrayError, lambda: terrazzo.create_array(store(place), **HOW, **how))
    kept(place, ContainsArrayError, lambda: terrazzo.create_group(store(place), **how))


def test_a_view_compares_before_it_replaces(place: Place) -> None:
    terrazzo.create_array(store(place), zarr_format=2, **HOW)
    view = view_of(store(place), "v2", Options())
    document = view.get("zarr.json")
    assert document is not None
    kept(place, ConflictError, lambda: view.set_if("zarr.json", document, None))
    kept(place, ConflictError, lambda: view.set_if("zarr.json", document, ("other",)))
    view.set_if(
        "zarr.json", document.replace(b'"attributes":{}', b'"attributes":{"a":1}'), view.tag("zarr.json")
    )
    assert view.get("zarr.json") is not None


def test_one_writer_looks_before_it_writes(place: Place) -> None:
    """Nothing is compared by the service then."""
    place.conditions = False
    alone = RemoteStore("s3://b/x", endpoint_url=place.origin, key="k", secret="s", single_writer=True)
    terrazzo.create_array(alone, **HOW)
    kept(place, ContainsArrayError, lambda: terrazzo.create_array(alone, **HOW))
    terrazzo.create_array(alone, overwrite=True, **HOW)
