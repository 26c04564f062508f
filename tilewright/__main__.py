"""The ``tilewright`` command: the full one, or on a board, which has no Typer, the board's."""

from __future__ import annotations

import sys
from importlib.util import find_spec

__all__ = ["main"]


def main() -> int:
    """Run the command line; returns the exit code."""
    if find_spec("typer") is None:
        from tilewright.board import main as board

        return board()
    from tilewright.cli.app import main as full

    return full()


if __name__ == "__main__":
    sys.exit(main())
