"""How do many small plain chunks go, a file each?"""

from operations import Read, Write, every_box, one_slice
from question import Case, Question

QUESTION = Question(
    name="small_objects",
    title="4,096 small plain chunks",
    about="256³ in plain chunks of 16³ (8 kB, a file each): read, one plane of 256 chunks read, written unsynced.",
    cases=(
        Case("read", "plain16-zstd", Read(every_box), calls=4),
        Case("one plane", "plain16-zstd", Read(one_slice(2)), calls=8),
        Case("write", "plain16-zstd", Write(every_box), calls=3),
    ),
)
