"""What a device that is built on first use tells while it is built."""

from __future__ import annotations

import sys
from collections.abc import Callable

BuildProgress = Callable[[str, int, int], None]  #: what is being done, how many of how many steps (0: unknown)


def print_build_progress(device: str, what: str, done: int, total: int) -> None:
    """Tell the error stream of a step of a device's build."""
    print(f"{device}: {what} ({done}/{total})" if total else f"{device}: {what}", file=sys.stderr, flush=True)
