"""The one error a user is meant to see. The lowest layer: imports nothing."""

from __future__ import annotations


class TilewrightError(Exception):
    """An error the user can act on.

    The message is one line that names what is wrong, where, and the way out; the command line prints it
    alone, without a traceback, and exits with code 2. Anything else that escapes is a defect of Tilewright.
    """
