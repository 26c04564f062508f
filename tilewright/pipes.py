"""Files and pipes opened without waiting for ever for somebody at a pipe's other end, or for an end."""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from pathlib import Path
from typing import IO

PIPE_SECONDS = 30.0  #: that a pipe is waited for while nobody has its other end open
_LOOK_SECONDS = 0.05
_PIECE = 1 << 20


class PipeError(OSError):
    """Nobody is at a pipe's other end, or more comes out of a file than is wanted; says so."""


def read_all(path: str | Path, most: int) -> bytes:
    """All of a file or pipe. Raises :class:`PipeError`, for more than ``most`` bytes before they are read."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb", buffering=0) as file:
        status = os.fstat(handle)
        if status.st_size > most:
            raise PipeError(f"{status.st_size:,} bytes, of which {most:,} are read at most")
        if stat.S_ISFIFO(status.st_mode):
            return _drained(handle, most)
        os.set_blocking(handle, True)
        data = file.read(status.st_size + 1)  # at its end at once, unless it grows or its size is not known (/proc)
        while len(data) <= most and (more := file.read(_PIECE)):
            data += more
        if len(data) > most:
            raise PipeError(f"more than {most:,} bytes")
        return data


def _drained(handle: int, most: int) -> bytes:
    """What comes out of a pipe; its writer may take as long as it wants, but must be there in time."""
    data, due = bytearray(), time.monotonic() + PIPE_SECONDS
    seen = False  # whether there was a writer
    while True:
        try:
            piece = os.read(handle, _PIECE)
        except BlockingIOError:
            seen = True
            select.select([handle], [], [])
            continue
        data += piece
        if len(data) > most:
            raise PipeError(f"more than {most:,} bytes")
        if piece:
            seen = True
        elif seen or _ended(handle):
            return bytes(data)
        elif time.monotonic() > due:
            raise PipeError(f"a pipe, and nobody has written to it for {PIPE_SECONDS:g} s")
        else:
            time.sleep(_LOOK_SECONDS)


def _ended(handle: int) -> bool:
    """Whether a pipe has had a writer that has closed it."""
    looked = select.poll()
    looked.register(handle, select.POLLIN)
    return bool(looked.poll(0))


def opened_for_writing(path: Path) -> IO[bytes]:
    """A device, or a pipe that somebody reads, or begins to in time. Raises :class:`PipeError`."""
    due = time.monotonic() + PIPE_SECONDS
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.set_blocking(handle, True)
            return os.fdopen(handle, "wb")
        except OSError as error:
            if error.errno != errno.ENXIO or not stat.S_ISFIFO(os.stat(path).st_mode):
                raise
        if time.monotonic() > due:
            raise PipeError(f"a pipe, and nobody has read from it for {PIPE_SECONDS:g} s")
        time.sleep(_LOOK_SECONDS)
