"""nginx as a web server of a store, for reading: started on free ports of loopback, and ended by whoever started it.

What it does not do: install nginx (`make nginx` gets Debian's package), or write.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.remote.servers import free_port, running, wait_for
from tests.remote.wire import LOOPBACK

__all__ = ["Nginx", "missing", "start"]

#: one place per manner of serving the same folder; the second server is another origin
CONFIGURATION = """
daemon off;
master_process off;
worker_rlimit_nofile 1024;
error_log {place}/error.log;
pid {place}/pid;
events {{ worker_connections 256; }}
http {{
    access_log {place}/access.log combined;
    client_body_temp_path {place}/body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    default_type application/octet-stream;
    types {{ application/json json; }}
    log_format asked '$server_port "$request" $status "$http_range" "$http_if_match" "$http_authorization"';
    access_log {place}/asked.log asked;
    server {{
        listen {loopback}:{port};
        root {folder};
        location /plain/ {{ alias {folder}/; }}
        location /moved/ {{ rewrite ^/moved/(.*)$ /plain/$1 redirect; }}
        location /kept/ {{ rewrite ^/kept/(.*)$ /plain/$1 permanent; }}
        location /away/ {{ rewrite ^/away/(.*)$ http://{loopback}:{other}/plain/$1 redirect; }}
        location /around/ {{ rewrite ^/around/(.*)$ /around/x$1 redirect; }}
        location /untagged/ {{ alias {folder}/; etag off; if_modified_since off; }}
        location /whole/ {{ alias {folder}/; max_ranges 0; }}
        location /squeezed/ {{ alias {folder}/; gzip on; gzip_min_length 1; gzip_types *; }}
        location /closed/ {{ deny all; }}
        location /broken/ {{ return 503; }}
    }}
    server {{
        listen {loopback}:{other};
        location /plain/ {{ alias {folder}/; }}
    }}
}}
"""


@dataclass(frozen=True)
class Nginx:
    """One that runs. other: the port of its second server, another origin; log: what both were asked for."""

    port: int
    other: int
    log: Path

    def address(self, manner: str = "plain") -> str:
        return f"http://{LOOPBACK}:{self.port}/{manner}/"

    def asked(self) -> list[str]:
        """A line per request so far: port, request line, status, Range, If-Match, Authorization."""
        return self.log.read_text().splitlines()


def missing() -> str:
    """Why it cannot be started here; empty where it can."""
    if "nginx" not in os.environ.get("TEST_SERVERS", "").split(","):
        return "nginx is what `make nginx` starts"
    return "" if shutil.which("nginx") else "no nginx here; `make nginx` installs Debian's package"


@contextlib.contextmanager
def start(folder: str | Path) -> Iterator[Nginx]:
    """Serve `folder` until the block ends."""
    port, other = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="terrazzo-nginx-") as place:
        configuration = Path(place, "nginx.conf")
        configuration.write_text(
            CONFIGURATION.format(place=place, loopback=LOOPBACK, port=port, other=other, folder=folder)
        )
        command = ["nginx", "-p", place, "-e", f"{place}/error.log", "-c", str(configuration)]
        with running(command, folder=place) as process:
            wait_for(port, process)
            yield Nginx(port, other, Path(place, "asked.log"))
