"""Packages that gridding uses where they are installed, and the sentence that says what to install.

What it does not do: import anything before it is used.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["required"]


def required(module: str, purpose: str, extra: str) -> Any:
    """Import `module`, or say which extra of terrazzo brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{purpose} need the package {package!r}, which could not be imported ({error}); "
            f"`pip install 'terrazzo[{extra}]'` brings it"
        ) from error
