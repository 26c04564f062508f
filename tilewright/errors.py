"""The one error a user is meant to see. The lowest layer: imports nothing."""

from __future__ import annotations

from typing import Any


class TilewrightError(Exception):
    """An error the user can act on.

    The message is one line that names what is wrong, where, and the way out; the command line prints it
    alone, without a traceback, and exits with code 2. Anything else that escapes is a defect of Tilewright.
    ``details`` are lines that stand before it where there are several things to mend.
    """

    details: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """As it is: a subclass whose constructor takes more than the message cannot be made from that again."""
        return _again, (type(self), self.args), self.__dict__ or None


def _again(cls: type[TilewrightError], arguments: tuple[Any, ...]) -> TilewrightError:
    return cls.__new__(cls, *arguments)
