"""Arrays: what a user holds, numpy's manners over the flows, and the documents behind them.

What it does not do: find nodes in a hierarchy, or open stores (groups).
"""

from terrazzo.arrays.array import Array
from terrazzo.arrays.place import StorePath

__all__ = ["Array", "StorePath"]
