"""The write room: the flow from a value to stored objects (flow.py), its rows (rows.py), their encoding (encoding.py),
shards that are patched instead of replaced (patching.py), whole shards from their populated chunks (whole.py), and
shards from chunks that are encoded already (encoded.py); what of a chunk may be others' past the array's end
(ends.py)."""

from terrazzo.write.converting import is_converted_late
from terrazzo.write.encoded import EncodedShard, put_encoded
from terrazzo.write.encoding import encode
from terrazzo.write.ends import Ends
from terrazzo.write.flow import write
from terrazzo.write.patching import Memory, check_strategy
from terrazzo.write.rows import Rows
from terrazzo.write.slots import has_slots
from terrazzo.write.whole import write_shard

__all__ = [
    "EncodedShard",
    "Ends",
    "Memory",
    "Rows",
    "check_strategy",
    "encode",
    "has_slots",
    "is_converted_late",
    "put_encoded",
    "write",
    "write_shard",
]
