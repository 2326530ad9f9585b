"""serve: a store over HTTP, for browsers and other programs, until it is interrupted."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from typing import Any

from terrazzo.cli.making import nbytes
from terrazzo.cli.output import print_fields, print_lines
from terrazzo.drawing import printable
from terrazzo.stores.local import LocalStore
from terrazzo.stores.store import Store
from terrazzo.stores.wrappers import PrefixStore, WrapperStore

__all__ = ["NAME", "add_arguments", "run"]

NAME = "serve"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a store, or the path of a node in one")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (127.0.0.1: this machine alone)")
    parser.add_argument("--port", type=_port, default=0, help="the port (a free one)")
    parser.add_argument(
        "--write", action="store_true", help="allow PUT and DELETE to everybody who can reach it"
    )
    parser.add_argument("--list", action="store_true", help="answer folders with what lies in them")
    parser.add_argument("--hidden", action="store_true", help="serve names with a leading dot too")
    parser.add_argument(
        "--cors",
        metavar="ORIGIN",
        action="append",
        help="whose pages may read, such as https://example.org; may be repeated (all); named ones may write",
    )
    parser.add_argument(
        "--longest", type=nbytes, metavar="SIZE", help="of an object that is put, such as 64MB (4 GiB)"
    )
    parser.add_argument("--connections", type=int, default=256, metavar="N", help="at once, at most (256)")
    parser.add_argument(
        "--patience", type=float, default=30.0, metavar="S", help="for 64 KiB, or all there is, to move (30)"
    )
    parser.add_argument(
        "--keep-alive",
        type=float,
        default=60.0,
        metavar="S",
        help="between two requests of a connection (60)",
    )


def run(arguments: argparse.Namespace) -> int:
    from terrazzo.serve.running import Server, store_of

    store = store_of(arguments.url, write=arguments.write)
    _check_there(store, arguments.url)
    server = Server(
        store,
        host=arguments.host,
        port=arguments.port,
        write=arguments.write,
        listing=arguments.list,
        hidden=arguments.hidden,
        origins=arguments.cors or ("*",),
        longest=arguments.longest or 1 << 32,
        connections=arguments.connections,
        patience=arguments.patience,
        keep_alive=arguments.keep_alive,
    )
    ended = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        with server:
            _tell(server, arguments)
            while not ended.wait(3600):
                pass
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        store.close()
    if not arguments.quiet:
        print("terrazzo: stopped", file=sys.stderr)
    return 0


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError("expected a number from 0 to 65535")
    return int(text)


def _check_there(store: Store, url: str) -> None:
    below = store
    while isinstance(below, WrapperStore) and not isinstance(below, PrefixStore):
        below = below.store
    if isinstance(below, LocalStore) and not os.path.isdir(below.root):
        raise FileNotFoundError(f"there is no folder {printable(url)!r}")


def _tell(server: Any, arguments: argparse.Namespace) -> None:
    from terrazzo.serve.page import openings, without_root

    lines = openings(server.store, server.address)
    if arguments.json:  # one line: whoever started this reads it and goes on
        told = {"address": server.address, "host": server.host, "port": server.port, "write": server.write}
        told["open"] = {what: line for what, line in lines if what != "address"}
        print_lines(json.dumps(told))
    else:
        print_fields([(what, printable(line)) for what, line in lines])
        if len(lines) == 1:
            print_lines(printable(without_root(server.store), 500))
            print_lines("Nodes below it can be opened by their paths")
    if server.everywhere and not arguments.quiet:
        may = "read and change" if server.write else "read"
        print(f"terrazzo: warning: everybody who can reach this machine may {may} it", file=sys.stderr)
    if not arguments.quiet and not arguments.json:
        print_lines("Ctrl-C ends it")
    sys.stdout.flush()
