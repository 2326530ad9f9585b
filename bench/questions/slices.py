"""How long does it take to read one plane of an array, along each axis?"""

from operations import Read, one_slice
from question import Case, Question

NAMES = ("`a[k, :, :]`", "`a[:, k, :]`", "`a[:, :, k]`")
ALONG_ALL = ("shard32-zstd", "shard32-raw")
LAST_ONLY = ("shard16-zstd", "plain64-zstd", "plain64-raw")

QUESTION = Question(
    name="slices",
    title="Reading one plane",
    about="One plane at a random position. Along the last axis every row that is wanted is one element long.",
    cases=tuple(
        Case(f"{layout}, {NAMES[axis]}", layout, Read(one_slice(axis)), calls=25)
        for layout in (*ALONG_ALL, *LAST_ONLY)
        for axis in range(3)
        if axis == 2 or layout in ALONG_ALL
    ),
)
