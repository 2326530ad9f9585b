"""Does a shard of a million inner chunks still work?"""

from operations import Open, Read, every_box, one_slice, random_chunks
from question import Case, Question

QUESTION = Question(
    name="huge_shard",
    title="One shard of a million inner chunks",
    about=(
        "8000 × 8000 bytes in one shard of 1000 × 1000 inner chunks of 64 bytes: its index alone has 16 MB. "
        "Opened and read for the first time; 100 inner chunks one by one; one row; all of it."
    ),
    cases=(
        Case("open, one inner chunk", "million-raw", Open(1, random_chunks(1)), calls=4),
        Case("100 inner chunks", "million-raw", Read(random_chunks(100), chunks=True), calls=4),
        Case("one row", "million-raw", Read(one_slice(0)), calls=4),
        Case("all of it", "million-raw", Read(every_box), calls=2, heavy=True),
    ),
)
