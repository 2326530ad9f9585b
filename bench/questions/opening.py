"""What does it cost to open an array, and to read from it for the first time?"""

from operations import Open, random_chunks
from question import Case, Question

QUESTION = Question(
    name="opening",
    title="Opening an array, 20 times",
    about="Opened 20 times; and opened 20 times with one inner chunk read each time, so that its index is new.",
    cases=(
        Case("open", "shard32-zstd", Open(20), calls=10),
        Case("open, one inner chunk", "shard32-zstd", Open(20, random_chunks(20)), calls=10),
    ),
)
