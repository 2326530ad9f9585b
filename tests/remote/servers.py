"""Real servers for the tests: started on a free port of loopback, and ended by whoever started them.

What it does not do: install them. moto comes with requirements/dev.txt; radosgw is Debian's; Azurite and s3rver are
npm's, pinned in npm/package-lock.json. `make servers` gets them all. A server that is not there says so by `missing`.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hashlib
import hmac
import http.client
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.remote import ceph
from tests.remote.wire import LOOPBACK

__all__ = ["SERVERS", "Server", "free_port", "missing", "running", "start", "wait_for", "wanted"]

ROOT = Path(__file__).resolve().parents[2]
NODE = Path(__file__).parent / "npm" / "node_modules"
BUCKET = "terrazzo-tests"
#: seconds: Node.js alone was seen to take one minute on a machine that was busy otherwise
PATIENCE = 240
TRIES = 3
#: Azurite's account that everybody knows
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Server:
    """One that runs: where, and what a store needs to be told to speak to it."""

    name: str
    port: int
    access: str = "testing"
    secret: str = "testing-secret"
    #: whether it honours conditional writes
    conditions: bool = True

    def address(self, path: str) -> str:
        return f"{'az' if self.name == 'azurite' else 's3'}://{BUCKET}/{path}"

    def options(self, port: int | None = None) -> dict[str, Any]:
        """Options of a store, in obstore's names; port: of a proxy in front."""
        origin = f"http://{LOOPBACK}:{port or self.port}"
        if self.name == "azurite":
            return {
                "account_name": AZURE_ACCOUNT,
                "account_key": AZURE_KEY,
                "endpoint": f"{origin}/{AZURE_ACCOUNT}",
                "allow_http": True,
            }
        return {
            "endpoint": origin,
            "access_key_id": self.access,
            "secret_access_key": self.secret,
            "region": "us-east-1",
            "allow_http": True,
        }


def free_port() -> int:
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        port: int = found.getsockname()[1]
        return port


@contextlib.contextmanager
def moto() -> Iterator[Server]:
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    with running(
        [sys.executable, "-m", "tests.remote.moto_server"], environment=environment, folder=ROOT, told=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        server = Server("moto", port)
        _make_bucket(server)
        yield server


@contextlib.contextmanager
def radosgw() -> Iterator[Server]:
    port = free_port()
    with ceph.gateway(port, free_port()) as (access, secret):
        server = Server("radosgw", port, access, secret)
        _make_bucket(server)
        yield server


@contextlib.contextmanager
def azurite() -> Iterator[Server]:
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="terrazzo-azurite-") as folder:
        command = ["node", str(NODE / "azurite/dist/src/blob/main.js"), "--blobHost", LOOPBACK]
        command += ["--blobPort", str(port), "--silent", "--skipApiVersionCheck", "--inMemoryPersistence"]
        command += ["--disableTelemetry"]
        with running(command, folder=folder) as process:
            wait_for(port, process)
            _make_container(port)
            yield Server("azurite", port)


@contextlib.contextmanager
def s3rver() -> Iterator[Server]:
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="terrazzo-s3rver-") as folder:
        command = ["node", str(NODE / "s3rver/bin/s3rver.js"), "--directory", folder, "--address", LOOPBACK]
        command += ["--port", str(port), "--silent", "--configure-bucket", BUCKET]
        with running(command, folder=folder) as process:
            wait_for(port, process)
            yield Server("s3rver", port, "S3RVER", "S3RVER", conditions=False)


SERVERS: dict[str, Callable[[], contextlib.AbstractContextManager[Server]]] = {
    "moto": moto,
    "radosgw": radosgw,
    "azurite": azurite,
    "s3rver": s3rver,
}


def wanted(*names: str) -> list[str]:
    """Those of `names` that TEST_SERVERS names: the servers that tests may start; moto where it is not set."""
    return [name for name in names if name in os.environ.get("TEST_SERVERS", "moto").split(",")]


def missing(name: str) -> str:
    """Why a server cannot be started here; empty where it can."""
    if name == "moto":
        absent = [
            module for module in ("moto", "flask", "flask_cors") if importlib.util.find_spec(module) is None
        ]
        return f"moto needs {', '.join(absent)}; requirements/dev.txt has them" if absent else ""
    if name == "radosgw":
        programs = [program for program in ceph.PROGRAMS if shutil.which(program) is None]
        return f"no {', '.join(programs)} here; `make servers` installs Debian's packages" if programs else ""
    if shutil.which("node") is None:
        return "no node here; `make servers` needs Node.js 20 or newer"
    return "" if (NODE / name).is_dir() else f"no {name} in tests/remote/npm; `make servers` installs it"


@contextlib.contextmanager
def start(name: str) -> Iterator[Server]:
    """The server for the length of a block. Its port may be taken before the server has it: then another."""
    with contextlib.ExitStack() as running:
        for left in reversed(range(TRIES)):
            try:
                server = running.enter_context(SERVERS[name]())
                break
            except RuntimeError:
                if not left:
                    raise
        yield server


@contextlib.contextmanager
def running(
    command: list[str],
    *,
    environment: dict[str, str] | None = None,
    folder: str | Path | None = None,
    told: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process for the length of a block."""
    output = subprocess.PIPE if told else subprocess.DEVNULL
    process = subprocess.Popen(
        command,
        stdout=output,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env=environment,
        cwd=folder,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until something listens at `port`."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection((LOOPBACK, port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{process.args!r} does not answer at port {port}") from None
            time.sleep(0.05)


def _make_bucket(server: Server) -> None:
    import boto3  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from botocore.config import Config  # type: ignore[import-not-found,import-untyped,unused-ignore]

    boto3.client(
        "s3",
        endpoint_url=f"http://{LOOPBACK}:{server.port}",
        aws_access_key_id=server.access,
        aws_secret_access_key=server.secret,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 10}),
    ).create_bucket(Bucket=BUCKET)


def _make_container(port: int) -> None:
    """PUT a container, signed as Azure's page "Authorize with Shared Key" says."""
    version, date = "2021-08-06", email.utils.formatdate(usegmt=True)
    path = f"/{AZURE_ACCOUNT}/{BUCKET}"
    named = f"x-ms-date:{date}\nx-ms-version:{version}"
    signed = f"PUT{12 * chr(10)}{named}\n/{AZURE_ACCOUNT}{path}\nrestype:container"
    key = base64.b64decode(AZURE_KEY)
    signature = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=PATIENCE)
    try:
        connection.request(
            "PUT",
            f"{path}?restype=container",
            headers={
                "x-ms-date": date,
                "x-ms-version": version,
                "Content-Length": "0",
                "Authorization": f"SharedKey {AZURE_ACCOUNT}:{signature}",
            },
        )
        answer = connection.getresponse()
        if answer.status != 201:
            raise RuntimeError(f"azurite answered {answer.status}: {answer.read()[:300]!r}")
    finally:
        connection.close()
