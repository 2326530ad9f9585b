"""How long does it take to read small cubes that fit no chunk?"""

from libraries import CACHES, PEERS
from operations import Read, random_boxes
from question import Case, Question

READERS = ("terrazzo", "terrazzo-immutable", *PEERS, *CACHES)
COUNT, EDGE = 250, 20

QUESTION = Question(
    name="random_boxes",
    title=f"{COUNT} random boxes of {EDGE}³",
    about=(
        "Each box touches one to eight chunks. Drawn anew for every call. With a cache (1 GiB), decoded chunks stay "
        "in memory, and a part of the reads find them there."
    ),
    cases=tuple(
        Case(
            f"{layout}, {'in one call' if batched else 'one by one'}",
            layout,
            Read(random_boxes(COUNT, EDGE), batched=batched),
            READERS,
            calls=6,
        )
        for layout, batched in (
            ("shard32-zstd", False),
            ("shard32-zstd", True),
            ("shard32-raw", False),
            ("shard16-zstd", False),
        )
    ),
)
