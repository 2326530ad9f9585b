"""How long does it take to write a whole array that has to survive a power loss when the call returns?"""

from operations import Write, every_box
from question import Case, Question

SYNCING = ("terrazzo", "tensorstore")

QUESTION = Question(
    name="whole_write_synced",
    title="Writing a whole array, synced",
    about=(
        "terrazzo's default, and tensorstore's: every object is on the disk when the call returns. "
        "zarr-python, zarrs and zarrista cannot sync. The disk is the machine's: compare within a row."
    ),
    cases=tuple(
        Case(name, name, Write(every_box), SYNCING, calls=3, sync=True)
        for name in ("shard32-zstd", "shard32-raw", "plain64-raw")
    ),
)
