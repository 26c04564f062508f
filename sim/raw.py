"""Access to DRAM segments by address: the few raw memory operations the compiled kernels need."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


@intrinsic
def copy_bytes(typingctx: Any, target: Any, source: Any, count: Any) -> Any:
    """Copy ``count`` bytes between two addresses that do not overlap."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        to, frm = (builder.inttoptr(a, pointer) for a in args[:2])
        cgutils.raw_memcpy(builder, to, frm, args[2], 1, align=1)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), generate


@intrinsic
def copy_pair(typingctx: Any, target: Any, source: Any) -> Any:
    """Copy two bytes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.IntType(16).as_pointer()
        to, frm = (builder.inttoptr(a, pointer) for a in args)
        builder.store(builder.load(frm, align=1), to, align=1)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


@intrinsic
def read_int32(typingctx: Any, address: Any) -> Any:
    """The little-endian int32 at any address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(32).as_pointer()), align=1)

    return types.int32(types.intp), generate


@intrinsic
def read_int8(typingctx: Any, address: Any) -> Any:
    """The int8 at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(8).as_pointer()), align=1)

    return types.int8(types.intp), generate
