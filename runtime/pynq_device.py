"""The ``pynq`` device: an overlay on a PYNQ board behind the :class:`Device` interface. Needs NumPy and pynq."""

from __future__ import annotations

import logging
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
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
from tilewright.runtime.device_base import (
    Allocation,
    Counters,
    Device,
    DeviceError,
    DeviceFault,
    fault,
    has_shared,
)
from tilewright.runtime.native.order import CompiledOrder
from tilewright.runtime.pynq.board import Board
from tilewright.runtime.pynq.buffers import BufferPool, SegmentBuffers, place_segments
from tilewright.runtime.pynq.manifest import Manifest, find_overlay
from tilewright.runtime.pynq.registers import Registers, Word
from tilewright.runtime.segments import shares, side_by_side
from tilewright.runtime.stalls import register_stalls

WATCHDOG_FACTOR = 8  #: real DRAM is slower than the contract's: refreshes, and the processor beside it
LAUNCH_SLACK_SECONDS = 2.0  #: beyond the watchdog's time, before a launch counts as hung
INTERRUPT_SECONDS = 0.5  #: longest wait for the interrupt before STATUS is looked at
SPIN_SECONDS = 200e-6  #: STATUS is looked at without pause first: an interrupt takes about as long through asyncio
POLL_SECONDS = (20e-6, 1e-3)  #: first and longest pause between looks at STATUS
KEPT_PROGRAMS = 4  #: programs whose memory is kept for their next allocation

FAULT = 1 << Status.FAULT

_log = logging.getLogger("tilewright.pynq")


@dataclass
class _State:
    """One allocation: memory, the registers that describe it, and the counters of the last launch."""

    buffers: SegmentBuffers
    watchdog: int
    #: by core, its first inference, and whose scratch memory it has
    words: dict[tuple[int, int, int], tuple[Word, ...]] = field(default_factory=dict)
    counters: dict[int, dict[str, int]] = field(default_factory=dict)  #: by core
    together: bool = False  #: whether other programs ran beside the last launch


class PynqDevice(Device):
    """Runs programs on a board. Of several cores each takes its share of a launch's inferences.

    ``overlay``: a ``.bit`` file with its manifest, or a folder of them (default: ``TILEWRIGHT_OVERLAY``), or a
    :class:`Manifest`. ``download``: False attaches to the overlay that is loaded already. ``interrupt``: False polls.
    ``timeout``: seconds that a launch may take, instead of what the watchdog allows. ``pynq``: stands for the package.
    Raises :class:`~tilewright.runtime.pynq.manifest.OverlayError`.
    """

    name: ClassVar[str] = "pynq"
    overlaps: ClassVar[bool] = True
    shares = True
    simulates = False

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
        self.order = CompiledOrder(config)
        self.turn = self.board.turn
        self._running: dict[int, Allocation] = {}  # what cores run that have been started and not yet been seen to end
        self.polling: str | None = self.board.no_interrupt if interrupt else "the interrupt is switched off"
        self._timeout = timeout
        self._repeat = [registers.word("REPEAT", 0)[0] for registers in self.board.cores]
        self._pool = BufferPool(self.board.allocate)
        self._kept: OrderedDict[tuple[int, int], tuple[Program, _State]] = OrderedDict()
        self._close = weakref.finalize(self, _quiesce, self.board)

    @property
    def registers(self) -> Registers:
        """Those of core 0, which there always is."""
        return self.board.cores[0]

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
        cores = min(len(self.board.cores), inferences)
        try:
            buffers = place_segments(program, inferences, self._pool, cores, self.order)
        except DeviceError:
            if not self._kept:
                raise
            self._forget_kept()  # memory is short
            buffers = place_segments(program, inferences, self._pool, cores, self.order)
        return _State(buffers, min(WATCHDOG_FACTOR * len(self.board.cores) * cycle_bound(program), LONGEST))

    def _words(self, program: Program, state: _State, core: int, inference: int, scratch: int) -> tuple[Word, ...]:
        """All registers of a launch but CONTROL and REPEAT, of a core whose share begins with an inference and that has
        the scratch memory of that number."""
        registers, beat, buffers = self.board.cores[core], self.config.beat_bytes, state.buffers
        words: list[Word] = [
            *registers.wide_words("PROGRAM", buffers.code),
            registers.word("PROGRAM_INSTRUCTIONS", program.instruction_count),
            registers.word("PROGRAM_BEATS", -(-len(program.instructions) // beat)),
            registers.word("WATCHDOG", state.watchdog),
            registers.word("INTERRUPT_ENABLE", 1),
        ]
        for index in range(self.config.segments):
            used = index < len(program.segments)
            size, stride = (program.segments[index].size, program.segments[index].repeat_stride) if used else (0, 0)
            base = buffers.address(index, scratch) + inference * stride if used else 0
            words += [
                *registers.wide_words(f"SEGMENT{index}_BASE", base),
                registers.word(f"SEGMENT{index}_LIMIT", size // beat),
                registers.word(f"SEGMENT{index}_STRIDE", stride),
            ]
        return tuple(words)

    def _memory(self, allocation: Allocation, segment: int, written: bool = False) -> NDArray[np.uint8]:
        buffers: SegmentBuffers = self._held(allocation).buffers
        group = buffers.places[segment][0]
        if written:
            group.before_write()
            buffers.constants_changed |= allocation.program.segments[segment].kind == "constant"
        else:
            group.before_read()
        return buffers.memory(segment)

    def runner(self, allocations: Sequence[Allocation], inferences: int) -> Callable[[], None]:
        """As the base class's: of one program alone its registers and its shares are worked out once."""
        if len(allocations) > 1 or has_shared(allocations[0].program):
            return super().runner(allocations, inferences)
        allocation = allocations[0]
        chosen = shares(inferences, len(self.board.cores))
        work = [(allocation, first, count, core) for core, (first, count) in enumerate(chosen)]

        def run() -> None:
            self._prepare(allocation, inferences)
            self._start(work)
            self._finish_all(inferences, None, counted=False)

        return run

    def _release(self, allocation: Allocation) -> None:
        state: _State = allocation.state
        if state.buffers.constants_changed or has_shared(allocation.program):
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
        allocation.state.together = False
        chosen = shares(inferences, len(self.board.cores))
        self._start([(allocation, first, count, core) for core, (first, count) in enumerate(chosen)])

    def _run_together(self, allocations: Sequence[Allocation], inferences: int) -> bool:
        if len(allocations) > len(self.board.cores):
            return False
        for allocation in allocations:
            allocation.state.together = True
        joined = any(has_shared(allocation.program) for allocation in allocations)
        for first, count in [(k, 1) for k in range(inferences)] if joined else [(0, inferences)]:
            if joined and len(self.board.cores) > 1:
                self.board.cores[0].write("DOORBELLS", 0)
            self._start([(allocation, first, count, 0) for allocation in allocations])
            self._finish_all(count, None)
        return True

    def share(self, allocations: Sequence[Allocation]) -> None:
        super().share(allocations)
        longest = min(sum(allocation.state.watchdog for allocation in allocations), LONGEST)
        for allocation in allocations:
            allocation.state.watchdog = longest  # they wait for each other

    def _share(self, allocation: Allocation, segment: int, other: Allocation, its: int) -> None:
        allocation.state.buffers.places[segment] = other.state.buffers.places[its]

    def _start(self, work: Sequence[tuple[Allocation, int, int, int]]) -> None:
        """Start each core on its work: a program, the first inference, how many, whose scratch memory."""
        self.board.use()
        for allocation in {id(allocation): allocation for allocation, *_ in work}.values():
            allocation.state.counters = {}
            for group in allocation.state.buffers.groups:
                group.before_launch()
        for core, (allocation, first, count, scratch) in enumerate(work):
            registers, words = self.board.cores[core], allocation.state.words
            if (core, first, scratch) not in words:
                words[core, first, scratch] = self._words(allocation.program, allocation.state, core, first, scratch)
            registers.update(words[core, first, scratch])
            registers.change(self._repeat[core], count)
        for core in range(len(work)):
            self.board.cores[core].command(Control.START)
        self._running = {core: allocation for core, (allocation, *_) in enumerate(work)}

    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        """Wait for the interrupt, or look at STATUS now and then. A launch that hangs or is interrupted is ended."""
        reported = self._finish_all(inferences, progress)
        if progress is not None and inferences > reported:
            progress(inferences - reported)

    def _finish_all(self, inferences: int, progress: Advance | None, counted: bool = True) -> int:
        """Wait until every core that runs has ended; how many inferences ``progress`` was told of. ``counted``: whether
        anybody asks for the counters."""
        allowed = self._timeout
        if allowed is None:
            watchdog = max(allocation.state.watchdog for allocation in self._running.values())
            allowed = LAUNCH_SLACK_SECONDS + watchdog * inferences / (self.config.clock_mhz * 1e6)
        begin, reported, pause = time.monotonic(), 0, POLL_SECONDS[0]
        started, fault_found = list(self._running), None
        try:
            while True:
                for core in self.board.ended(list(self._running)):
                    found = self._finish(self._running[core], core, counted)
                    fault_found = fault_found or found
                    del self._running[core]
                if not self._running or (now := time.monotonic()) >= begin + allowed:
                    break
                if progress is not None and (finished := self._completed(started)) > reported:
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
        if self._running:
            raise DeviceError(f"{self}: no end after {allowed:.1f} seconds; {self._recover()}")
        if fault_found is not None:
            raise fault_found
        return reported

    def _completed(self, cores: list[int]) -> int:
        return sum(self.board.cores[core].read("COMPLETED") for core in cores)

    def _wait_for_interrupt(self) -> None:
        line = self.board.interrupt
        assert line is not None
        # the second wait: the end may have come while the first one gave up
        ended = self.board.ended
        if line.wait(INTERRUPT_SECONDS) or not ended(list(self._running)) or line.wait(INTERRUPT_SECONDS / 10):
            return
        self.polling = f"a run has ended, but no interrupt came on {self.board.manifest.interrupt}"
        _log.warning("%s: polls from now on: %s", self, self.polling)

    def _finish(self, allocation: Allocation, core: int, counted: bool) -> DeviceFault | None:
        """Keep a core's counters, if asked for, and lower its interrupt; the fault that its run ended with."""
        program, state = allocation.program, allocation.state
        registers, found = self.board.cores[core], None
        if registers.status() & FAULT:
            code, instruction = registers.read("FAULT_CODE"), registers.read("FAULT_INSTRUCTION")
            name = FaultCode(code).name if code in list(FaultCode) else f"code {code}"
            found = fault(self, program, name, instruction, FAULT_DETAIL.get(code, "").format(watchdog=state.watchdog))
        elif counted:
            state.counters[core] = registers.counters()
        registers.command(Control.ACKNOWLEDGE)
        return found

    def _counters(self, allocation: Allocation) -> Counters:
        """Cycles, traffic and stalls of the first core's latest inference; no events."""
        state: _State = allocation.state
        counted = state.counters
        cycles = [read["CYCLES_HIGH"] << 32 | read["CYCLES_LOW"] for read in counted.values()]
        read, beat = counted[min(counted)], self.config.beat_bytes
        return Counters(
            cycles=read["CYCLES_HIGH"] << 32 | read["CYCLES_LOW"],
            read_bytes=(read["FETCH_BEATS"] + read["LOAD_BEATS"]) * beat,
            write_bytes=read["STORE_BEATS"] * beat,
            stalls=register_stalls(read),
            cores=len(self.board.cores) if state.together else len(counted),
            together=state.together,
            interval=side_by_side(cycles) if len(counted) > 1 else None,
        )

    def _cancel(self, allocation: Allocation) -> None:
        self._recover()

    def _recover(self) -> str:
        """Make the accelerator ready for the next launch, by abort, else by loading the bitstream anew; says which."""
        running, self._running = list(self._running), {}
        if self.board.stop(running):
            return "the run was ended by abort"
        self.board.reload()
        return "nor did it end by abort (is the memory port connected?): the bitstream was loaded anew"


FAULT_DETAIL: dict[int, str] = {
    FaultCode.WATCHDOG: "not done after {watchdog} cycles",
    FaultCode.BUS: "the memory answered with an error: an address that the port does not reach",
}


def _quiesce(board: Board) -> None:
    """Nothing may write to memory that is given back: end what is running, unless a later device has begun it."""
    if board.is_last_user:
        board.stop(board.busy())
