"""The ``tilewright`` command: the full one, or on a board, which has no Typer, the board's."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

from tilewright import interrupts

__all__ = ["main"]


def main() -> int:
    """Run the command line; returns the exit code."""
    interrupts.install()
    home = "tilewright.board" if find_spec("typer") is None else "tilewright.cli.app"
    return interrupts.end(int(import_module(home).main()))


if __name__ == "__main__":
    sys.exit(main())
