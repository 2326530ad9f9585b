"""The inventory room: which chunks are stored, where and how large (table.py), found from shard indexes (survey.py),
kept in a file (manifest.py), and handed on as Arrow (arrow.py)."""

from terrazzo.inventory.survey import survey
from terrazzo.inventory.table import UNKNOWN, Inventory, fingerprint

__all__ = ["UNKNOWN", "Inventory", "fingerprint", "survey"]
