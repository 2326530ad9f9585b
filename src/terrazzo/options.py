"""Options: one frozen value that says how work is done; passed down, never looked up below.

What it does not do: decide what is stored. Nothing in here reaches a document, save the defaults for new arrays.

`terrazzo.config` is the context value it is read from, once, when something is opened.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["DRAFTS", "Durability", "Limits", "Options"]

Durability = Literal["fsync", "rename", "none"]

MIB = 1 << 20
#: extensions that are only proposed, and may still change: read and written where `Options.drafts` names them
DRAFTS: dict[str, str] = {
    "suffix": "the chunk key encoding `suffix` (zarr-extensions#28)",
    "fanout": "the chunk key encoding `fanout` (zarr-extensions#31)",
    "optional": "the data type and codec `optional` (zarr-extensions#33)",
    "clipped": "inner chunks that do not divide their shard (zarr-specs#370)",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What hostile metadata may ask for at most; raise them for data that you trust."""

    chunk_nbytes: int = 2 << 30
    metadata_nbytes: int = 64 * MIB
    index_entries: int = 1 << 26
    ndim: int = 64
    depth: int = 64


@dataclass(frozen=True, slots=True)
class Options:
    """How work is done.

    threads: threads of the kernel for one call; None: see `workers`.
    memory: bytes that one call may use beyond its output.
    durability: "fsync" (durable when the call returns), "rename" (atomic, durable after `sync()`), "none" (scratch).
    strict: refuse what could corrupt or mislead (True), or warn where the values are still certain (False).
    index_cache_nbytes: bytes of decoded shard indexes an array may keep.
    chunk_cache_nbytes: bytes of decoded chunks an array may keep, for small reads that come back to the same chunks.
    immutable: shards are known not to change: skip the look that validates a cached index, and keep
        the last of them open.
    write_empty_chunks: store chunks that hold nothing but the fill value.
    missing: what an absent chunk means: "fill" or "error".
    drafts: extensions that are only proposed, and wanted all the same: any of DRAFTS.
    order: how values lie in memory that reads answer: "C" (last dimension first) or "F".
    allow_pickle: decode chunks of pickled objects (Zarr 2 has them), which runs whatever code they hold.
    """

    threads: int | None = None
    memory: int = 64 * MIB
    durability: Durability = "fsync"
    strict: bool = True
    index_cache_nbytes: int = 64 * MIB
    chunk_cache_nbytes: int = 0
    immutable: bool = False
    write_empty_chunks: bool = False
    missing: Literal["fill", "error"] = "fill"
    drafts: tuple[str, ...] = ()
    order: Literal["C", "F"] = "C"
    allow_pickle: bool = False
    limits: Limits = field(default_factory=Limits)

    def without_draft(self, name: str) -> str | None:
        """Why a draft is not used; None where it was asked for."""
        if name in self.drafts:
            return None
        return (
            f"is {DRAFTS[name]}, a proposal that may still change; drafts=[{name!r}] in the configuration "
            "(terrazzo.config.set, config=) reads and writes it"
        )

    @property
    def workers(self) -> int:
        """Threads of the kernel for one call, in this process.

        Where `threads` is None: the CPUs this process may run on, not more than OMP_NUM_THREADS where that is set (as
        Dask and joblib do for their workers), and one in a process that `multiprocessing` started: its siblings work at
        the same time, as those of a process pool and PyTorch's DataLoader do.
        """
        return self.threads or _default_workers()


#: the answer for this process, and its number: a forked child asks again
_known: tuple[int, int] = (0, 0)


def _default_workers() -> int:
    global _known
    process, count = _known
    if process != os.getpid():
        count = _count_workers()
        _known = (os.getpid(), count)
    return count


def _count_workers() -> int:
    started = sys.modules.get("multiprocessing.process")  # a child of it has imported it
    if started is not None and started.parent_process() is not None:
        return 1
    try:
        cpus = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        cpus = os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(cpus, int(wanted)) if wanted.isdecimal() and int(wanted) > 0 else cpus
