"""The border of every store: keys, prefixes and ranges are checked before a store's own code sees them.

What it does not do: decide what a good key is (keys.py does).

A store overrides verbs by their plain names. When its class is made, each of them is wrapped here once, so that no
store, also none that a user writes, can forget the check.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from terrazzo.stores.keys import check_key, check_keys, check_prefix, check_range, check_writes

__all__ = ["CAPABILITIES", "VERBS", "at_the_border", "wrap_verbs"]

Verb = Callable[..., Any]


def at_the_border(cls: type, base: type) -> None:
    """Wrap the verbs that `cls` brings, note which of them it or its parents bring, and derive what it can do."""
    wrap_verbs(cls)
    own = frozenset(verb for verb in VERBS if getattr(cls, verb) is not getattr(base, verb))
    cls._own = own  # type: ignore[attr-defined]
    derived = set()
    for capability, any_of in CAPABILITIES.items():
        if not _declared(cls, base, capability):
            setattr(cls, capability, bool(own & any_of))
            derived.add(capability)
    cls._derived = frozenset(derived)  # type: ignore[attr-defined]


def wrap_verbs(cls: type) -> None:
    """Check what every verb in the class itself is given."""
    for verb, guard in VERBS.items():
        function = vars(cls).get(verb)
        if callable(function) and not hasattr(function, "_at_the_border"):
            guarded = guard(function)
            guarded._at_the_border = True  # type: ignore[attr-defined]
            setattr(cls, verb, guarded)


def _declared(cls: type, base: type, capability: str) -> bool:
    """Whether a class, rather than this module, says what the store can do."""
    for parent in cls.__mro__:
        if parent is base:
            return False
        if capability in vars(parent) and capability not in vars(parent).get("_derived", ()):
            return True
    return False


def _key(function: Verb) -> Verb:
    @functools.wraps(function)
    def verb(self: Any, key: str, *args: Any, **kwargs: Any) -> Any:
        return function(self, check_key(key), *args, **kwargs)

    return verb


def _keys(function: Verb) -> Verb:
    @functools.wraps(function)
    def verb(self: Any, keys: Any) -> Any:
        return function(self, check_keys(keys))

    return verb


def _prefix(function: Verb) -> Verb:
    @functools.wraps(function)
    def verb(self: Any, prefix: str = "") -> Any:
        return function(self, check_prefix(prefix))

    return verb


def _ranges(function: Verb) -> Verb:
    @functools.wraps(function)
    def verb(self: Any, requests: Any) -> Any:
        requests = list(requests)
        for key, window in requests:
            check_range(check_key(key), window)
        return function(self, requests)

    return verb


def _writes(function: Verb) -> Verb:
    @functools.wraps(function)
    def verb(self: Any, writes: Any) -> Any:
        return function(self, check_writes(writes))

    return verb


def _nothing(function: Verb) -> Verb:
    @functools.wraps(function)
    def verb(self: Any) -> Any:
        return function(self)

    return verb


VERBS: dict[str, Callable[[Verb], Verb]] = {
    "get": _key,
    "get_partial_values": _ranges,
    "exists": _key,
    "getsize": _key,
    "tag": _key,
    "set": _key,
    "set_partial_values": _writes,
    "set_if": _key,
    "erase": _key,
    "erase_values": _keys,
    "erase_prefix": _prefix,
    "list": _nothing,
    "list_prefix": _prefix,
    "list_dir": _prefix,
}
#: what a store can do follows from the verbs it brings, unless its class declares it
CAPABILITIES: dict[str, frozenset[str]] = {
    "readable": frozenset({"get", "get_partial_values"}),
    "writable": frozenset({"set", "set_partial_values"}),
    "erasable": frozenset({"erase", "erase_values"}),
    "listable": frozenset({"list", "list_prefix", "list_dir"}),
}
