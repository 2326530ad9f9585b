"""Serving: a store over HTTP, for browsers and for other libraries; read-only unless asked.

What it does not do: decode values or know who asks. `serve` and `Server` listen; `Application` is the ASGI
application, for servers of your own.
"""

from __future__ import annotations

from terrazzo.serve.application import Application
from terrazzo.serve.running import Server, serve

__all__ = ["Application", "Server", "serve"]
