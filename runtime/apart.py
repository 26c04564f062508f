"""Interpreters in processes of their own: what ends or hangs such a process is an error here, and no more.

Loading LiteRT takes longer than most of its models do, so one process loads it (the server: ``python -m
tilewright.runtime.apart``) and forks for every interpreter. Pickles go both ways through a socket of each: how to make
the interpreter, then the inputs of each inference; for each an answer, or what an exception says. Large arrays lie in
memory that both ends map.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import hashlib
import importlib
import mmap
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

#: seconds without an answer after which a process is taken for hung: the slowest networks take a board minutes
LIMIT = 1800.0
#: what the server loads before it forks
_LOADED = ("ai_edge_litert.interpreter", "ai_edge_litert.schema_py_generated", "tilewright.runtime.interpreters")
_NUMBER = struct.Struct("q")  #: a process, or how it ended
_UNKNOWN = 1 << 32  #: in the place of how it ended


_IN_SOCKET = 1 << 16  #: bytes of an array up to which it goes through the socket


class Ended(RuntimeError):
    """The process ended instead of answering, or did not answer in time."""


class _Channel:
    """One end of a socket for pickles, with the memory (a file) in which the arrays of the last one lie."""

    def __init__(self, end: socket.socket, memory: int) -> None:
        self.end, self._memory = end, memory
        self._stream, self._shared = end.makefile("rb"), memoryview(b"")

    def send(self, value: Any) -> None:
        large: list[memoryview] = []

        def is_small(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes > _IN_SOCKET:
                large.append(raw)
            return raw.nbytes <= _IN_SOCKET

        content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL, buffer_callback=is_small)
        sizes = [raw.nbytes for raw in large]
        for raw, part in zip(large, self._parts(sizes)):
            part[:] = raw
        self.end.sendall(pickle.dumps((content, sizes)))

    def receive(self) -> Any:
        content, sizes = pickle.load(self._stream)
        return pickle.loads(content, buffers=[bytearray(part) for part in self._parts(sizes)])

    def _parts(self, sizes: list[int]) -> list[memoryview]:
        """Memory for arrays of so many bytes, one after the other."""
        ends = [0, *accumulate(sizes)]
        if ends[-1] > len(self._shared):
            os.ftruncate(self._memory, max(ends[-1], os.fstat(self._memory).st_size))
            self._shared = memoryview(mmap.mmap(self._memory, ends[-1]))
        return [self._shared[a:b] for a, b in pairwise(ends)]

    def close(self) -> None:
        self._stream.close()
        self.end.close()
        os.close(self._memory)


class _Process:
    """One that the server has forked, at the other end of a channel."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.channel, self.number = _fork()
        self.is_well = True

    def ask(self, question: Any, what: str) -> Any:
        """The answer; ``what`` is asked about. Raises RuntimeError and Ended as :class:`Apart` does."""
        if self.owner != os.getpid():
            raise Ended("loaded before this process was forked; load the model again")
        well, self.is_well = self.is_well, False
        try:
            self.channel.end.settimeout(LIMIT)
            self.channel.send(question)
            said, answer = self.channel.receive()
        except TimeoutError as error:
            _kill(self.number)
            raise Ended(f"{what} took the kernels longer than {LIMIT:g} s, which ended their process") from error
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise Ended(f"{what} ended the process of the kernels, {_how(_status(self.number))}") from error
        except BaseException:  # Ctrl-C: an answer that comes now is to no question
            _kill(self.number)
            raise
        self.is_well = well
        if said:
            raise RuntimeError(said)
        return answer


_KEPT = 32  #: processes that are kept
_IDLE: list[tuple[bytes, _Process]] = []  #: what is made there, by its digest; the latest used last


class Apart:
    """``make(*arguments)``, and then its calls, in a process that nothing else is made in.

    ``make``: found by its name in its module. ``about`` is what the attribute of this name says there, if there is one.
    The process is kept for a while behind this object's end: the same, made again, is made there, anew. Raises
    RuntimeError for what an exception says there, Ended for the process's own end.
    """

    def __init__(self, make: Callable[..., Callable[[Any], Any]], *arguments: Any) -> None:
        wanted = pickle.dumps((make, arguments), pickle.HIGHEST_PROTOCOL)
        key = hashlib.sha256(wanted).digest()
        self._process = _taken(key) or _Process()
        weakref.finalize(self, _given_back, key, self._process)
        self.about = self._process.ask(wanted, "this model")

    def __call__(self, inputs: Any) -> Any:
        """The answer to one question, the inputs of an inference mostly."""
        return self._process.ask(inputs, "these numbers")


def _taken(key: bytes) -> _Process | None:
    """An idle process of this owner; no lock, for objects may end at any time, within any other call."""
    for entry in _IDLE[::-1]:
        if entry[0] == key and entry[1].owner == os.getpid():
            with contextlib.suppress(ValueError):  # another thread has taken it
                _IDLE.remove(entry)
                return entry[1]
    return None


def _given_back(key: bytes, process: _Process) -> None:
    if not process.is_well:
        process.channel.close()  # it ends by itself, for nobody asks any more
        return
    _IDLE.append((key, process))
    while len(_IDLE) > _KEPT:
        _IDLE.pop(0)[1].channel.close()


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _how(code: int | None) -> str:
    if code is None:
        return "with what forked it"
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"


# -- the server, seen from here --------------------------------------------------------------------------

_LOCK = threading.Lock()
_server: tuple[int, socket.socket, subprocess.Popen[bytes]] | None = None  #: process that started it, and the server


def _started() -> socket.socket:
    """A connection to this process's server, under the lock."""
    global _server
    if _server is None or _server[0] != os.getpid() or _server[2].poll() is not None:
        here, there = socket.socketpair()
        with there:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(there.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # what the kernels say about themselves, and of their end
                # safe: nothing from the current folder
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONSAFEPATH": "1"},
                pass_fds=[there.fileno()],
                start_new_session=True,  # Ctrl-C is for this process
            )
        _server = os.getpid(), here, process
    return _server[1]


@atexit.register
def _stop() -> None:
    """End this process's server, and what it has forked, before the process ends."""
    while _IDLE:
        _IDLE.pop()[1].channel.close()
    if _server is not None and _server[0] == os.getpid():
        _server[1].close()
        _server[2].wait()


def _fork() -> tuple[_Channel, int]:
    """A channel to a new process of the server, and its number; Ended where there cannot be one."""
    here, there = socket.socketpair()
    memory = os.memfd_create("tilewright")
    with there, _LOCK:
        for _ in range(2):  # a server that somebody has ended is started again
            try:
                number = _asked(0, there.fileno(), memory)
                return _Channel(here, memory), number
            except (OSError, EOFError) as error:
                said = str(error)
    here.close()
    os.close(memory)
    raise Ended(f"no process for the kernels: {said}")


def _status(process: int) -> int | None:
    """How a process of the server ended; None where the server did, too."""
    with _LOCK:
        try:
            code = _asked(process)
        except (OSError, EOFError):
            return None
    return None if code == _UNKNOWN else code


def _asked(number: int, *files: int) -> int:
    """What the server answers to a number; under the lock."""
    global _server
    server = _started()
    try:
        socket.send_fds(server, [_NUMBER.pack(number)], files)
        return _number(server)
    except BaseException:  # Ctrl-C, too: what is answered now is to no question
        _stop()
        _server = None
        raise


def _number(server: socket.socket) -> int:
    """A number that the other end sends."""
    received = server.recv(_NUMBER.size)
    if len(received) != _NUMBER.size:
        raise EOFError("it has ended")
    return int(_NUMBER.unpack(received)[0])


# -- the server itself -----------------------------------------------------------------------------------


def main(control: socket.socket) -> None:
    """Fork for each socket that comes, and say of each number how that process ended, until nobody asks."""
    for name in _LOADED:
        with contextlib.suppress(ImportError):  # where LiteRT is not installed, other interpreters may be
            importlib.import_module(name)
    forked: set[int] = set()
    ended: dict[int, int] = {}

    def reap(*_: Any) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                ended[found[0]] = os.waitstatus_to_exitcode(found[1])

    gc.freeze()  # forked processes share what they do not change
    signal.signal(signal.SIGCHLD, reap)
    while True:
        asked, files, _, _ = socket.recv_fds(control, _NUMBER.size, 2)
        if not asked:
            os.killpg(0, signal.SIGKILL)  # and all that was forked
        if files:
            process = os.fork()
            if not process:
                control.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                try:
                    _answer(_Channel(socket.socket(fileno=files[0]), files[1]))
                finally:
                    os._exit(0)
            for each in files:
                os.close(each)
            forked.add(process)
            control.sendall(_NUMBER.pack(process))
        else:
            (process,) = _NUMBER.unpack(asked)
            while process in forked and process not in ended:
                time.sleep(0.001)
            control.sendall(_NUMBER.pack(ended.get(process, _UNKNOWN)))


def _answer(channel: _Channel) -> None:
    """Answer until the questions end; one of bytes is what to make, and how."""
    made = None
    while True:
        try:
            question = channel.receive()
        except (EOFError, OSError):
            return
        try:
            if isinstance(question, bytes):
                make, arguments = pickle.loads(question)
                made = make(*arguments)
                answer = "", getattr(made, "about", None)
            else:
                assert made is not None
                answer = "", made(question)
        except Exception as error:  # noqa: BLE001 - it is raised again where it is asked
            answer = str(error) or type(error).__name__, None
        channel.send(answer)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
