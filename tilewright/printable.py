"""Text from files and command lines, as a terminal may have it: names can hold what would move its cursor, colour it,
write from right to left, or be no text at all. The lowest layer: imports nothing of the project."""

from __future__ import annotations

import contextlib
import html
import os
import re
import sys
from typing import IO

LONGEST_LINE = 1000  #: characters of an error; what is between its ends is left out of a longer one
_LONE = re.compile("[\ud800-\udfff]")
_BYTE = range(0xDC80, 0xDD00)  #: what Python makes of bytes of a file's name that are not UTF-8


def printable(text: str, keep: str = "") -> str:
    """``text`` with an escape (``\\x1b``) for each character that is not seen as itself, but for those of ``keep``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def encodable(text: str) -> str:
    """``text`` with an escape for what UTF-8 cannot encode: bytes of a file's name that are not text."""
    return _LONE.sub(lambda found: _escape(found[0]), text)


def in_html(text: str) -> str:
    """``text`` for an HTML page: escaped, and printable."""
    return html.escape(printable(text, keep="\n"))


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """``text`` as one line of at most ``longest`` characters, of which both ends are there."""
    line = printable(" ".join(text.split()))
    if len(line) <= longest:
        return line
    head = (longest - 5) // 2
    return f"{line[:head]} ... {line[len(line) - (longest - 5 - head) :]}"


def say(text: str, stream: IO[str] | None = None) -> None:
    """Print a line (or several) to standard output, or to ``stream``, at once."""
    print(printable(text, keep="\n\t"), file=stream or sys.stdout, flush=True)


def write_out(text: str) -> None:
    """Print what another program may read to standard output: exactly, unless a terminal shows it."""
    if sys.stdout is not None:
        sys.stdout.write(printable(text, keep="\n\t") if sys.stdout.isatty() else text)


def output_failed(error: OSError) -> str | None:
    """What to say where the operating system has refused something that no reader or writer has said: a disk that is
    full, a folder that has gone. None if the reader of our output has gone, e.g. ``| head``: not worth a message.
    """
    _drop_unwritten(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return None
    return f"{error.filename or 'the output'}: {(error.strerror or str(error)).lower()}"


def complain(message: str, before: str = "") -> None:
    """Print the error that a command ends with, as one line behind those ``before``; an error stream that takes it no
    more is no further error."""
    with contextlib.suppress(OSError):
        say(f"{before}tilewright: {one_line(message)}", sys.stderr)
    _drop_unwritten(sys.stderr)


def _drop_unwritten(stream: IO[str]) -> None:
    """What is still to be written to a stream that takes no more goes nowhere; Python would try at its end, complain of
    standard output, and in some versions end with another exit code for either."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def open_streams() -> None:
    """Standard streams that can be written to: to nowhere where they were closed, with escapes for characters that
    their encoding lacks.

    A descriptor that was closed would be given to the next file that is opened, and what libraries print go there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            if null != number:
                os.dup2(null, number)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code - 0xDC00:02x}" if code in _BYTE else character.encode("unicode_escape").decode()
