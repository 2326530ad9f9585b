"""The command line: `terrazzo VERB …`, one file a verb.

What it does not do: work. A verb reads its arguments, calls the rooms below, and prints what they answer.
"""

from __future__ import annotations

from terrazzo.cli.run import main

__all__ = ["main"]
