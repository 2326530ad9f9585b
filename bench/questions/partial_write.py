"""What does it cost to change a part of what is stored, when nobody waits for the disk?"""

from libraries import OURS, PEERS
from operations import Write, middle, random_chunks
from question import Case, Question

WRITERS = (*OURS, *PEERS, "tensorstore-cache")

QUESTION = Question(
    name="partial_write",
    title="Changing a part, nobody syncs",
    about=(
        "A cube of 100³ across eight shards, which fits no chunk; and four single inner chunks, one assignment each. "
        "terrazzo replaces the shard unless it says in place or append."
    ),
    cases=(
        *(
            Case(f"{layout}, 100³ over 8 shards", layout, Write(middle(100), on="copy"), WRITERS, calls=3)
            for layout in ("shard32-zstd", "shard32-raw")
        ),
        *(
            Case(f"{layout}, 4 inner chunks", layout, Write(random_chunks(4), on="copy"), WRITERS, calls=3)
            for layout in ("shard32-zstd", "shard16-zstd", "shard32-raw")
        ),
    ),
)
