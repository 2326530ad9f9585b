"""The functions of terrazzo in two faces: `synchronous` waits, `asynchronous` is awaited.

What it does not do: anything of its own.
"""

from types import ModuleType

__all__ = ["asynchronous", "synchronous"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module 'terrazzo.api' has no attribute {name!r}")
    # once somebody asks for it: asyncio takes longer to import than all of this library
    from importlib import import_module

    return import_module(f"terrazzo.api.{name}")
