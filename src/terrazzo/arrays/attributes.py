"""Attributes: a mapping over the `attributes` member of a node's document; each change is written at once.

What it does not do: interpret them. Any JSON value is kept as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

__all__ = ["Attributes"]


class Attributes(MutableMapping[str, Any]):
    """The attributes of an array or a group."""

    def __init__(self, current: Callable[[], Mapping[str, Any]], change: Callable[[Any], None]) -> None:
        self._current = current
        self._change = change

    def __getitem__(self, name: str) -> Any:
        return self._current()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._change(lambda old: {**old, name: value})

    def __delitem__(self, name: str) -> None:
        def without(old: Mapping[str, Any]) -> dict[str, Any]:
            if name not in old:
                raise KeyError(name)
            return {k: v for k, v in old.items() if k != name}

        self._change(without)

    def __iter__(self) -> Iterator[str]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())

    def update(self, *given: Any, **named: Any) -> None:
        """Set several attributes in one write."""
        new = dict(*given, **named)
        self._change(lambda old: {**old, **new})

    def put(self, attributes: Mapping[str, Any]) -> None:
        """Replace all attributes in one write."""
        new = dict(attributes)
        self._change(lambda _: new)

    def asdict(self) -> dict[str, Any]:
        """A plain copy."""
        return dict(self._current())

    def __repr__(self) -> str:
        return f"<terrazzo.Attributes {self.asdict()!r}>"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Attributes):
            return self.asdict() == other.asdict()
        return self.asdict() == other

    __hash__ = None  # type: ignore[assignment]
