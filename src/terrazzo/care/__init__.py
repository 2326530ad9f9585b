"""Care: what keeps a hierarchy well over years: checking it, and copying it into other chunks, shards and codecs.

What it does not do: change anything that it was not asked to change. A check only reads; a copy leaves its source.
"""

from __future__ import annotations

from terrazzo.care.check import check
from terrazzo.care.copy import copy
from terrazzo.care.report import KINDS, Problem, Report

__all__ = ["KINDS", "Problem", "Report", "check", "copy"]
