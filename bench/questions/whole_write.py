"""How long does it take to write a whole array, when nobody waits for the disk?"""

from operations import Write, every_box
from question import Case, Question

LAYOUTS = (
    "shard32-zstd",
    "shard32-lz4",
    "shard32-gzip",
    "shard32-raw",
    "shard16-zstd",
    "plain64-zstd",
    "plain64-raw",
)
NOBODY = ("terrazzo", "zarr", "zarr-fused", "zarr-zarrs", "zarrista", "tensorstore", "floor")

QUESTION = Question(
    name="whole_write",
    title="Writing a whole array, nobody syncs",
    about=(
        'One assignment; terrazzo with `durability="none"`, tensorstore with `file_io_sync` off, others never sync. '
        "What is written then waits in the page cache. The floor encodes and writes, without a temporary file."
    ),
    cases=tuple(
        Case(name, name, Write(every_box), NOBODY, calls=3, heavy="gzip" in name) for name in LAYOUTS
    ),
)
