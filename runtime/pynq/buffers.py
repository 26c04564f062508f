"""Contiguous memory that processor and accelerator share, and the cache maintenance it needs.

The accelerator does not see the processor's caches. So what the processor has written is flushed before a launch,
what the accelerator has written is invalidated before the processor looks at it, and also before the processor
writes beside it: a cache line that is written back whole would undo what the accelerator wrote. What the processor
wrote to outputs (zeros) is flushed too, for a dirty line may be evicted at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.dram_order import PLAIN, DramOrder
from tilewright.isa.program import PAGE, Program, Segment, whole_pages
from tilewright.isa.registers import DRAM_ADDRESS_BITS
from tilewright.runtime.device_base import DeviceError
from tilewright.runtime.segments import is_scratch

POOL_BUFFERS = 16  #: most free buffers kept
POOL_WASTE = 4  #: a free buffer of up to so many times the size is taken
FULL = (RuntimeError, MemoryError, OSError)  #: what versions of PYNQ raise when there is no memory


class BufferPool:
    """Buffers that are free for reuse: allocation takes milliseconds, and old versions of PYNQ never give memory back.

    ``allocate``: bytes to a one-dimensional uint8 ``PynqBuffer``. Raises :class:`DeviceError` when memory is full.
    """

    def __init__(self, allocate: Callable[[int], Any]) -> None:
        self._allocate = allocate
        self._free: list[Any] = []

    def take(self, size: int) -> Any:
        """A buffer of at least ``size`` bytes; its content is anything."""
        size = whole_pages(max(size, 1))
        fitting = [b for b in self._free if size <= b.nbytes <= POOL_WASTE * size]
        if fitting:
            chosen = min(fitting, key=lambda b: int(b.nbytes))
            self._free = [b for b in self._free if b is not chosen]
            return chosen
        try:
            return self._checked(self._allocate(size))
        except FULL:
            self.drain()
        try:
            return self._checked(self._allocate(size))
        except FULL as error:
            raise DeviceError(
                f"pynq device: no contiguous memory for {size / 2**20:.1f} MiB ({error}){_cma_free()}; free buffers of "
                "other programs, run fewer inferences per launch, or boot with a larger cma="
            ) from error

    def give(self, buffer: Any) -> None:
        """Keep a buffer for reuse, or free it if there are enough."""
        if len(self._free) < POOL_BUFFERS:
            self._free.append(buffer)
        else:
            buffer.freebuffer()

    def drain(self) -> None:
        """Free every buffer kept."""
        for buffer in self._free:
            buffer.freebuffer()
        self._free = []

    def _checked(self, buffer: Any) -> Any:
        address = int(buffer.device_address)
        if address % PAGE or address + buffer.nbytes > 1 << DRAM_ADDRESS_BITS:
            buffer.freebuffer()
            raise DeviceError(
                f"pynq device: a buffer lies at address {address:#x}; the accelerator needs multiples of {PAGE} below "
                f"{1 << DRAM_ADDRESS_BITS:#x}"
            )
        return buffer


def _cma_free() -> str:
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("CmaFree:"):
                    return f", {int(line.split()[1]) / 1024:.1f} MiB are free"
    except OSError:
        return ""  # no such file: not Linux
    return ""


class Group:
    """Segments of one role in one buffer, so that cache maintenance takes one call for all of them.

    ``by_device``: whether the accelerator writes here.
    """

    def __init__(self, buffer: Any, by_device: bool) -> None:
        self.buffer, self.by_device = buffer, by_device
        self.bytes: NDArray[np.uint8] = buffer.view(np.ndarray)
        self.address = int(buffer.device_address)
        self._dirty = self._stale = False

    def before_write(self) -> None:
        """The processor is about to write."""
        self.before_read()
        self._dirty = True

    def before_read(self) -> None:
        """The processor is about to read."""
        if self._stale:
            self.buffer.invalidate()
            self._stale = False

    def before_launch(self) -> None:
        """The accelerator is about to read and write."""
        if self._dirty:
            self.buffer.flush()
            self._dirty = False
        self._stale = self.by_device

    def clear(self) -> None:
        """Fill with zeros, whatever was there."""
        self._stale, self._dirty = False, True
        self.bytes[:] = 0


@dataclass
class SegmentBuffers:
    """The memory of one allocation. ``places``: group and byte of every segment; the program is at ``code``.

    ``apart``: bytes from where a core finds a segment to where the next core does; 0 where they share it.
    """

    groups: list[Group]
    places: list[tuple[Group, int, int]] = field(default_factory=list)  #: (group, first byte, bytes)
    apart: list[int] = field(default_factory=list)
    constants_changed: bool = False

    @property
    def code(self) -> int:
        """Address of the program: it comes first."""
        return self.groups[0].address

    def address(self, segment: int, core: int = 0) -> int:
        """Address of a segment as the first inference sees it on a core."""
        group, first, _ = self.places[segment]
        return group.address + first + core * self.apart[segment]

    def memory(self, segment: int) -> NDArray[np.uint8]:
        """The bytes of a segment, all inferences, as the processor sees them."""
        group, first, size = self.places[segment]
        return group.bytes[first : first + size]

    def clear(self) -> None:
        """Zeros everywhere but in the program and its constants."""
        for group in self.groups[1:]:
            group.clear()

    def give_back(self, pool: BufferPool) -> None:
        """Return all buffers to the pool."""
        for group in self.groups:
            pool.give(group.buffer)


#: the segments' kinds by group; the program lies before the first group's
GROUP_KINDS: tuple[tuple[str, ...], ...] = (("constant",), ("input",), ("output",), ("scratch",), ("shared",))


def place_segments(
    program: Program, inferences: int, pool: BufferPool, cores: int = 1, order: DramOrder = PLAIN
) -> SegmentBuffers:
    """Buffers for a program and its segments, zeroed, constants written; for ``cores`` that run it side by side.

    Raises :class:`DeviceError` where there is no memory, and has taken none then.
    """
    taken: list[Any] = []
    groups: list[Group] = []
    places: dict[int, tuple[Group, int, int]] = {}
    spans = [whole_pages(_span(segment, inferences)) for segment in program.segments]
    apart = [span if is_scratch(segment) else 0 for segment, span in zip(program.segments, spans)]
    try:
        for kinds in GROUP_KINDS:
            end = whole_pages(len(program.instructions)) if "constant" in kinds else 0
            layout = {}
            for index, segment in enumerate(program.segments):
                if segment.kind in kinds:
                    layout[index] = (end, order.whole(_span(segment, inferences)))
                    end += spans[index] + (cores - 1) * apart[index]
            if not end:
                continue
            taken.append(pool.take(end))
            groups.append(Group(taken[-1], by_device=kinds[0] in ("output", "scratch", "shared")))
            groups[-1].clear()
            places |= {index: (groups[-1], first, size) for index, (first, size) in layout.items()}
    except BaseException:
        for buffer in taken:
            pool.give(buffer)
        raise
    made = SegmentBuffers(groups, [places[index] for index in range(len(program.segments))], apart)
    code = np.frombuffer(program.instructions, np.uint8)
    order.write(groups[0].bytes, 0, code)
    for index, segment in enumerate(program.segments):
        if segment.data is not None:
            content = np.frombuffer(segment.data, np.uint8)
            for k in range(inferences if segment.repeat_stride else 1):
                order.write(made.memory(index), k * segment.repeat_stride, content)
    return made


def _span(segment: Segment, inferences: int) -> int:
    return segment.size + (inferences - 1) * segment.repeat_stride
