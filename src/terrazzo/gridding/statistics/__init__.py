"""Statistics: points sorted by cell (points.py), and what is computed from them (statistic.py is the contract)."""

from terrazzo.gridding.statistics.choice import merging_statistic, statistic_for
from terrazzo.gridding.statistics.digest import digest_quantile
from terrazzo.gridding.statistics.expression import Expression
from terrazzo.gridding.statistics.points import Cells, Points, sort_by_cell
from terrazzo.gridding.statistics.statistic import State, Statistic

__all__ = [
    "Cells",
    "Expression",
    "Points",
    "State",
    "Statistic",
    "digest_quantile",
    "merging_statistic",
    "sort_by_cell",
    "statistic_for",
]
