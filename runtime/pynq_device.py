"""The ``pynq`` device: an overlay on a PYNQ board behind the :class:`Device` interface. Needs NumPy and pynq."""

from __future__ import annotations

import logging
import time
import weakref
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.hw.verilated.limits import LONGEST, cycle_bound
from tilewright.isa.program import Program
from tilewright.isa.registers import Control, FaultCode, Status
from tilewright.progress import Advance
from tilewright.runtime.device_base import Allocation, Counters, Device, DeviceError, fault
from tilewright.runtime.pynq.board import Board
from tilewright.runtime.pynq.buffers import BufferPool, SegmentBuffers, place_segments
from tilewright.runtime.pynq.manifest import Manifest, find_overlay
from tilewright.runtime.pynq.registers import Registers, Word
from tilewright.runtime.stalls import register_stalls

WATCHDOG_FACTOR = 8  #: real DRAM is slower than the contract's: refreshes, and the processor beside it
LAUNCH_SLACK_SECONDS = 2.0  #: beyond the watchdog's time, before a launch counts as hung
INTERRUPT_SECONDS = 0.5  #: longest wait for the interrupt before STATUS is looked at
SPIN_SECONDS = 200e-6  #: STATUS is looked at without pause first: an interrupt takes about as long through asyncio
POLL_SECONDS = (20e-6, 1e-3)  #: first and longest pause between looks at STATUS
KEPT_PROGRAMS = 4  #: programs whose memory is kept for their next allocation

DONE, FAULT = 1 << Status.DONE, 1 << Status.FAULT

_log = logging.getLogger("tilewright.pynq")


@dataclass
class _State:
    """One allocation: memory, the registers that describe it, and the counters of the last launch."""

    buffers: SegmentBuffers
    words: tuple[Word, ...]
    watchdog: int
    counters: dict[str, int] = field(default_factory=dict)


class PynqDevice(Device):
    """Runs programs on a board.

    ``overlay``: a ``.bit`` file with its manifest, or a folder of them (default: ``TILEWRIGHT_OVERLAY``), or a
    :class:`Manifest`. ``download``: False attaches to the overlay that is loaded already. ``interrupt``: False polls.
    ``timeout``: seconds that a launch may take, instead of what the watchdog allows. ``pynq``: stands for the package.
    Raises :class:`~tilewright.runtime.pynq.manifest.OverlayError`.
    """

    name: ClassVar[str] = "pynq"

    def __init__(
        self,
        config: Config,
        overlay: str | Path | Manifest | None = None,
        *,
        download: bool = True,
        interrupt: bool = True,
        timeout: float | None = None,
        pynq: Any = None,
    ) -> None:
        super().__init__(config)
        manifest = overlay if isinstance(overlay, Manifest) else find_overlay(overlay, config)
        self.board = Board(manifest, pynq, download)
        self.registers: Registers = self.board.registers
        self.polling: str | None = self.board.no_interrupt if interrupt else "the interrupt is switched off"
        self._timeout = timeout
        self._repeat = self.registers.word("REPEAT", 0)[0]
        self._pool = BufferPool(self.board.allocate)
        self._kept: OrderedDict[tuple[int, int], tuple[Program, _State]] = OrderedDict()
        self._close = weakref.finalize(self, _quiesce, self.board)

    def close(self) -> None:
        """End what is running and free all memory that nobody holds."""
        self._close()
        self._forget_kept()
        self._pool.drain()

    # -- memory ----------------------------------------------------------------------------------------

    def _allocate(self, program: Program, inferences: int) -> _State:
        kept = self._kept.pop((id(program), inferences), None)
        if kept is not None:
            kept[1].buffers.clear()
            return kept[1]
        try:
            buffers = place_segments(program, inferences, self._pool)
        except DeviceError:
            if not self._kept:
                raise
            self._forget_kept()  # memory is short
            buffers = place_segments(program, inferences, self._pool)
        watchdog = min(WATCHDOG_FACTOR * cycle_bound(program), LONGEST)
        return _State(buffers, self._words(program, buffers, watchdog), watchdog)

    def _words(self, program: Program, buffers: SegmentBuffers, watchdog: int) -> tuple[Word, ...]:
        """All registers of a launch but CONTROL and REPEAT."""
        registers, beat = self.registers, self.config.beat_bytes
        words: list[Word] = [
            *registers.wide_words("PROGRAM", buffers.code),
            registers.word("PROGRAM_INSTRUCTIONS", program.instruction_count),
            registers.word("PROGRAM_BEATS", -(-len(program.instructions) // beat)),
            registers.word("WATCHDOG", watchdog),
            registers.word("INTERRUPT_ENABLE", 1),
        ]
        for index in range(self.config.segments):
            used = index < len(program.segments)
            size, stride = (program.segments[index].size, program.segments[index].repeat_stride) if used else (0, 0)
            words += [
                *registers.wide_words(f"SEGMENT{index}_BASE", buffers.address(index) if used else 0),
                registers.word(f"SEGMENT{index}_LIMIT", size // beat),
                registers.word(f"SEGMENT{index}_STRIDE", stride),
            ]
        return tuple(words)

    def _memory(self, allocation: Allocation, segment: int) -> NDArray[np.uint8]:
        state: _State = self._held(allocation)
        return state.buffers.memory(segment)

    def write(self, allocation: Allocation, segment: int, inference: int, offset: int, data: NDArray[np.uint8]) -> None:
        target = self._view(allocation, segment, inference, offset, data.size)
        buffers: SegmentBuffers = allocation.state.buffers
        buffers.places[segment][0].before_write()
        buffers.constants_changed |= allocation.program.segments[segment].kind == "constant"
        target[:] = data.reshape(-1)

    def read(self, allocation: Allocation, segment: int, inference: int, offset: int, size: int) -> NDArray[np.uint8]:
        source = self._view(allocation, segment, inference, offset, size)
        allocation.state.buffers.places[segment][0].before_read()
        return source.copy()

    def _release(self, allocation: Allocation) -> None:
        state: _State = allocation.state
        if state.buffers.constants_changed:
            state.buffers.give_back(self._pool)
            return
        self._kept[id(allocation.program), allocation.inferences] = (allocation.program, state)
        while len(self._kept) > KEPT_PROGRAMS:
            self._kept.popitem(last=False)[1][1].buffers.give_back(self._pool)

    def _forget_kept(self) -> None:
        for _, state in self._kept.values():
            state.buffers.give_back(self._pool)
        self._kept.clear()

    # -- launch ----------------------------------------------------------------------------------------

    def _launch(self, allocation: Allocation, inferences: int) -> None:
        """Flush what the processor wrote, write the registers that differ, start."""
        state: _State = allocation.state
        for group in state.buffers.groups:
            group.before_launch()
        self.registers.update(state.words)
        self.registers.change(self._repeat, inferences)
        self.registers.command(Control.START)

    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        """Wait for the interrupt, or look at STATUS now and then. A launch that hangs or is interrupted is ended."""
        state: _State = allocation.state
        allowed = self._timeout
        if allowed is None:
            allowed = LAUNCH_SLACK_SECONDS + state.watchdog * inferences / (self.config.clock_mhz * 1e6)
        begin, reported, pause = time.monotonic(), 0, POLL_SECONDS[0]
        try:
            while not (status := self.registers.status()) & DONE and (now := time.monotonic()) < begin + allowed:
                if progress is not None and (finished := self.registers.read("COMPLETED")) > reported:
                    progress(finished - reported)
                    reported = finished
                if now < begin + SPIN_SECONDS:
                    continue
                if self.polling is None:
                    self._wait_for_interrupt()
                else:
                    time.sleep(pause)
                    pause = min(2 * pause, POLL_SECONDS[1])
        except BaseException:
            self._recover()
            raise
        if not status & DONE:
            raise DeviceError(f"{self}: no end after {allowed:.1f} seconds; {self._recover()}")
        self._finish(allocation.program, state, status)
        if progress is not None and inferences > reported:
            progress(inferences - reported)

    def _wait_for_interrupt(self) -> None:
        line = self.board.interrupt
        assert line is not None
        # the second wait: the end may have come while the first one gave up
        if line.wait(INTERRUPT_SECONDS) or not self.registers.status() & DONE or line.wait(INTERRUPT_SECONDS / 10):
            return
        self.polling = f"a run has ended, but no interrupt came on {self.board.manifest.interrupt}"
        _log.warning("%s: polls from now on: %s", self, self.polling)

    def _finish(self, program: Program, state: _State, status: int) -> None:
        """Keep the counters, lower the interrupt line. Raises the fault that the run ended with."""
        registers = self.registers
        if status & FAULT:
            code, instruction = registers.read("FAULT_CODE"), registers.read("FAULT_INSTRUCTION")
            registers.command(Control.ACKNOWLEDGE)
            name = FaultCode(code).name if code in list(FaultCode) else f"code {code}"
            raise fault(self, program, name, instruction, FAULT_DETAIL.get(code, "").format(watchdog=state.watchdog))
        state.counters = registers.counters()
        registers.command(Control.ACKNOWLEDGE)

    def _counters(self, allocation: Allocation) -> Counters:
        """Cycles, traffic and stalls of the latest inference; no events."""
        read: dict[str, int] = allocation.state.counters
        beat = self.config.beat_bytes
        return Counters(
            cycles=read["CYCLES_HIGH"] << 32 | read["CYCLES_LOW"],
            read_bytes=(read["FETCH_BEATS"] + read["LOAD_BEATS"]) * beat,
            write_bytes=read["STORE_BEATS"] * beat,
            stalls=register_stalls(read),
        )

    def _cancel(self, allocation: Allocation) -> None:
        self._recover()

    def _recover(self) -> str:
        """Make the accelerator ready for the next launch, by abort, else by loading the bitstream anew; says which."""
        if self.board.stop():
            return "the run was ended by abort"
        self.board.reload()
        return "nor did it end by abort (is the memory port connected?): the bitstream was loaded anew"


FAULT_DETAIL: dict[int, str] = {
    FaultCode.WATCHDOG: "not done after {watchdog} cycles",
    FaultCode.BUS: "the memory answered with an error: an address that the port does not reach",
}


def _quiesce(board: Board) -> None:
    """Nothing may write to memory that is given back: end what is running."""
    if board.registers.status() >> Status.BUSY & 1:
        board.stop()
