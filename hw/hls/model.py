"""The natively compiled HLS kernels in this process. The other side of ``native.cpp``."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
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
    DOORBELL_MISSING = 3  #: an instruction hears a core that does not ring: so would this


@dataclass(frozen=True)
class Ending:
    """How a run ended; the instruction that ended it, or -1."""

    outcome: Outcome
    instruction: int = -1


@dataclass(frozen=True)
class Work:
    """A program of ``instructions`` at byte ``program`` of ``dram``, which is changed in place.

    ``segments``: (first byte, size in bytes) of each, multiples of an AXI beat; an instruction that names
    another segment faults. Whoever makes it sees to it that segments and program lie inside ``dram``.
    """

    dram: NDArray[np.uint8]
    program: int
    instructions: int
    segments: list[tuple[int, int]]


class KernelModel:
    """One instance of the design, each core with memories of its own. Close it when it is no longer needed."""

    def __init__(self, library: Path, config: Config) -> None:
        self.config = config
        try:
            self._library = ctypes.CDLL(str(library))
        except OSError as error:
            raise ToolError(f"{library}: cannot be loaded: {error}") from error
        pointer, u32, u64, i32 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int
        self._library.tw_hls_new.restype = pointer
        self._library.tw_hls_delete.restype, self._library.tw_hls_delete.argtypes = None, [pointer]
        begin, run = self._library.tw_hls_begin, self._library.tw_hls_run
        begin.restype, begin.argtypes = None, [pointer, i32, pointer, u64, u32, pointer, pointer]
        run.restype, run.argtypes = None, [pointer, i32, pointer, pointer]
        self._handle: int | None = self._library.tw_hls_new()

    def close(self) -> None:
        """Free the memories; closing twice is no error, running afterwards is."""
        if self._handle is not None:
            self._library.tw_hls_delete(self._handle)
            self._handle = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def run(self, works: Sequence[Work]) -> list[Ending]:
        """Run the k-th work on core k, all at once, until every one has ended; no doorbell has rung before."""
        if self._handle is None:
            raise ToolError("the HLS kernels have been closed")
        if not 1 <= len(works) <= self.config.cores:
            raise ToolError(f"{len(works)} programs at once, the HLS design has {self.config.cores} cores")
        for core, work in enumerate(works):
            self._begin(core, work)
        outcomes, instructions = np.zeros(len(works), np.int32), np.zeros(len(works), np.uint32)
        self._library.tw_hls_run(self._handle, len(works), outcomes.ctypes.data, instructions.ctypes.data)
        return [
            Ending(Outcome(outcome)) if outcome == Outcome.DONE else Ending(Outcome(outcome), int(instruction))
            for outcome, instruction in zip(outcomes.tolist(), instructions)
        ]

    def _begin(self, core: int, work: Work) -> None:
        dram, beat = work.dram, self.config.beat_bytes
        if dram.dtype != np.uint8 or not dram.flags.c_contiguous or dram.ctypes.data % 8:
            raise ToolError("DRAM must be a contiguous, aligned uint8 array")
        bases, limits = np.zeros(self.config.segments, np.uint64), np.zeros(self.config.segments, np.uint32)
        for number, (first, size) in enumerate(work.segments):
            bases[number], limits[number] = first // beat, size // beat
        self._library.tw_hls_begin(
            self._handle, core, dram.ctypes.data, work.program // beat, work.instructions, bases.ctypes.data,
            limits.ctypes.data,
        )  # fmt: skip
