"""`python -m terrazzo`: the command line, where the script `terrazzo` is not on the path."""

from __future__ import annotations

import sys

from terrazzo.cli import main

if __name__ == "__main__":
    sys.exit(main())
