"""Encoding a write's rows into sinks, by the kernel, or chunk by chunk where it does not know the chain.

What it does not do: decide what is written where (rows.py, strategy.py).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

import numpy as np

from terrazzo import _kernel
from terrazzo.errors import CodecError, LimitError, ShardError
from terrazzo.indexing import Window
from terrazzo.layout import Layout
from terrazzo.options import Options
from terrazzo.read import MAX_ROWS, bytes_of, place, raise_failures, size_of
from terrazzo.shard import EMPTY
from terrazzo.stores.flow import Fetching, Working
from terrazzo.stores.store import Hold, Sink, Source
from terrazzo.write.rows import COPY, OVER_OLD, Rows
from terrazzo.write.slack import Slack

__all__ = ["copy_encoded", "encode", "old_objects"]

Array = np.ndarray[Any, Any]


def old_objects(holds: Sequence[Hold], whole: Array) -> Generator[Any, Any, list[Any]]:
    """What the kernel reads old chunks from: a descriptor, or a buffer with the whole object."""
    handles: list[Any] = [b""] * len(holds)
    lacking: dict[int, Source] = {}
    for k, hold in enumerate(holds):
        if hold.source is None or whole[k]:
            continue
        if hold.source.handle is None:
            lacking[k] = hold.source
        else:
            handles[k] = hold.source.handle
    if lacking:
        answers = yield Fetching([(source, [(0, size_of(source))]) for source in lacking.values()])
        for k, (buffer,) in zip(lacking, answers, strict=True):
            handles[k] = buffer
    return handles


def encode(
    layout: Layout,
    window: Window,
    rows: Rows,
    names: Sequence[str],
    sources: Sequence[Any],
    sinks: Sequence[Sink | None],
    counts: Sequence[tuple[int, ...]],
    starts: Sequence[int],
    value: Array,
    options: Options,
    slack: Slack | None = None,
) -> Generator[Any, Any, tuple[Array, list[int]]]:
    """Encode every row into its sink, from the sink's start on; answers entries uint64 (n, 2) in the order of the
    rows, and where each sink's last chunk, and the slack behind it, ends."""
    chains, _ = layout.chains(window.outers)
    programs = layout.programs(chains)
    drop = not options.write_empty_chunks
    if programs is None:
        ends = list(starts)
        found = np.empty((len(rows), 2), np.uint64)
        yield Working(
            partial(
                _encode_in_python,
                *(layout, window, rows, names, counts, sources, sinks, chains, value, drop, found, ends),
                slack,
            )
        )
        return found, ends

    def failed(start: int, stop: int, failures: Sequence[Any]) -> None:
        raise_failures(layout, names, counts, rows.number[start:stop], rows.inner[start:stop], failures)

    kernel = partial(_kernel.encode, programs, sources)
    laid = (window.placement(), value.view(f"V{value.dtype.itemsize}"))
    return (yield from _poured(kernel, laid, rows, sinks, starts, drop, options, slack, failed))


def copy_encoded(
    rows: Rows,
    sources: Sequence[Any],
    sinks: Sequence[Sink],
    starts: Sequence[int],
    options: Options,
    slack: Slack | None = None,
) -> Generator[Any, Any, tuple[Array, list[int]]]:
    """Copy encoded chunks (rows whose action is COPY) into their sinks; answers as `encode` does."""

    def failed(start: int, stop: int, failures: Sequence[Any]) -> None:
        row, _, sentence = min(failures)
        raise ShardError(f"encoded bytes of a chunk cannot be copied: {sentence} (row {start + row})")

    kernel = partial(_kernel.encode, [], sources)
    laid: tuple[Any, Array] = ("grid", []), np.zeros((), np.uint8)
    return (yield from _poured(kernel, laid, rows, sinks, starts, False, options, slack, failed))


def _poured(
    kernel: Callable[..., Any],
    laid: tuple[Any, Array],
    rows: Rows,
    sinks: Sequence[Sink | None],
    starts: Sequence[int],
    drop: bool,
    options: Options,
    slack: Slack | None,
    failed: Callable[[int, int, Sequence[Any]], None],
) -> Generator[Any, Any, tuple[Array, list[int]]]:
    """Rows through the kernel into their sinks, as many at a time as a table may have; with slack, as many as fit the
    memory of a call, since chunks move apart there before they are written."""
    found = np.empty((len(rows), 2), np.uint64)
    ends = list(starts)
    handles = [None if sink is None or slack is not None else sink.handle for sink in sinks]
    step = MAX_ROWS if slack is None else slack.rows_at_once
    for start in range(0, len(rows), step):
        stop = min(start + step, len(rows))
        part = rows.table(start, stop)
        got, bodies, after, failures = yield Working(
            partial(kernel, part, *laid, handles, ends, drop, options.workers)
        )
        if failures:
            failed(start, stop, failures)
        entries = np.frombuffer(got, np.uint64).reshape(-1, 2)
        if slack is not None:
            entries, bodies, after = slack.spread(rows.number[start:stop], entries, bodies, ends)
        for sink, body, position in zip(sinks, bodies, ends, strict=True):
            if body and sink is not None:
                sink.write(position, body)
        found[start:stop] = entries
        ends = list(after)
    return found, ends


def _encode_in_python(
    layout: Layout,
    window: Window,
    rows: Rows,
    names: Sequence[str],
    counts: Sequence[tuple[int, ...]],
    sources: Sequence[Any],
    sinks: Sequence[Sink | None],
    chains: Sequence[Any],
    value: Array,
    drop: bool,
    found: Array,
    ends: list[int],
    slack: Slack | None,
) -> None:
    """For chains that the kernel does not know: one chunk after the other."""
    for k, (action, program, _, sink, source, offset, nbytes) in enumerate(rows.table(0, len(rows)).tolist()):
        chain = chains[program]
        row = int(rows.origin[k])
        if action == COPY:
            encoded = bytes_of(sources[source], offset, nbytes)
        else:
            try:
                if action == OVER_OLD:
                    chunk = np.array(chain.decode(bytes_of(sources[source], offset, nbytes)))
                else:
                    chunk = np.full(chain.spec.shape, layout.fill, layout.dtype)
                chunk[window.chunk_selection(row)] = value[window.out_selection(row)]
                encoded = None if drop and chain.is_fill(chunk) else chain.encode(chunk)
            except (CodecError, ShardError, LimitError) as error:
                where = place(layout, names, counts, int(rows.number[k]), int(rows.inner[k]))
                raise type(error)(f"{where}: {error}") from error
        if encoded is None or not (length := memoryview(encoded).nbytes):
            found[k] = EMPTY
            continue
        target = sinks[sink]
        assert target is not None
        target.write(ends[sink], encoded)
        found[k] = (ends[sink], length)
        ends[sink] += length
        if slack is not None and (free := slack.behind(sink, length)):
            target.write(ends[sink], bytes(free))
            ends[sink] += free
