"""An interpreter in a process of its own: what ends that process is an error here, and no more.

``python -m tilewright.runtime.apart MODULE:NAME`` makes the interpreter there. Pickles go both ways through its
standard streams: the arguments, then the inputs of each inference; for each an answer, or what an exception says.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Ended(RuntimeError):
    """The process ended instead of answering; says by what."""


class Apart:
    """``make(*arguments)``, and then its calls, in a process that ends with this object.

    ``make``: found by its name in its module. Raises RuntimeError for what an exception says there, Ended for the
    process's own end.
    """

    def __init__(self, make: Callable[..., Callable[[Sequence[Array]], list[Array]]], *arguments: Any) -> None:
        place = f"{make.__module__}:{make.__qualname__}"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, place],  # -P: nothing from the current folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what the kernels say about themselves, and of their end
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for this process
        )
        weakref.finalize(self, _end, self._process)
        self._ask(arguments, "this model")

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        answer: list[Array] = self._ask(list(inputs), "these numbers")
        return answer

    def _ask(self, question: Any, what: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _send(self._process.stdin, question)
            said, answer = pickle.load(self._process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise Ended(f"{what} ended the process of the kernels, {_how(self._process.wait())}") from error
        if said:
            raise RuntimeError(said)
        return answer


def _send(stream: IO[bytes], value: Any) -> None:
    pickle.dump(value, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


def _how(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):  # a question that was not read
                stream.close()


def main(place: str) -> None:
    """Answer until the questions end."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # an interpreter that prints does not print among the answers
    module, name = place.split(":")
    made: Any = None
    while True:
        try:
            question = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            if made is None:
                made, answer = getattr(importlib.import_module(module), name)(*question), None
            else:
                answer = [np.asarray(y) for y in made(question)]
        except Exception as error:  # noqa: BLE001 - it is raised again where it is asked
            _send(answers, (str(error) or type(error).__name__, None))
        else:
            _send(answers, ("", answer))


if __name__ == "__main__":
    main(sys.argv[1])
