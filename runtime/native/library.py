"""Finding and loading the compiled host library."""

from __future__ import annotations

import ctypes
import logging
import os
from functools import cache
from pathlib import Path

from tilewright.files import cache_root
from tilewright.hw.verilated.build import kept
from tilewright.hw.verilated.toolchain import ToolError
from tilewright.runtime.native import build

VARIABLE = "TILEWRIGHT_NATIVE"

_log = logging.getLogger("tilewright.native")


class Pack(ctypes.Structure):
    """``struct tilewright_pack``."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("height", "width", "channels")),
        ("stride", ctypes.c_int32 * 3),
        *((name, ctypes.c_int32) for name in ("lanes", "units", "batch", "layout", "block")),
        *((name, ctypes.c_int32) for name in ("top", "left", "bottom", "right")),
        *((name, ctypes.c_int32) for name in ("pad_value", "channel_pad", "value_offset", "is_unsigned")),
        *((name, ctypes.c_int32 * 2) for name in ("kernel", "step", "dilation")),
    ]


class Unpack(ctypes.Structure):
    """``struct tilewright_unpack``."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("height", "width", "channels")),
        ("stride", ctypes.c_int32 * 3),
        *((name, ctypes.c_int32) for name in ("lanes", "units", "batch", "value_offset", "type")),
    ]


class Order(ctypes.Structure):
    """``struct tilewright_order``."""

    _fields_ = [(name, ctypes.c_int32) for name in ("word", "ports", "beats")]


def _prototypes(library: ctypes.CDLL) -> None:
    pointer, i32, i64, size = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t
    f32 = ctypes.c_float
    signatures = {
        "pack_scratch": (size, [pointer]),
        "pack": (i32, [pointer, pointer, pointer, size, pointer, size]),
        "unpack": (None, [pointer, pointer, size, pointer, size]),
        "stack_to_dram": (None, [pointer, pointer, size, size, pointer, size, size]),
        "stack_from_dram": (None, [pointer, pointer, size, size, pointer, size, size]),
        "softmax_table": (None, [pointer, i32, i32, i64]),
        "softmax": (i32, [pointer, i64, pointer, pointer, size, size]),
        "table_softmax": (None, [pointer, f32, i32, pointer, pointer, size, size]),
        "cast": (i32, [pointer, i32, i32, pointer, i32, size]),
        "quantize": (i32, [pointer, f32, i32, i32, pointer, i32, size]),
        "dequantize": (None, [pointer, i32, f32, i32, pointer, size]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"tilewright_{name}")
        function.restype, function.argtypes = result, arguments


@cache
def library() -> ctypes.CDLL | None:
    """The library of ``TILEWRIGHT_NATIVE``, else the one that came with the package, else one that is compiled now and
    kept in the cache. None where that is switched off, where there is no compiler, and (logged) where it failed."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted == "0":
        return None
    if wanted:
        return _loaded(Path(wanted))
    packaged = build.HERE / build.NAME
    try:
        if packaged.exists():
            return _loaded(packaged)
    except OSError as error:  # of a wheel for another machine
        _log.warning("the package's compiled library cannot be loaded: %s", error)
    compiled = _compiled()
    return None if compiled is None else _loaded(compiled)


def _loaded(path: Path) -> ctypes.CDLL:
    """Raises OSError."""
    found = ctypes.CDLL(str(path))
    _prototypes(found)
    return found


def _compiled() -> Path | None:
    command = build.compiler()
    if command is None:
        return None
    try:
        return kept(
            cache_root() / "native", build.key(command), ".so",
            lambda place: build.compile_library(place / build.NAME, command),
        )  # fmt: skip
    except (build.BuildError, ToolError) as error:
        _log.warning("NumPy does the host's steps, for the compiled library cannot be built: %s", error)
        return None
