"""Care: what keeps a hierarchy well over years: checking it, and copying it into other chunks, shards and codecs.

What it does not do: change anything that it was not asked to change. A check only reads; a copy leaves its source.
"""

from __future__ import annotations

from terrazzo.care.check import check
from terrazzo.care.compact import CompactReport, compact
from terrazzo.care.copy import copy
from terrazzo.care.hierarchy import Summary, inventories
from terrazzo.care.merge import merge
from terrazzo.care.migrate import Migration, migrate
from terrazzo.care.presence import PresenceMap, presence_map
from terrazzo.care.repair import Lost, RepairReport, repair
from terrazzo.care.report import KINDS, NOTES, Note, Problem, Report
from terrazzo.care.reshard import reshard
from terrazzo.care.shard_map import ShardMap, shard_map
from terrazzo.care.stating import state_shards

__all__ = [
    "KINDS",
    "NOTES",
    "CompactReport",
    "Lost",
    "Migration",
    "Note",
    "PresenceMap",
    "Problem",
    "RepairReport",
    "Report",
    "ShardMap",
    "Summary",
    "check",
    "compact",
    "copy",
    "inventories",
    "merge",
    "migrate",
    "presence_map",
    "repair",
    "reshard",
    "shard_map",
    "state_shards",
]
