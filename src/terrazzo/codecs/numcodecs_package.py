"""The package numcodecs, imported where one of its codecs is used.

What it does not do: any codec itself.
Specification: https://numcodecs.readthedocs.io/en/stable/
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from terrazzo.errors import UnknownCodecError

__all__ = ["numcodecs_codec"]


def numcodecs_codec(identity: str, configuration: Mapping[str, Any], path: str = "") -> Any:
    """numcodecs' own codec; raises UnknownCodecError that says what to install where it is not there."""
    plain = {name: list(one) if isinstance(one, bytes) else one for name, one in configuration.items()}
    return _made(identity, json.dumps(plain, sort_keys=True), path)


@lru_cache(maxsize=64)
def _made(identity: str, configuration: str, path: str) -> Any:
    try:
        from numcodecs.registry import get_codec
    except ImportError as error:
        sentence = f"numcodecs.{identity} needs the package numcodecs: pip install 'terrazzo[numcodecs]'"
        raise UnknownCodecError(f"{path}: {sentence}" if path else sentence, ((path, sentence),)) from error
    members = json.loads(configuration)
    if isinstance(members.get("prefix"), list):
        members["prefix"] = bytes(members["prefix"])
    try:
        return get_codec({"id": identity, **members})
    except (ImportError, ValueError) as error:
        # numcodecs wraps packages of its own, and raises either where one is not there
        sentence = f"numcodecs.{identity} is not available: {error}"
        raise UnknownCodecError(f"{path}: {sentence}" if path else sentence, ((path, sentence),)) from error
