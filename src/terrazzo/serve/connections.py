"""Connections of the server: how many there are, how long one may be idle, and how much has to move on one.

What it does not do: end an answer that the store is slow with; only what waits for the other side is looked at.

uvicorn knows limits for idle connections and for the length of a request's head. It waits for ever for a head that
does not come to its end, for a body that nobody sends on, and for a reader that does not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from terrazzo.serve.application import Application

__all__ = ["HEAD_NBYTES", "LEAST_NBYTES", "Pace", "check_limits", "limits", "protocol_of"]

#: the first line and the headers of a request
HEAD_NBYTES = 32 << 10
#: what has to move while the other side is waited for; more than a head, so that a head has to come to its end
LEAST_NBYTES = 64 << 10


class Pace:
    """Whether enough happened on a connection since it was looked at last."""

    def __init__(self) -> None:
        self._before = (0, 0)

    def stalled(self, requests: int, nbytes: int, waits: bool) -> bool:
        """requests, nbytes: how many began, and moved, so far. waits: for the other side, at this moment."""
        (began, moved), self._before = self._before, (requests, nbytes)
        return waits and began == requests and nbytes - moved < LEAST_NBYTES


class _Counted:
    """A transport that knows how many bytes were given to it."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._given = 0

    def write(self, piece: Any) -> None:
        self._given += len(piece)
        self._transport.write(piece)

    @property
    def taken(self) -> int:
        """Bytes that left this process."""
        return self._given - int(self._transport.get_write_buffer_size())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def protocol_of(application: Application, connections: int, patience: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol for connections of which there are `connections` at most, and which move.

    Those above get 503, and if they are twice as many, nothing. patience: seconds in which what is waited for has to
    come, or LEAST_NBYTES of it; looked at as often, so that a connection is cut after twice as long at the latest.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Connection(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            self._counted = _Counted(transport)
            self._pace = Pace()
            self._cycles: Any = None
            self._requests = self._received = self._seen = 0
            self._look: asyncio.TimerHandle | None = None
            super().connection_made(self._counted)  # type: ignore[arg-type]
            if len(self.connections) > 2 * connections:
                transport.abort()
                return
            if len(self.connections) > connections:
                self.app = application.crowded
            self._look_later()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._look is not None:
                self._look.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            self._received += len(data)
            super().data_received(data)
            self._count()

        def on_response_complete(self) -> None:
            self._seen = self._received
            super().on_response_complete()
            self._count()

        def timeout_keep_alive_handler(self) -> None:
            if self._counted.get_write_buffer_size():
                self._counted.abort()  # to close it would wait for the reader
            else:
                super().timeout_keep_alive_handler()

        def _count(self) -> None:
            if self.cycle is not self._cycles:
                self._cycles = self.cycle
                self._requests += 1

        def _look_later(self) -> None:
            self._look = self.loop.call_later(patience, self._look_at_it)

        def _look_at_it(self) -> None:
            moved = self._received + self._counted.taken
            if self._pace.stalled(self._requests, moved, self._waits()):
                self._counted.abort()
            else:
                self._look_later()

        def _waits(self) -> bool:
            """For the other side: to take bytes, to send a body, or to bring a head to its end."""
            if self._counted.get_write_buffer_size():
                return True
            cycle = self.cycle
            if cycle is not None and not cycle.response_complete:
                return bool(cycle.more_body) and not self.flow.read_paused
            return cycle is None or self._received > self._seen

    return Connection


def limits(application: Application, connections: int, patience: float, keep_alive: float) -> dict[str, Any]:
    """What uvicorn is told of them."""
    return {
        "http": protocol_of(application, connections, patience),
        "h11_max_incomplete_event_size": HEAD_NBYTES,
        "timeout_keep_alive": keep_alive,
    }


def check_limits(connections: int, patience: float, keep_alive: float) -> None:
    for name, value in (("connections", connections), ("patience", patience), ("keep_alive", keep_alive)):
        if not value > 0:
            raise ValueError(f"{name} is {value}; it has to be more than 0")
