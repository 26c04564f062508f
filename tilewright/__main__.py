"""The ``tilewright`` command: the full one, or on a board, which has no Typer, the board's."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

__all__ = ["main"]


def main() -> int:
    """Run the command line; returns the exit code."""
    home = "tilewright.board" if find_spec("typer") is None else "tilewright.cli.app"
    try:
        command = import_module(home).main
    except KeyboardInterrupt:  # while it is loaded, which takes a second
        print("tilewright: interrupted", file=sys.stderr)
        return 130
    return int(command())


if __name__ == "__main__":
    sys.exit(main())
