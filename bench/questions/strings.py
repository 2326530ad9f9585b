"""How fast are strings?"""

from operations import Read, Write, every_box, first
from question import Case, Question

READERS = ("terrazzo", "zarr", "zarr-fused", "zarr-zarrs", "zarrista", "tensorstore")

QUESTION = Question(
    name="strings",
    title="A million strings",
    about="2^20 strings of 0 to 20 letters, `vlen-utf8` and zstd, 2^13 in an inner chunk, 32 inner chunks in a shard.",
    cases=(
        Case("read", "strings-zstd", Read(every_box), READERS, calls=3),
        Case("first 1,000", "strings-zstd", Read(first(1000)), READERS, calls=8),
        Case("write", "strings-zstd", Write(every_box), READERS, calls=3),
    ),
)
