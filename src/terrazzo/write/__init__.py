"""The write room: the flow from a value to stored objects (flow.py), its rows (rows.py), their encoding (encoding.py),
shards that are patched instead of replaced (patching.py), and whole shards from their populated chunks (whole.py)."""

from terrazzo.write.flow import write
from terrazzo.write.whole import write_shard

__all__ = ["write", "write_shard"]
