"""A store served over HTTP from this process, in a thread of its own, until it is stopped.

What it does not do: encrypt, or ask who somebody is. It listens on this machine alone unless told otherwise.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from typing import Any, Self

from terrazzo.serve.application import ANY_ORIGIN, Application
from terrazzo.serve.connections import check_limits, limits
from terrazzo.stores.open import StoreLike, open_store
from terrazzo.stores.store import Store
from terrazzo.stores.wrappers import PrefixStore

__all__ = ["Server", "serve", "store_of"]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_STOPPING = 5  # seconds that answers in progress may take when the server stops


def serve(what: StoreLike, *, storage_options: dict[str, Any] | None = None, **how: Any) -> Server:
    """Serve a store, or the part of one that a path names, and come back; `stop()`, or the end of a `with` block,
    ends it. Read-only unless `write=True`; the other arguments are those of `Server`.

        with serve("image.zarr") as server:
            print(server.address)
    """
    return Server(store_of(what, write=how.get("write", False), **(storage_options or {})), **how).start()


def store_of(what: StoreLike, *, write: bool = False, **options: Any) -> Store:
    """The store below the path that `what` names, refusing changes unless `write`."""
    store, path = open_store(what, mode="r+" if write else "r", **options)
    return PrefixStore(store, path + "/") if path else store


class Server:
    """One store at one address.

    host, port: where to listen; port 0 is a free one. write: PUT and DELETE are allowed. listing: folders answer with
    what lies in them. hidden: names with a leading dot are served. origins: whose pages may read ("*": all); pages
    may write only where their origin is named. longest: bytes that a PUT may have.
    connections: at most so many at once. patience: seconds in which 64 KiB have to move, or all there is, where the
    server waits for the other side. keep_alive: seconds that a connection may be idle between two requests.
    """

    def __init__(
        self,
        store: Store,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        write: bool = False,
        listing: bool = False,
        hidden: bool = False,
        origins: Iterable[str] = (ANY_ORIGIN,),
        longest: int = 1 << 32,
        connections: int = 256,
        patience: float = 30.0,
        keep_alive: float = 60.0,
    ) -> None:
        _required()
        if write and not store.writable:
            raise ValueError(f"{store!r} cannot be written to; serve it without write")
        origins = tuple(origins)
        self.store = store
        self.write = write
        self._limits = (connections, patience, keep_alive)
        check_limits(*self._limits)
        self._socket = _listening(host, port)
        self.host, self.port = host, self._socket.getsockname()[1]
        # A page whose name was made to mean this machine has no foreign origin: then only its name tells.
        guarded = host in LOOPBACK and ANY_ORIGIN not in origins
        self.application = Application(
            store,
            write=write,
            listing=listing,
            hidden=hidden,
            origins=origins,
            hosts=LOOPBACK if guarded else None,
            longest=longest,
            address=self.address,
        )
        self._server: Any = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """What to open, with a slash at its end. A server on all interfaces is told by the name of this machine."""
        name = "127.0.0.1" if self.host in ("0.0.0.0", "") else "[::1]" if self.host == "::" else self.host
        if ":" in name and not name.startswith("["):
            name = f"[{name}]"
        return f"http://{name}:{self.port}/"

    @property
    def everywhere(self) -> bool:
        """Whether other machines can reach it."""
        return not (self.host in LOOPBACK or self.host.startswith("127.") or self.host == "::1")

    def __repr__(self) -> str:
        return (
            f"<terrazzo.serve.Server {self.address} of {self.store!r}{' for writing' if self.write else ''}>"
        )

    def start(self) -> Self:
        """Begin to answer; the port is open when this returns."""
        if self._thread is not None:
            return self
        import uvicorn

        config = uvicorn.Config(
            self.application,
            **limits(self.application, *self._limits),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",  # the application says what failed
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_STOPPING,
        )
        config.load()  # here, so that what is missing is told to the caller
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name=f"terrazzo-serve-{self.port}", daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """Let answers in progress end, for a few seconds, and close; harmless when repeated."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._server.should_exit = True
            thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _listening(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, where = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


def _required() -> None:
    for package in ("starlette", "uvicorn"):
        try:
            __import__(package)
        except ImportError as error:
            raise ImportError(
                f"serving needs the package {package!r}, which could not be imported ({error}); "
                "`pip install 'terrazzo[serve]'` brings it"
            ) from error
