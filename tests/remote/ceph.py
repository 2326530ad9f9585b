"""A toy cluster of Ceph with its S3 gateway: one monitor, one store in memory, one gateway, all on loopback.

What it does not do: install anything; Debian's packages are radosgw, ceph-mon and ceph-osd. Nothing of it lies outside
its folder, nothing needs root, and it ends with the block that started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PROGRAMS", "gateway"]

PROGRAMS = ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph", "monmaptool")
ACCESS, SECRET = "toyaccess", "toysecret"
PATIENCE = 240


def _configuration(folder: Path, fsid: str, monitor: int, gateway: int) -> str:
    return f"""[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{monitor}/0]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
ms mon client mode = crc
ms mon service mode = crc
ms mon cluster mode = crc
auth cluster required = none
auth service required = none
auth client required = none
run dir = {folder}
admin socket = {folder}/$name.sock
pid file = {folder}/$name.pid
log file = {folder}/$name.log
crash dir = {folder}
log to stderr = false
err to stderr = false
mon cluster log file = {folder}/cluster.log
mon allow pool size one = true
mon warn on pool no redundancy = false
mon pg warn min per osd = 0
mon data avail crit = 0
mon data avail warn = 0
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd crush update on start = true
osd objectstore = memstore
osd memory target = 939524096
memstore device bytes = 2147483648
rgw frontends = beast endpoint=127.0.0.1:{gateway} tcp_nodelay=1
rgw thread pool size = 64
rgw dynamic resharding = false
rgw usage max user shards = 1
rgw run sync thread = false
rgw enable usage log = false
rgw enable quota threads = false
rgw enable lc threads = false
rgw enable gc threads = false
[mon.a]
mon data = {folder}/mon
[osd.0]
osd data = {folder}/osd
"""


@contextlib.contextmanager
def gateway(port: int, monitor: int) -> Iterator[tuple[str, str]]:
    """The (access key, secret) of a user of a gateway that answers at `port`; `monitor` is another free port."""
    folder = Path(
        tempfile.mkdtemp(prefix="terrazzo-ceph-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    )
    running: list[subprocess.Popen[bytes]] = []
    try:
        fsid = str(uuid.uuid4())
        settings = folder / "ceph.conf"
        settings.write_text(_configuration(folder, fsid, monitor, port), encoding="utf-8")
        with_settings = ("-c", str(settings))

        def once(*command: str) -> str:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
                env=_environment(folder),
            )
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
            return done.stdout

        def start(*command: str) -> None:
            with open(folder / f"{Path(command[0]).name}.out", "wb") as told:
                running.append(
                    subprocess.Popen(
                        [*command, *with_settings, "-f"], stdout=told, stderr=told, env=_environment(folder)
                    )
                )

        address = f"[v2:127.0.0.1:{monitor}]"
        once("monmaptool", "--create", "--fsid", fsid, "--addv", "a", address, str(folder / "monmap"))
        (folder / "mon").mkdir()
        (folder / "osd").mkdir()
        once("ceph-mon", *with_settings, "--mkfs", "-i", "a", "--monmap", str(folder / "monmap"))
        start("ceph-mon", "-i", "a")
        osd = str(uuid.uuid4())
        once("ceph", *with_settings, "--connect-timeout", str(PATIENCE), "osd", "new", osd)
        once("ceph-osd", *with_settings, "-i", "0", "--mkfs", "--osd-uuid", osd)
        start("ceph-osd", "-i", "0")
        _wait(
            lambda: json.loads(once("ceph", *with_settings, "osd", "stat", "-f", "json"))["num_up_osds"] == 1,
            running,
        )
        start("radosgw", "-n", "client.rgw")
        _wait(lambda: _answers(port), running)
        user = ("--uid=toy", "--display-name=toy", f"--access-key={ACCESS}", f"--secret={SECRET}")
        once("radosgw-admin", *with_settings, "-n", "client.rgw", "user", "create", *user)
        yield ACCESS, SECRET
    finally:
        for process in reversed(running):
            process.terminate()
        for process in reversed(running):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "CEPH_ARGS": "", "HOME": str(folder)}


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _wait(until: object, running: list[subprocess.Popen[bytes]]) -> None:
    assert callable(until)
    end = time.monotonic() + PATIENCE
    while not until():
        for process in running:
            if process.poll() is not None:
                raise RuntimeError(f"{process.args!r} ended with status {process.returncode}")
        if time.monotonic() > end:
            raise RuntimeError(f"the cluster was not up in {PATIENCE} s")
        time.sleep(0.1)
