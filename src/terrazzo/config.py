"""`terrazzo.config`: settings by name, with zarr-python's manners, read once when something is opened.

What it does not do: reach into anything that is already open. What was opened keeps the Options it was opened with.

    >>> with terrazzo.config.set({"threads": 4, "durability": "rename"}):
    ...     array = terrazzo.zeros((10, 10), store="x.zarr")

Every setting may also come from the environment: `TERRAZZO_THREADS=4`, `TERRAZZO_ARRAY__WRITE_EMPTY_CHUNKS=true`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import fields, replace
from typing import Any

from terrazzo.options import DRAFTS, Limits, Options

__all__ = ["Config", "config", "options_from"]

#: settings of ours, and zarr-python's names for what they set
_OWN = {f.name for f in fields(Options) if f.name != "limits"} | {f"limits.{f.name}" for f in fields(Limits)}
_ZARR = {
    "array.order": "order",
    "array.write_empty_chunks": "write_empty_chunks",
    "threading.max_workers": "threads",
}
#: zarr-python's settings that have no meaning here: taken, and kept for whoever asks
_HARMLESS = (
    "array.target_shard_size_bytes",
    "array.sharding_coalesce_max_gap_bytes",
    "array.sharding_coalesce_max_bytes",
    "async.concurrency",
    "async.timeout",
    "codec_pipeline",
    "codecs",
    "buffer",
    "ndbuffer",
)
#: what those of them are that a script may ask for: what holds here
_FIXED = {
    "default_zarr_format": 3,
    "array.read_missing_chunks": True,
    "array.rectilinear_chunks": True,
    "json_indent": 2,
}
#: stands for "no default", where None is one
_NOTHING: Any = object()
_EXTRA = {"strategy": "replace", **_FIXED}


class Config:
    """Settings of the current context; `set` changes them for a `with` block, or from now on."""

    def __init__(self) -> None:
        self._base: dict[str, Any] = _environment()
        self._local: ContextVar[dict[str, Any] | None] = ContextVar("terrazzo_config", default=None)

    def _now(self) -> dict[str, Any]:
        local = self._local.get()
        return self._base if local is None else local

    def set(self, settings: Mapping[str, Any] | None = None, /, **named: Any) -> _Setting:
        """Change settings; as a context manager, only inside the block (and only in this thread or task)."""
        flat = {**_flatten(settings or {}), **{k.replace("__", "."): v for k, v in named.items()}}
        for name in flat:
            _check_name(name)
        changed = {**self._now(), **flat}
        _options(changed)  # wrong values are refused here, where they are given
        return _Setting(self, changed)

    def get(self, name: str, default: Any = _NOTHING) -> Any:
        """The value of one setting; `default`, or KeyError without one, where there is none of that name.

        >>> (
        ...     terrazzo.config.get("durability"),
        ...     terrazzo.config.get("array.order"),
        ...     terrazzo.config.get("mine", 3),
        ... )
        ('fsync', 'C', 3)
        """
        now = self._now()
        if name in now:
            return now[name]
        own = _ZARR.get(name, name)
        if own in now:
            return now[own]
        options = _options(now)
        if own.startswith("limits."):
            found = getattr(options.limits, own.removeprefix("limits."), _NOTHING)
        else:
            found = getattr(options, own, _EXTRA.get(own, _NOTHING))
        if found is not _NOTHING:
            return found
        if default is not _NOTHING:
            return default
        if any(name == known or name.startswith(f"{known}.") for known in _HARMLESS):
            return None
        raise KeyError(f"{name!r} is not a setting; known are {', '.join(sorted(_OWN))}")

    def reset(self) -> None:
        """Back to the defaults and the environment."""
        self._base = _environment()
        self._local.set(None)

    def options(self, **changes: Any) -> Options:
        """The settings as one frozen value; `changes` go over them (None: unchanged)."""
        found = _options(self._now())
        wanted = {name: value for name, value in changes.items() if value is not None}
        return replace(found, **wanted) if wanted else found

    @property
    def strategy(self) -> Any:
        return self._now().get("strategy", _EXTRA["strategy"])

    def __repr__(self) -> str:
        return f"<terrazzo.config {self._now() or 'defaults'}>"


class _Setting:
    """What `Config.set` gives: already in force; leaving the `with` block takes it back."""

    def __init__(self, owner: Config, changed: dict[str, Any]) -> None:
        self._owner = owner
        self._before = owner._now()
        self._local = owner._local.get() is not None
        if self._local:
            owner._local.set(changed)
        else:
            owner._base = changed
        self._changed = changed

    def __enter__(self) -> Config:
        if not self._local:
            self._owner._base = self._before
        self._token = self._owner._local.set(self._changed)
        return self._owner

    def __exit__(self, *_: object) -> None:
        self._owner._local.reset(self._token)
        if self._local:
            self._owner._local.set(self._before)


def options_from(settings: Mapping[str, Any] | None) -> Options:
    """Options of the context, with an array's own settings (`config=` of zarr-python's functions) over them."""
    if not settings:
        return config.options()
    flat = {_ZARR.get(name, name): value for name, value in _flatten(settings).items()}
    known = {f.name for f in fields(Options)}
    own = {
        name: _checked(name, value) if name in ("drafts", "order") else value
        for name, value in flat.items()
        if name in known
    }
    for name in flat:
        if name not in known and name != "read_missing_chunks":
            _check_name(name)
    if flat.get("read_missing_chunks") is False:
        own["missing"] = "error"
    return config.options(**own)


def _check_name(name: str) -> None:
    if (
        name in _OWN
        or name in _ZARR
        or name in _EXTRA
        or any(name == h or name.startswith(h + ".") for h in _HARMLESS)
    ):
        return
    import difflib

    near = difflib.get_close_matches(name, [*_OWN, *_ZARR, *_EXTRA], 1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(_OWN))}"
    raise ValueError(f"config: {name!r} is not a setting{hint}")


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        full = f"{prefix}{name}"
        if isinstance(value, Mapping) and full not in _HARMLESS:
            flat.update(_flatten(value, f"{full}."))
        else:
            flat[full] = value
    return flat


def _options(settings: Mapping[str, Any]) -> Options:
    own: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for name, value in settings.items():
        name = _ZARR.get(name, name)
        if name.startswith("limits."):
            limits[name.removeprefix("limits.")] = _positive(name, value)
        elif name in _OWN:
            own[name] = _checked(name, value)
    if limits:
        own["limits"] = Limits(**limits)
    return Options(**own)


def _checked(name: str, value: Any) -> Any:
    allowed = {
        "durability": ("fsync", "rename", "none"),
        "missing": ("fill", "error"),
        "order": ("C", "F"),
    }
    if name in allowed:
        if value not in allowed[name]:
            raise ValueError(
                f"config: {name} is {value!r}; allowed are {', '.join(map(repr, allowed[name]))}"
            )
        return value
    if name == "drafts":
        return _drafts(value)
    if name.endswith("_cache_nbytes") and value == 0:
        return 0
    if name in ("threads", "memory") or name.endswith("_cache_nbytes"):
        return _positive(name, value)
    if not isinstance(value, bool):
        raise ValueError(f"config: {name} is {value!r}; True and False are allowed")
    return value


def _drafts(value: Any) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    known = f"{', '.join(map(repr, DRAFTS))} are allowed, and 'all'"
    if not isinstance(given, list | tuple | set | frozenset):
        raise ValueError(f"config: drafts is {value!r}; a list of names is allowed: {known}")
    if "all" in given:
        return tuple(DRAFTS)
    for one in given:
        if one not in DRAFTS:
            raise ValueError(f"config: drafts has {one!r}; {known}")
    return tuple(sorted(given))


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"config: {name} is {value!r}; an integer of at least 1 is allowed")
    return value


def _environment() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in os.environ.items():
        if not name.startswith("TERRAZZO_"):
            continue
        setting = name.removeprefix("TERRAZZO_").lower().replace("__", ".")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        _check_name(setting)
        found[setting] = value
    _options(found)
    return found


#: the settings of this process and context
config = Config()
