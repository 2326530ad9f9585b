"""How much memory does it take, beyond the array itself?"""

from operations import Read, Write, every_box, middle
from question import WITH_FLOOR, WRITERS, Case, Question

QUESTION = Question(
    name="memory",
    title="Memory",
    about=(
        "The peak of the process above what it had before the call, in MiB; for reads less the array that is answered. "
        "One call in each process."
    ),
    cases=(
        *(
            Case(f"read, {layout}", layout, Read(every_box), WITH_FLOOR[:-1], calls=0)
            for layout in ("shard32-zstd", "shard16-zstd", "shard32-raw", "plain64-zstd", "plain64-raw")
        ),
        *(
            Case(f"write, {layout}", layout, Write(every_box), WRITERS, calls=0)
            for layout in ("shard32-zstd", "shard32-raw", "plain64-raw")
        ),
        Case(
            "100³ over 8 shards, shard32-zstd",
            "shard32-zstd",
            Write(middle(100), on="copy"),
            WRITERS,
            calls=0,
        ),
    ),
    plot="memory",
    unit="MiB",
)
