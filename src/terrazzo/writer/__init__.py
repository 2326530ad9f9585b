"""The buffered writer: small pieces in (shard_writer.py), whole shards out (backlog.py), at an end that others share
(end.py); where it cuts the array (cuts.py), what of a part has arrived (parts.py), and the encoded chunks of shards
that are not complete yet (pending.py)."""

from terrazzo.writer.shard_writer import ShardWriter

__all__ = ["ShardWriter"]
