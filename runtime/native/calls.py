"""The library's functions on NumPy arrays. Each takes what the NumPy function of its name takes, and gives the same."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.runtime.native.library import Pack, Unpack, library

Array = NDArray[Any]

TYPES = {"int8": 0, "uint8": 1, "int16": 2, "uint16": 3, "int32": 4}  #: ``enum tilewright_type``
LAYOUTS = {"rows": 0, "patches": 1, "blocks": 2}


def address(x: Any) -> int:
    """Where an array's memory begins. NumPy's own attribute takes three times as long, but serves all arrays."""
    return ctypes.addressof(ctypes.c_char.from_buffer(x)) if x.flags.writeable and x.size else int(x.ctypes.data)


def pack(struct: Pack, x: Array, size: int) -> Array | None:
    """(N, size) bytes of N tensors; None where a value does not fit int8."""
    native, x = library(), np.ascontiguousarray(x)
    assert native is not None
    out = np.empty((len(x), size), np.uint8)
    scratch = np.empty(native.tilewright_pack_scratch(ctypes.byref(struct)), np.uint8)
    data = address(x), address(out), size, address(scratch), len(x)
    return None if native.tilewright_pack(ctypes.byref(struct), *data) else out


def unpack(struct: Unpack, data: Array, shape: tuple[int, ...], dtype: str) -> Array:
    """N tensors of ``shape`` from (N, size) bytes."""
    native, data = library(), np.ascontiguousarray(data)
    assert native is not None
    out = np.empty((len(data), *shape), dtype)
    native.tilewright_unpack(ctypes.byref(struct), address(data), data.shape[1], address(out), len(data))
    return out


def softmax_table(multiplier: int, left_shift: int, diff_min: int) -> Array:
    """For :func:`softmax_int8`."""
    native, table = library(), np.empty((2, 256), np.int32)
    assert native is not None
    native.tilewright_softmax_table(address(table), multiplier, left_shift, diff_min)
    return table


def softmax_int8(x: Array, table: Array, diff_min: int) -> Array:
    """Raises OverflowError."""
    native, x = library(), np.ascontiguousarray(x)
    assert native is not None
    out, columns = np.empty_like(x), x.shape[-1]
    data = address(x), address(out), x.size // columns, columns
    if native.tilewright_softmax(address(table), diff_min, *data):
        raise OverflowError(f"softmax: the sum over {columns} elements exceeds int32")
    return out


def softmax_by_table(x: Array, table: Array, factor: float, zero_point: int) -> Array:
    """``table``: float32."""
    native, x = library(), np.ascontiguousarray(x)
    assert native is not None
    out, columns = np.empty_like(x), x.shape[-1]
    data = address(x), address(out), x.size // columns, columns
    native.tilewright_table_softmax(address(table), factor, zero_point, *data)
    return out


def cast(x: Array, offset: int, dtype: str) -> Array | None:
    """None where a result does not fit."""
    native, x = library(), np.ascontiguousarray(x)
    assert native is not None
    out = np.empty(x.shape, dtype)
    data = address(x), TYPES[x.dtype.name], offset, address(out), TYPES[dtype], x.size
    return None if native.tilewright_cast(*data) else out


def quantize(x: Array, scale: float, zero_point: int, dtype: str, rounding: str) -> Array | None:
    """None where a value is NaN and ties go to even."""
    native, x = library(), np.ascontiguousarray(x)
    assert native is not None
    out = np.empty(x.shape, dtype)
    data = address(x), scale, zero_point, int(rounding == "away"), address(out), TYPES[dtype], x.size
    return None if native.tilewright_quantize(*data) else out


def dequantize(x: Array, scale: float, zero_point: int) -> Array:
    """Any of the integer types."""
    native, x = library(), np.ascontiguousarray(x)
    assert native is not None
    out = np.empty(x.shape, np.float32)
    native.tilewright_dequantize(address(x), TYPES[x.dtype.name], scale, zero_point, address(out), x.size)
    return out


def strides(
    nhwc: tuple[int, ...], shape: tuple[int, ...], permutation: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """Elements between neighbours along H, W and C of a tensor of ``shape``; None where the axes in the order
    ``permutation`` are not those of ``nhwc``, axes of one element left out."""
    if permutation is None:
        return nhwc[2] * nhwc[3], nhwc[3], 1
    apart = [1]
    for extent in shape[:0:-1]:
        apart.insert(0, apart[0] * extent)
    axes = [(shape[axis], apart[axis]) for axis in permutation if shape[axis] > 1]
    if [extent for extent, _ in axes] != [extent for extent in nhwc if extent > 1]:
        return None
    steps = iter(axes)
    return tuple(next(steps)[1] if extent > 1 else 0 for extent in nhwc)[1:]
