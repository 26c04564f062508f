"""The natively compiled HLS kernels in this process. The other side of ``native.cpp``."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.hw.verilated.toolchain import ToolError


class Outcome(IntEnum):
    """How a run ended."""

    DONE = 0
    SEGMENT_FAULT = 1  #: a LOAD or STORE reaches outside its segment
    TOKEN_MISSING = 2  #: an instruction pops a token that nobody has pushed: hardware would wait for ever


@dataclass(frozen=True)
class Ending:
    """How a run ended; the instruction that ended it, or -1."""

    outcome: Outcome
    instruction: int = -1


class KernelModel:
    """One instance of the kernels with memories of its own. Close it when it is no longer needed."""

    def __init__(self, library: Path, config: Config) -> None:
        self.config = config
        try:
            self._library = ctypes.CDLL(str(library))
        except OSError as error:
            raise ToolError(f"{library}: cannot be loaded: {error}") from error
        pointer, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
        self._library.tw_hls_new.restype = pointer
        self._library.tw_hls_delete.restype, self._library.tw_hls_delete.argtypes = None, [pointer]
        self._library.tw_hls_run.argtypes = [pointer, pointer, u64, u32, pointer, pointer, pointer]
        self._handle: int | None = self._library.tw_hls_new()

    def close(self) -> None:
        """Free the memories; closing twice is no error, running afterwards is."""
        if self._handle is not None:
            self._library.tw_hls_delete(self._handle)
            self._handle = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def run(self, dram: NDArray[np.uint8], program: int, instructions: int, segments: list[tuple[int, int]]) -> Ending:
        """Run a program of ``instructions`` at byte ``program`` of ``dram``, which is changed in place.

        ``segments``: (first byte, size in bytes) of each, multiples of an AXI beat; an instruction that names
        another segment faults. The caller sees to it that segments and program lie inside ``dram``.
        """
        if self._handle is None:
            raise ToolError("the HLS kernels have been closed")
        beat = self.config.beat_bytes
        if dram.dtype != np.uint8 or not dram.flags.c_contiguous or dram.ctypes.data % 8:
            raise ToolError("DRAM must be a contiguous, aligned uint8 array")
        bases, limits = np.zeros(self.config.segments, np.uint64), np.zeros(self.config.segments, np.uint32)
        for number, (first, size) in enumerate(segments):
            bases[number], limits[number] = first // beat, size // beat
        instruction = ctypes.c_uint32()
        outcome = Outcome(
            self._library.tw_hls_run(
                self._handle, dram.ctypes.data, program // beat, instructions,
                bases.ctypes.data, limits.ctypes.data, ctypes.byref(instruction),
            )
        )  # fmt: skip
        return Ending(outcome, -1 if outcome == Outcome.DONE else int(instruction.value))
