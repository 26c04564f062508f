"""Folders for builds that may be killed: gone when the build ends, or when the next one begins."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "build-"
GRACE_SECONDS = 60  #: a folder younger than this may be one that its maker has not locked yet


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A new folder in ``folder``, removed at the end; those that killed builds left there are removed first."""
    sweep(folder)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=folder) as name:
        held = os.open(name, os.O_RDONLY)  # the kernel ends the lock with the process, however it ends
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(held)


def sweep(folder: Path) -> None:
    """Remove the folders of builds that are no more."""
    for path in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another process sweeps too
            held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if time.time() - os.fstat(held).st_mtime > GRACE_SECONDS:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
            finally:
                os.close(held)
