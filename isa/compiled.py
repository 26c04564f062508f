"""The decorator of kernels: Python functions that Numba compiles, each once with all that it calls.

What a kernel calls is compiled into it (:mod:`tilewright.isa.pieces`), and kept on disk with it
(:mod:`tilewright.isa.machine_code`). A small problem is not worth compiling for: all planning of a small network is two
milliseconds of machine code that takes half a minute to make. An ``interpretable`` kernel without machine code takes
small problems as Python, and all that it calls too, until that has taken as long as compiling would. With
``NUMBA_DISABLE_JIT=1`` all kernels stay Python. Each package that has kernels makes its decorator in a file
``native.py``.
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections import namedtuple
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba.core import config as numba_config
from numba.core import sigutils
from numba.core.registry import CPUDispatcher
from numba.core.types.misc import unliteral

from tilewright.isa.by_reference import is_by_reference
from tilewright.isa.machine_code import Cache, MachineCode
from tilewright.isa.pieces import PieceCompiler, WholeCompiler
from tilewright.progress import compiling

F = TypeVar("F", bound=Callable[..., Any])
Seconds = Callable[..., float]

SMALL_NUMBERS = 1 << 14  #: in the arrays of arguments that are small
PATIENCE_SECONDS = 2.0  #: for which a kernel is interpreted before it is compiled
LOOKING_SECONDS = 0.02  #: for which it is interpreted before it is looked for on disk again


class _Interpreting(threading.local):
    """``here``: whether this thread interprets a kernel."""

    here = False


_python = _Interpreting()
_LARGE = 1 << 31  #: sums and products of large numbers may wrap
_there: set[Any] = set()  #: kernels
_compiled: set[Any] = set()  #: and those that this process has compiled


def _announce(function: Any) -> None:
    if function not in _compiled:
        _compiled.add(function)
        compiling(len(_compiled), len(_there))


class _Called(CPUDispatcher):
    """A kernel as other kernels call it."""

    def compile(self, sig: Any) -> Any:
        entry = super().compile(sig)
        _announce(self.py_func)
        return entry


class Kernel(CPUDispatcher):
    """A kernel as Python calls it; what other kernels call is its piece."""

    def __init__(
        self, function: Any, options: dict[str, Any], code: MachineCode | None, in_python: bool, seconds: Seconds | None
    ) -> None:
        options = {"nopython": True, "boundscheck": None, **options}
        self._piece = _Called(function, targetoptions=options, pipeline_class=PieceCompiler)
        super().__init__(function, targetoptions=options, pipeline_class=WholeCompiler)
        _there.add(function)
        self._code = code
        self._in_python = in_python
        self._seconds = seconds
        self._interpreted_seconds = self._look_again = 0.0
        if code is not None:
            self._cache = Cache(code, function)

    def __call__(self, *args: Any, **named: Any) -> Any:
        if named:
            args = inspect.signature(self.py_func).bind(*args, **named).args
        if _python.here:
            return self.py_func(*args) if self._in_python else _wrapping(super().__call__(*args))
        if self._seconds is None or self.overloads or self._interpreted_seconds > PATIENCE_SECONDS:
            return super().__call__(*args)
        if self._seconds(*args) > PATIENCE_SECONDS or self._is_kept(args):
            return super().__call__(*args)
        return self.interpret(*args)

    def _is_kept(self, args: tuple[Any, ...]) -> bool:
        """Whether there is machine code on disk, where a kernel is not looked for at each of many short calls."""
        if self._interpreted_seconds < self._look_again:
            return False
        self._look_again = self._interpreted_seconds + LOOKING_SECONDS
        return self._cache.has(tuple(map(self.typeof_pyval, args)))

    def interpret(self, *args: Any) -> Any:
        """The same as Python, at any time."""
        begin = time.thread_time()
        _python.here = True
        try:
            with np.errstate(all="ignore"):  # as compiled code, which divides by zero and overflows without a word
                return self.py_func(*map(_as_numba_sees, args))
        finally:
            _python.here = False
            self._interpreted_seconds += time.thread_time() - begin

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Of the piece, which is not compiled anew for every constant that it is called with."""
        return self._piece.get_call_template(tuple(map(unliteral, args)), kws)

    def get_overload(self, sig: Any) -> Any:
        return self._piece.get_overload(sig)

    def get_compile_result(self, sig: Any) -> Any:
        return self._piece.get_compile_result(sig)

    def compile(self, sig: Any) -> Any:
        """The compiled function for these types of arguments: from memory, from disk, or compiled now."""
        arguments, _ = sigutils.normalize_signature(sig)
        if tuple(arguments) in self.overloads or self._code is None or self._cache.has(sig):
            return super().compile(sig)
        with self._code.turn():
            if not self._cache.has(sig):  # another process may have been faster
                _announce(self.py_func)
            return super().compile(sig)


def _numbers(args: tuple[Any, ...]) -> int:
    """How many numbers the arrays among the arguments have, but for those by reference: a kernel keeps its books there,
    however little it has to do."""
    tuples = (a for a in args if isinstance(a, tuple) and not is_by_reference(a))
    return sum(a.size for a in args if isinstance(a, np.ndarray)) + sum(map(_numbers, tuples))


def _by_numbers(*args: Any) -> float:
    return _numbers(args) * (PATIENCE_SECONDS / SMALL_NUMBERS)


def _wrapping(value: Any) -> Any:
    """What compiled code returns, as a number of 64 bits."""
    return np.int64(value) if type(value) is int else value


def _as_numba_sees(value: Any) -> Any:
    """An argument with which Python computes as compiled code does: rows of a table have attributes."""
    if type(value) is int:
        return value if -_LARGE < value < _LARGE else np.int64(value)
    if isinstance(value, np.ndarray) and value.dtype.names:
        row = namedtuple("row", value.dtype.names)  # type: ignore[misc]
        return [row(*fields) for fields in value.tolist()]
    return value


def compiler(
    code: MachineCode | None,
    *,
    interpretable: bool | Seconds = False,
    in_python: bool = True,
    **options: Any,
) -> Callable[[F], F]:
    """A decorator: compiled by Numba without bounds checks, with these of its options, and kept as ``code`` has it.

    ``interpretable``: Python gives the same numbers, as long as none leaves 64 bits; or also how many seconds it takes
    about for some arguments. ``in_python``: whether an interpreted kernel that calls this one has it interpreted too.
    """
    seconds = interpretable if callable(interpretable) else _by_numbers if interpretable else None

    def decorate(function: F) -> F:
        if numba_config.DISABLE_JIT:
            return function
        kernel: Any = Kernel(function, options, code, in_python, seconds)
        functools.update_wrapper(kernel, function)
        made: F = kernel
        return made

    return decorate
