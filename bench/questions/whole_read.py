"""How long does it take to read a whole array?"""

from operations import Read, every_box
from question import WITH_FLOOR, Case, Question

LAYOUTS = (
    "shard32-zstd",
    "shard32-lz4",
    "shard32-gzip",
    "shard32-raw",
    "shard16-zstd",
    "plain64-zstd",
    "plain64-raw",
)

QUESTION = Question(
    name="whole_read",
    title="Reading a whole array",
    about="`array[...]`, the page cache warm. The floor for gzip is zlib's decoder, which is slower than ours.",
    cases=tuple(Case(name, name, Read(every_box), WITH_FLOOR, calls=4) for name in LAYOUTS),
)
