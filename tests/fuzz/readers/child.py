"""A process that reads damaged files, one after another, and may die of one of them.

``python -m tests.fuzz.readers.child FORMAT FIRST CPU_SECONDS FOLDER``. Before each case a line ``seed`` goes out,
after it ``seed outcome message``; the file lies in FOLDER meanwhile, so that a case that ends the process is known.
A case that uses too much processor time ends it too, by SIGPROF; the time of day would count other processes' share.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

from tests.fuzz.readers.formats import FORMATS, Defect, Format
from tilewright.errors import TilewrightError

HANG_SECONDS = 300.0  #: of processor time: a case that takes more counts as a hang
_START_SECONDS = 600.0  #: for the first case: the process compiles its native code
READ, REFUSED, FAILED = "read", "refused", "failed"


def attempt(form: Format, path: Path) -> tuple[str, str]:
    """What reading a file comes to: one of the outcomes, and a line about it."""
    try:
        form.read(path)
    except TilewrightError as error:
        return (FAILED, "an empty message") if not str(error).strip() else (REFUSED, type(error).__name__)
    except Defect as error:
        return FAILED, str(error)
    except Exception as error:  # noqa: BLE001 - this is what is looked for; it is reported as a defect
        where = traceback.extract_tb(error.__traceback__)[-1]
        return FAILED, f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno} {where.name})"
    return READ, ""


def main(name: str, first: int, seconds: float, folder: Path) -> None:
    """Cases from seed ``first`` on until the process has used ``seconds`` of processor time."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # importers and interpreters print what they do not like
        os.dup2(null, stream)
    form, seed = FORMATS[name], first
    while time.process_time() < seconds:
        path = folder / f"{name}{seed}{form.suffix}"
        path.write_bytes(form.make(random.Random(seed)))
        signal.setitimer(signal.ITIMER_PROF, _START_SECONDS if seed == first else HANG_SECONDS)
        print(seed, file=answers)
        outcome, message = attempt(form, path)
        print(seed, outcome, " ".join(message.split())[:300], file=answers)
        if outcome != FAILED:
            path.unlink()
        seed += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
