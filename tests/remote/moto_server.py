"""moto's S3 on loopback, one request at a time: `python -m tests.remote.moto_server` prints its port.

What it does not do: answer side by side. moto looks at a condition first and stores afterwards, so that two requests at
once could both pass; with one at a time its conditions are exact.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterable
from typing import Any

from tests.remote.wire import LOOPBACK

__all__ = ["main"]


def main(alone: bool = True) -> None:
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: Any) -> None:
            """Nothing."""

    application: Any = DomainDispatcherApplication(create_backend_app)
    turn = threading.Lock()

    def one(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        if not alone:
            return [b"".join(application(environ, start))]
        with turn:
            return [b"".join(application(environ, start))]

    server = make_server(LOOPBACK, 0, one, threaded=True, request_handler=Handler)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(alone="--side-by-side" not in sys.argv)
