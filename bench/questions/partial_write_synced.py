"""What does it cost to change a part of what is stored, so that it survives a power loss?"""

from libraries import OURS
from operations import Write, middle, random_chunks
from question import Case, Question

WRITERS = (*OURS, "tensorstore")

QUESTION = Question(
    name="partial_write_synced",
    title="Changing a part, synced",
    about="As above, and on the disk when each assignment returns. Only terrazzo and tensorstore can.",
    cases=(
        Case(
            "shard32-zstd, 100³ over 8 shards",
            "shard32-zstd",
            Write(middle(100), on="copy"),
            WRITERS,
            1,
            True,
        ),
        Case(
            "shard32-zstd, 4 inner chunks",
            "shard32-zstd",
            Write(random_chunks(4), on="copy"),
            WRITERS,
            1,
            True,
        ),
        Case(
            "shard32-raw, 4 inner chunks", "shard32-raw", Write(random_chunks(4), on="copy"), WRITERS, 1, True
        ),
    ),
)
