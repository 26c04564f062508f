"""A board without a board: what PYNQ offers a driver, with the Verilated design behind it.

:class:`Facade` stands for the ``pynq`` package: ``Overlay``, ``MMIO``, ``allocate``, ``Interrupt``. Register accesses
are AXI4-Lite transactions of the design, buffers are its DRAM, its interrupt line wakes the driver. So the very code
that drives a board runs, to the cycle, on the design.

Every buffer has two contents, as on a processor that does not snoop: what the processor sees and what the design
sees. Only ``flush`` and ``invalidate`` carry bytes from one to the other, in whole cache lines, and dirty lines may be
evicted at the worst moment: when a run has ended. A driver that forgets one of them gets wrong bytes.

:class:`Defects` breaks the board in the ways that boards break.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.hw.verilated.design import design_library
from tilewright.hw.verilated.model import DesignModel, Disturbance
from tilewright.isa.program import PAGE, whole_pages
from tilewright.isa.registers import Control, Status, offsets, window_bits
from tilewright.progress import Progress, silent

CACHE_LINE = 64  #: bytes; 32 on a Cortex-A9, where forgetting does less harm
REGISTER_BASE = 0x4000_0000
MEMORY_BASE = 0x1000_0000
MEMORY_BYTES = 128 << 20  #: contiguous memory of a PYNQ image
LOOK_CYCLES = 256  #: cycles that pass between two looks at STATUS
WAIT_CYCLES = 8192  #: cycles that pass at a time while the driver waits for the interrupt

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Defects:
    """What is broken. ``registers``: reads of an offset give this value. ``dma``: what the design sees of memory, from
    the bytes there and those of a port's beat; what it writes arrives unless ``writes_lost``. ``mapped``: False answers
    every access of the design with an error. ``interrupt``: the line is stuck ``low`` or ``high``. ``clock``: False
    stops it.
    """

    registers: dict[int, int] = field(default_factory=dict)
    dma: Callable[[Bytes, int], Bytes] | None = None
    writes_lost: bool = False
    mapped: bool = True
    interrupt: str = ""
    clock: bool = True
    flush: bool = True
    invalidate: bool = True
    disturbance: Disturbance = field(default_factory=Disturbance)


class SharedBuffer(np.ndarray):  # NumPy 1.21 has no arguments for it
    """Stands for ``PynqBuffer``: the processor's view of a region; ``device_address`` is where the design finds it."""

    device_address: int
    _region: _Region
    _facade: Facade

    def flush(self) -> None:
        """Write dirty lines to memory."""
        self._facade.synchronise(self._region, to_memory=True)

    def invalidate(self) -> None:
        """Forget cached lines: see memory as it is."""
        self._facade.synchronise(self._region, to_memory=False)

    def freebuffer(self) -> None:
        """Give the memory back; using the buffer afterwards shows rubbish."""
        self._facade.free(self._region)


@dataclass
class _Region:
    address: int
    cached: Bytes  #: what the processor sees
    synced: Bytes  #: what it saw when it was last in step with memory
    memory: Bytes  #: what the design sees

    outdated: NDArray[np.bool_] = field(init=False)  #: lines that the design has written since

    def __post_init__(self) -> None:
        self.outdated = np.zeros(self.cached.size // CACHE_LINE, np.bool_)

    def dirty(self) -> NDArray[np.bool_]:
        """Which cache lines the processor has written since."""
        return self._differing(self.synced)

    def write_back(self, lines: NDArray[np.bool_]) -> None:
        """Make memory what the processor sees of some lines."""
        self.memory.reshape(-1, CACHE_LINE)[lines] = self.cached.reshape(-1, CACHE_LINE)[lines]
        self.synced[:] = self.cached

    def invalidate(self) -> None:
        """Make what the processor sees what is in memory."""
        self.cached[:] = self.memory
        self.synced[:] = self.memory
        self.outdated[:] = False

    def end(self) -> None:
        """A run has ended: dirty lines are evicted, at the worst moment."""
        self.write_back(self.dirty())
        self.outdated |= self._differing(self.memory)

    def flush(self) -> None:
        """Write back what the processor has written: of an outdated line it may be what stood there before."""
        self.write_back(self.dirty() | self.outdated)
        self.outdated[:] = False

    def _differing(self, other: Bytes) -> NDArray[np.bool_]:
        lines: NDArray[np.bool_] = (self.cached != other).reshape(-1, CACHE_LINE).any(axis=1)
        return lines


class Facade:
    """Stands for the ``pynq`` package. ``config``: what a bitstream without an entry in ``designs`` holds.

    ``designs``: by file name, the Config of the design in a bitstream. ``memory_bytes``: all there is to allocate.
    ``pins``: interrupt pins of the block design. ``files``: whether an overlay's files must exist.
    ``build_progress`` gets the steps of a build, if the design needs one.
    """

    __version__ = "4.0.0"
    simulated = True  #: its seconds say nothing

    def __init__(
        self,
        config: Config,
        memory_bytes: int = MEMORY_BYTES,
        ip: str = "tilewright_0",
        pins: tuple[str, ...] | None = None,
        files: bool = True,
        build_progress: Progress = silent,
    ) -> None:
        self.config, self.ip, self.files = config, ip, files
        self._build_progress = build_progress
        self.designs: dict[str, Config] = {}
        self.defects = Defects()
        self.downloads = 0
        self.pins = (f"{ip}/irq",) if pins is None else pins
        self._free_bytes = memory_bytes
        self._next_address = MEMORY_BASE
        self._regions: list[_Region] = []
        self._model: DesignModel | None = None
        self._running: set[int] = set()  # cores
        self._seen: list[tuple[_Region, Bytes, Bytes]] = []
        self._lock = threading.RLock()

    # -- what PYNQ offers ------------------------------------------------------------------------------

    def Overlay(self, bitfile_name: str, download: bool = True) -> LoadedOverlay:
        """Load a bitstream; the file and its block design must exist, whatever they contain."""
        return LoadedOverlay(self, bitfile_name, download)

    def MMIO(self, base_addr: int, length: int = 4) -> Window:
        """Map registers."""
        return Window(self, base_addr, length)

    def Interrupt(self, pinname: str) -> Line:
        """An interrupt pin of the block design."""
        return Line(self, pinname)

    def allocate(self, shape: tuple[int, ...], dtype: Any = "u4", cacheable: int = 0) -> SharedBuffer:
        """Contiguous memory of any content. Raises RuntimeError when there is not enough."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        padded = whole_pages(size)
        if padded > self._free_bytes:
            raise RuntimeError("BO allocation failed: Cannot allocate memory")
        self._free_bytes -= padded
        # what memory held before, and what a cache may still hold of it
        region = _Region(self._next_address, *(np.full(padded, value, np.uint8) for value in (0x5A, 0x5A, 0xA5)))
        self._next_address += padded + PAGE  # an unmapped page catches what runs over
        with self._lock:
            self._regions.append(region)
        buffer = region.cached[:size].view(np.dtype(dtype)).reshape(shape).view(SharedBuffer)
        buffer.device_address, buffer._region, buffer._facade = region.address, region, self
        return buffer

    # -- what happens behind it ------------------------------------------------------------------------

    @property
    def model(self) -> DesignModel:
        """The design of the loaded bitstream. Raises RuntimeError if none is loaded."""
        if self._model is None:
            raise RuntimeError("Overlay is not downloaded")
        return self._model

    def design(self, config: Config) -> DesignModel:
        """The design that a bitstream of a Config holds, built if need be."""
        return DesignModel(design_library(config, "", self._build_progress), config.dram_latency)

    def load(self, config: Config) -> None:
        """Put a design onto the board; what ran there is gone."""
        with self._lock:
            model = self.design(config)
            if self._model is not None:  # until here: a driver that is collected meanwhile still looks at it
                self._model.close()
            self._model = model
            self._running = set()
            self.downloads += 1
            maps = [offsets(config, core) for core in range(config.cores)]
            self._control = {at["CONTROL"]: core for core, at in enumerate(maps)}
            while_running = {"STATUS": 1 << Status.BUSY, "INTERRUPTS": 0}
            self._looks = {at[name]: value for at in maps for name, value in while_running.items() if name in at}
            self._loaded = config

    def free(self, region: _Region) -> None:
        """Unmap a region."""
        with self._lock:
            if any(r is region for r in self._regions):
                self._regions = [r for r in self._regions if r is not region]
                self._free_bytes += region.cached.size
                region.cached[:] = 0xDD

    def synchronise(self, region: _Region, to_memory: bool) -> None:
        """``flush`` or ``invalidate``."""
        with self._lock:
            if to_memory and self.defects.flush:
                region.flush()
            if not to_memory and self.defects.invalidate:
                region.invalidate()

    def read_register(self, offset: int) -> int:
        """An AXI4-Lite read; while a program runs, time passes before one that looks for its end."""
        with self._lock:
            if offset in self._looks:
                self._advance(LOOK_CYCLES)
                if not self.defects.clock and self._running:
                    return self._looks[offset]
            return self.defects.registers.get(offset, self.model.read(offset))

    def write_register(self, offset: int, value: int) -> None:
        """An AXI4-Lite write."""
        with self._lock:
            if offset in self._control and value >> Control.START & 1:
                self._begin(self._control[offset])
            if offset not in self._control or self.defects.clock:
                self.model.write(offset, value)

    def interrupt_line(self) -> bool:
        """Whether the interrupt line is high, after some cycles more if it is not."""
        with self._lock:
            return self._advance(WAIT_CYCLES)

    @contextmanager
    def broken(self, **defects: Any) -> Iterator[None]:
        """Break the board for a while, in ways named as in :class:`Defects`."""
        before, self.defects = self.defects, dataclasses.replace(self.defects, **defects)
        try:
            yield
        finally:
            self.defects = before

    def _begin(self, core: int) -> None:
        """A run starts: this is the memory that it sees, and what starts before it has ended."""
        running, self._running = self._running, self._running | {core}
        if running:
            return
        self._seen = []
        regions = []
        if self.defects.mapped:
            for region in self._regions:
                seen = region.memory
                if self.defects.dma is not None or self.defects.writes_lost:
                    look = self.defects.dma or (lambda memory, beat: memory)
                    seen = np.ascontiguousarray(look(region.memory.copy(), self.config.axi_bits // 8))
                    self._seen.append((region, seen, seen.copy()))
                regions.append((region.address, seen, True))
        self.model.disturb(self.defects.disturbance)
        if self.model.cores > 1:
            self.model.limit(self._loaded.dram_bandwidth)
        for each in range(self.model.cores):
            self.model.set_regions(regions, each)
            self.model.record(0, each)

    def _advance(self, cycles: int) -> bool:
        """Let time pass while a program runs; whether the interrupt line is high."""
        if not self._running:
            return self.model.run(1)
        if not self.defects.clock:
            return False
        high = self.model.run(cycles)
        if high:
            ended = self.model.read(offsets(self._loaded)["INTERRUPTS"]) if self.model.cores > 1 else 1
            self._running -= {core for core in self._running if ended >> core & 1}
            if not self._running:
                self._end()
        return high

    def _end(self) -> None:
        """The last run has ended: all writes are in memory, and caches evict what they held back."""
        for core in range(self.model.cores):
            self.model.recorded(core)  # raises if a bus rule was broken
        for region, seen, before in self._seen:
            changed = seen != before
            if not self.defects.writes_lost:
                region.memory[changed] = seen[changed]
        for region in self._regions:
            region.end()


class LoadedOverlay:
    """Stands for ``pynq.Overlay``."""

    def __init__(self, facade: Facade, bitfile_name: str, download: bool) -> None:
        path = Path(bitfile_name)
        if facade.files and not path.is_file():
            raise OSError(f"Bitstream file {bitfile_name} does not exist.")
        if facade.files and not path.with_suffix(".hwh").is_file():
            raise RuntimeError("Unable to find metadata for bitstream")
        self.facade, self.bitfile_name = facade, str(path.resolve())
        self.ip_dict = {facade.ip: {"phys_addr": REGISTER_BASE, "addr_range": 1 << 16, "type": "tilewright"}}
        self.interrupt_pins = {pin: {"controller": "", "index": 0, "raw_irq": 61} for pin in facade.pins}
        if download:
            self.download()

    def download(self) -> None:
        """Load it onto the board, again."""
        self.facade.load(self.facade.designs.get(Path(self.bitfile_name).name, self.facade.config))


class Window:
    """Stands for ``pynq.MMIO``: ``array[word]`` reads and writes 32 bits."""

    def __init__(self, facade: Facade, base_addr: int, length: int) -> None:
        if base_addr != REGISTER_BASE or length > 1 << window_bits(facade._loaded):
            raise RuntimeError("Bus error")
        self._facade = facade
        self.array = self

    def __getitem__(self, word: int) -> int:
        return self._facade.read_register(4 * word)

    def __setitem__(self, word: int, value: int) -> None:
        self._facade.write_register(4 * word, value)


class Line:
    """Stands for ``pynq.Interrupt``: the design's clock runs while somebody waits."""

    def __init__(self, facade: Facade, pinname: str) -> None:
        if pinname not in facade.pins:
            raise ValueError(f"No Pin of name {pinname} found")
        self._facade = facade

    async def wait(self) -> None:
        """Return when the line is high."""
        stuck = self._facade.defects.interrupt
        while not (self._facade.interrupt_line() or stuck == "high") or stuck == "low":
            await asyncio.sleep(0)
