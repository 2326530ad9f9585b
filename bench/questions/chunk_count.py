"""What does it cost to cut a shard into more inner chunks?"""

from operations import Read, every_box, one_slice
from question import WITH_FLOOR, Case, Question

EDGES = (128, 64, 32, 16, 8)

QUESTION = Question(
    name="chunk_count",
    title="Cost against the number of inner chunks",
    about="One shard of 256³ (32 MiB), read whole and by one plane, cut into 8 to 32,768 inner chunks (4 MiB to 1 kB).",
    cases=tuple(
        Case(
            f"{what}, {(256 // edge) ** 3:,} inner chunks",
            f"cut{edge}-zstd",
            Read(select),
            WITH_FLOOR if what == "whole" else WITH_FLOOR[:-2],
            calls=6,
            heavy=edge == 8,
            inner_chunks=(256 // edge) ** 3,
        )
        for what, select in (("whole", every_box), ("plane", one_slice(2)))
        for edge in EDGES
    ),
    plot="lines",
)
