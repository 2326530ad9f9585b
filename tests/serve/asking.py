"""Raw requests to a server of a test."""

from __future__ import annotations

import http.client
from typing import NamedTuple

from terrazzo.serve import Server


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """One connection that is kept; names of headers in lower case."""

    def __init__(self, server: Server) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)

    def __call__(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, body, told)
        response = self.connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, response.read())

    def close(self) -> None:
        self.connection.close()
