"""What is of one process: it holds a device, locks and threads, so no copy of it could work."""

from __future__ import annotations

from typing import NoReturn

from tilewright.errors import TilewrightError


def refuse_copy(what: str, instead: str, error: type[TilewrightError]) -> NoReturn:
    """Say that ``what`` cannot be copied or pickled, and what to do ``instead``. For ``__reduce_ex__``."""
    raise error(f"{what}: belongs to this process and its device, so it cannot be copied or pickled; {instead}")
