"""What is wrong with a command line beyond its syntax, and the board's parser, whose errors are one line as all are."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from tilewright.errors import TilewrightError
from tilewright.printable import write_out


class UsageProblem(TilewrightError):
    """Options that do not go together, or that have no effect on what was asked for."""


class Parser(argparse.ArgumentParser):
    """argparse's, raising :class:`UsageProblem` instead of printing its usage and ending the process."""

    def print_help(self, file: Any = None) -> None:
        """Print it where a full disk is an error, which argparse passes over."""
        write_out(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Raise :class:`UsageProblem` with the way out."""
        raise UsageProblem(f"{message}; {self.prog} --help shows how it is used")


def refuse_vain(*options: tuple[Any, bool, str]) -> None:
    """Raise :class:`UsageProblem` for an option that was given and has no effect.

    ``options``: for each its value (None or False: not given), whether it has one here, and what to say: its name, why
    not, and the way out.
    """
    for given, fits, text in options:
        if given is not None and given is not False and not fits:
            raise UsageProblem(text)
