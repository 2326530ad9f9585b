"""How long does it take to read single chunks, at random: one by one, and all in one call?"""

from libraries import CACHES, PEERS
from operations import Read, random_chunks
from question import Case, Question

READERS = ("terrazzo", "terrazzo-immutable", *PEERS, *CACHES)
COUNT = 500
LAYOUTS = ("shard32-zstd", "shard32-raw", "shard32-lz4", "plain64-zstd")

QUESTION = Question(
    name="random_chunks",
    title=f"{COUNT} random chunks",
    about=(
        f"{COUNT} whole chunks (inner ones where there are shards), drawn anew for every call. zarrista is asked by "
        "`retrieve_subchunk` with its shard cache, the others by indexing; in one call: terrazzo's `read_many`, "
        "tensorstore's futures, zarr-python's coroutines, threads for zarrista. "
        "Immutable: shards are not looked at again. "
        "With a cache (1 GiB), decoded chunks are kept and a part of the reads are hits in memory."
    ),
    cases=tuple(
        Case(
            f"{layout}, {'in one call' if batched else 'one by one'}",
            layout,
            Read(random_chunks(COUNT), batched=batched, chunks=True),
            READERS,
            calls=6,
            heavy=layout == "plain64-zstd",
        )
        for layout in LAYOUTS
        for batched in (False, True)
        if not batched or layout == "shard32-zstd"
    ),
)
