"""What compiled kernels do with DRAM by address, which Numba cannot say, and how such operations are written as IR."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tilewright.sim.native import emitted

LANES = (4, 8, 16, 32, 64)  #: lanes that a Config may have


def operation(result: Any = types.void) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: ``emit(builder, *operands)`` writes the IR of an operation that compiled kernels can call.

    All operands are 64-bit integers, mostly addresses; ``result`` is the Numba type of what ``emit`` returns.
    """

    def decorate(emit: Callable[..., Any]) -> Callable[..., Any]:
        def typed(typingctx: Any, *operands: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                value = emit(builder, *args)
                return context.get_dummy_value() if result is types.void else value

            return result(*[types.intp] * len(operands)), generate

        vars(typed)["__signature__"] = inspect.signature(emit)  # Numba asks for names, and gets no *operands to work
        made: Callable[..., Any] = intrinsic(typed)
        return made

    return decorate


def by_lanes(emit: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: ``emit(builder, lanes, *operands)`` as an operation, written for each number of lanes there is."""

    @functools.wraps(emit)
    def switched(builder: Any, lanes: Any, *operands: Any) -> None:
        done = builder.append_basic_block("done")
        cases = builder.switch(lanes, done)
        for count in LANES:
            case = builder.append_basic_block(f"lanes_{count}")
            cases.add_case(ir.Constant(ir.IntType(64), count), case)
            builder.position_at_end(case)
            emit(builder, count, *operands)
            builder.branch(done)
        builder.position_at_end(done)

    return operation()(switched)


def _pointer(builder: Any, address: Any, bits: int) -> Any:
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


@operation()
def _copy_bytes(builder: Any, target: Any, source: Any, count: Any) -> None:
    cgutils.raw_memcpy(builder, _pointer(builder, target, 8), _pointer(builder, source, 8), count, 1, align=1)


@operation()
def _copy_pair(builder: Any, target: Any, source: Any) -> None:
    builder.store(builder.load(_pointer(builder, source, 16), align=1), _pointer(builder, target, 16), align=1)


@operation(types.int32)
def _read_int32(builder: Any, address: Any) -> Any:
    return builder.load(_pointer(builder, address, 32), align=1)


@operation(types.int8)
def _read_int8(builder: Any, address: Any) -> Any:
    return builder.load(_pointer(builder, address, 8), align=1)


@emitted
def copy_bytes(target: int, source: int, count: int) -> None:
    """Copy ``count`` bytes between two addresses that do not overlap."""
    _copy_bytes(target, source, count)


@emitted
def copy_pair(target: int, source: int) -> None:
    """Copy two bytes."""
    _copy_pair(target, source)


@emitted
def read_int32(address: int) -> int:
    """The little-endian int32 at any address."""
    return _read_int32(address)


@emitted
def read_int8(address: int) -> int:
    """The int8 at an address."""
    return _read_int8(address)
