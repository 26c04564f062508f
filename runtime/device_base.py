"""The interface that every device implements, and what is the same for all of them.

A launch goes: :meth:`Device.allocate` segments for a program and a number of inferences, :meth:`~Device.write`
inputs, :meth:`~Device.launch`, :meth:`~Device.wait`, :meth:`~Device.read` outputs, :meth:`~Device.counters`,
:meth:`~Device.release`. A fault leaves the device usable: the next launch starts afresh.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.errors import TilewrightError
from tilewright.isa.dram_order import PLAIN
from tilewright.isa.program import Program
from tilewright.kinds import function, instance, shown
from tilewright.progress import Advance
from tilewright.ranges import whole
from tilewright.runtime.one_process import refuse_copy
from tilewright.runtime.turn import Turn


class DeviceError(TilewrightError):
    """A device does not exist, is not available here, or is given something it cannot run."""


class DeviceFault(TilewrightError):
    """A program ended with a fault: the message names the fault, the instruction and the layer."""

    def __init__(self, device: str, code: str, instruction: int | None, layer: str | None, detail: str = "") -> None:
        self.code, self.instruction, self.layer, self.detail = code, instruction, layer, detail
        where = "" if instruction is None else f" at instruction {instruction}"
        where += f" of layer {layer}" if layer else ""
        super().__init__(f"{device}: fault {code}{where}{': ' + detail if detail else ''}")


@dataclass(frozen=True)
class Events:
    """When each instruction was dispatched, issued and retired, in cycles from start; int64 arrays."""

    dispatch: NDArray[np.int64]
    issue: NDArray[np.int64]
    retire: NDArray[np.int64]


@dataclass(frozen=True)
class Counters:
    """What a device counted in the last launch, per inference. ``cycles`` is 0 on a device that counts none.

    ``stalls`` maps counter names (``engine.cause``) to cycles. ``events`` is None on a device that cannot give them.
    ``cores``: accelerators that had a share of the launch (on ``sim``: that there are), ``interval``: cycles from one
    result to the next while all of them are busy (None: as for one core, ``cycles``). ``together``: the programs of the
    launch ran at the same time, each on a core of its own.
    """

    cycles: int
    read_bytes: int
    write_bytes: int
    stalls: dict[str, int] = field(default_factory=dict)
    events: Events | None = None
    cores: int = 1
    interval: float | None = None
    together: bool = False


@dataclass
class Allocation:
    """DRAM that a device holds for one program: segments for up to ``inferences`` inferences."""

    program: Program
    inferences: int
    state: Any = None  #: the device's own; None once released
    pending: int = 0  #: inferences that are launched and not yet waited for
    finished: bool = False  #: whether the last launch has ended without a fault, so that there are counters


MOST_INFERENCES = (1 << 32) - 1  #: of one launch: what register REPEAT holds
_ALLOCATION = "what allocate gave"


class Device(ABC):
    """One accelerator of one :class:`Config`, of which runs take turns: who uses it beside others, an
    :class:`~tilewright.runtime.executable.Executable` among them, holds :attr:`turn` from writing inputs to reading
    outputs. Within a turn one thread allocates, launches, waits and releases, one launch after another; where the
    device :attr:`overlaps`, others may meanwhile write and read allocations that are not launched."""

    name: ClassVar[str] = ""
    overlaps: ClassVar[bool] = False
    shares = False  #: whether programs on its cores can share memory
    simulates = True  #: how long it takes says nothing about the accelerator

    def __init__(self, config: Config) -> None:
        self.config = config
        self.order = PLAIN  #: of bytes in its memory
        self.turn = Turn()  #: ``with device.turn.taken("what for"):``
        self._launched: Allocation | None = None  #: last, and perhaps not yet waited for
        self.notice: Callable[[str], None] = lambda what: None  #: called with what a job waits for, as it waits

    def __str__(self) -> str:
        return f"{self.name} device"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        refuse_copy(str(self), "open the device once more", DeviceError)

    @property
    def label(self) -> str:
        """What reports call it."""
        return self.name

    def allocate(self, program: Program, inferences: int) -> Allocation:
        """Segments for ``inferences`` inferences, constants written. Refuses a program of another Config."""
        instance("program", program, Program, "a Program", error=DeviceError)
        inferences = whole("inferences", inferences, 1, MOST_INFERENCES, error=DeviceError)
        if program.config.fingerprint != self.config.fingerprint:
            differing = "; ".join(program.config.differences(self.config))
            raise DeviceError(f"{self}: the program is of another config than the device ({differing})")
        if len(program.segments) > self.config.segments:
            raise DeviceError(f"{self}: {len(program.segments)} segments, the config has {self.config.segments}")
        shared = [s.name for s in program.segments if s.kind in ("input", "output") and not s.repeat_stride]
        if inferences > 1 and shared:
            raise DeviceError(f"{self}: segment {shared[0]} has no repeat stride: one inference per launch only")
        size = sum(s.size + (inferences - 1) * s.repeat_stride for s in program.segments)
        try:
            if size > sys.maxsize:
                raise MemoryError
            return Allocation(program, inferences, self._allocate(program, inferences))
        except MemoryError as error:
            raise DeviceError(f"{self}: there is no memory for {size:,} bytes of segments") from error

    def write(self, allocation: Allocation, segment: int, inference: int, offset: int, data: NDArray[np.uint8]) -> None:
        """Write bytes to a segment, ``offset`` bytes from where ``inference`` sees it begin."""
        begin = self._begin(allocation, segment, inference, offset, bytes_of(data).size)
        self.order.write(self._memory(allocation, segment, written=True), begin, data.reshape(-1))

    def read(self, allocation: Allocation, segment: int, inference: int, offset: int, size: int) -> NDArray[np.uint8]:
        """A copy of ``size`` bytes of a segment as ``inference`` sees it."""
        begin = self._begin(allocation, segment, inference, offset, size)
        return self.order.read(self._memory(allocation, segment), begin, size)

    def write_stack(self, allocation: Allocation, segment: int, offset: int, data: NDArray[np.uint8]) -> None:
        """Write row k of ``data``, (N, size), to a segment as inference k sees it."""
        if not (count := len(bytes_of(data))):
            return
        rows = data.reshape(count, -1)
        self._begin(allocation, segment, count - 1, offset, rows.shape[1])  # and the first ones, if the last
        stride = allocation.program.segments[segment].repeat_stride
        self.order.write_stack(self._memory(allocation, segment, written=True), offset, stride, rows)

    def read_stack(
        self, allocation: Allocation, segment: int, inferences: int, offset: int, size: int
    ) -> NDArray[np.uint8]:
        """(inferences, size): the same bytes of a segment as each of the first inferences sees them."""
        whole("inferences", inferences, 1, error=DeviceError)
        self._begin(allocation, segment, inferences - 1, offset, size)
        stride = allocation.program.segments[segment].repeat_stride
        return self.order.read_stack(self._memory(allocation, segment), offset, stride, inferences, size)

    def runner(self, allocations: Sequence[Allocation], inferences: int) -> Callable[[], None]:
        """:meth:`run_together`, ready to be called again and again while the allocations are held; there may be no
        counters afterwards."""
        return partial(self.run_together, allocations, inferences)

    def _begin(self, allocation: Allocation, segment: int, inference: int, offset: int, size: int) -> int:
        """The number, in the whole segment, of the first of ``size`` bytes at ``offset``; that they are there, and not
        the accelerator's."""
        self._held(allocation)
        if allocation.pending:
            raise DeviceError(f"{self}: the segments are in use: what was launched has not been waited for")
        for name, given in (("segment", segment), ("inference", inference), ("offset", offset), ("size", size)):
            if type(given) is not int:  # as it nearly always is
                whole(name, given, 0, error=DeviceError)
        segments = allocation.program.segments
        if not 0 <= segment < len(segments) or not 0 <= inference < allocation.inferences:
            raise DeviceError(f"{self}: no segment {segment} of inference {inference}")
        spec = segments[segment]
        if offset < 0 or offset + size > spec.size:
            raise DeviceError(f"{self}: bytes {offset}..{offset + size} lie outside segment {spec.name} of {spec.size}")
        return inference * spec.repeat_stride + offset

    def share(self, allocations: Sequence[Allocation]) -> None:
        """Make the shared segments of programs that are to run together, of the same name, one memory. Do so before
        anything is written to them. Raises :class:`DeviceError` on a device that cannot."""
        self._all_held(allocations)
        first: dict[str, tuple[Allocation, int]] = {}
        for allocation in allocations:
            for number, segment in enumerate(allocation.program.segments):
                if segment.kind == "shared" and first.setdefault(segment.name, (allocation, number))[0] != allocation:
                    self._share(allocation, number, *first[segment.name])

    def launch(self, allocation: Allocation, inferences: int) -> None:
        """Start ``inferences`` runs of the program, one after another; does not wait. What was launched before must
        have been waited for."""
        self._held(allocation)
        if has_shared(allocation.program):
            raise DeviceError(f"{self}: the program shares memory with others: they run together, or not at all")
        self._prepare(allocation, inferences)
        self._launch(allocation, inferences)
        allocation.pending, self._launched = inferences, allocation

    def wait(self, allocation: Allocation, progress: Advance | None = None) -> None:
        """Wait until the launch has finished. Raises :class:`DeviceFault` if it ended with a fault."""
        self._held(allocation)
        function("progress", progress, error=DeviceError)
        if not allocation.pending:
            raise DeviceError(f"{self}: nothing has been launched")
        inferences, allocation.pending, self._launched = allocation.pending, 0, None
        self._wait(allocation, inferences, progress)
        allocation.finished = True

    def run_together(self, allocations: Sequence[Allocation], inferences: int, progress: Advance | None = None) -> None:
        """Run different programs once per inference each, and wait for all: each on a core of its own and all at once
        where the device has so many and can (:attr:`Counters.together` says whether they were), else one after another.

        Raises :class:`DeviceFault` if one of them ended with a fault.
        """
        self._all_held(allocations)
        function("progress", progress, error=DeviceError)
        for allocation in allocations:
            self._prepare(allocation, inferences)
        joined = any(has_shared(allocation.program) for allocation in allocations)
        if (joined or len(allocations) > 1) and self._run_together(allocations, inferences):
            for allocation in allocations:
                allocation.finished = True
            if progress is not None:
                progress(inferences)
            return
        if joined:
            raise DeviceError(
                f"{self}: {len(allocations)} programs wait for each other, each on a core of its own, and there are "
                f"{self.config.cores} cores; compile the model for this device"
            )
        for number, allocation in enumerate(allocations, 1):
            self.launch(allocation, inferences)
            self.wait(allocation, progress if number == len(allocations) else None)

    def counters(self, allocation: Allocation) -> Counters:
        """Counters of the last finished launch."""
        self._held(allocation)
        if not allocation.finished:
            raise DeviceError(f"{self}: no launch has finished, there are no counters")
        return self._counters(allocation)

    def release(self, allocation: Allocation) -> None:
        """Free the segments; a launch that nobody waited for is ended. Doing it again does nothing."""
        instance("allocation", allocation, Allocation, _ALLOCATION, error=DeviceError)
        if allocation.state is None:
            return
        if allocation.pending:
            allocation.pending, self._launched = 0, None
            self._cancel(allocation)
        self._release(allocation)
        allocation.state, allocation.finished = None, False

    def close(self) -> None:
        """Give back what the device itself holds; it cannot be used afterwards."""
        return

    def _prepare(self, allocation: Allocation, inferences: int) -> None:
        """Whether so many runs of the program can begin; the last ones are forgotten."""
        self._held(allocation)
        if self._launched is not None:
            raise DeviceError(f"{self}: what was launched has not been waited for; a device runs one launch at a time")
        whole("inferences", inferences, 1, error=DeviceError)
        if inferences > allocation.inferences:
            raise DeviceError(f"{self}: {inferences} inferences: segments are allocated for {allocation.inferences}")
        allocation.finished = False

    def _held(self, allocation: Allocation) -> Any:
        """The device's state of an allocation that has not been released."""
        instance("allocation", allocation, Allocation, _ALLOCATION, error=DeviceError)
        if allocation.state is None:
            raise DeviceError(f"{self}: the segments have been released")
        return allocation.state

    def _all_held(self, allocations: Sequence[Allocation]) -> None:
        """Whether there is one at least, and none has been released."""
        instance("allocations", allocations, Sequence, "a list of allocations", error=DeviceError)
        if not allocations:
            raise DeviceError(f"{self}: no allocations were given")
        for allocation in allocations:
            self._held(allocation)

    @abstractmethod
    def _allocate(self, program: Program, inferences: int) -> Any:
        """Reserve the segments and write their constants; the result becomes ``Allocation.state``."""

    @abstractmethod
    def _memory(self, allocation: Allocation, segment: int, written: bool = False) -> NDArray[np.uint8]:
        """The bytes of a whole segment, all inferences, in the order of :attr:`order`, which are about to be read, or
        ``written``."""

    @abstractmethod
    def _launch(self, allocation: Allocation, inferences: int) -> None:
        """Start; the arguments have been checked."""

    @abstractmethod
    def _wait(self, allocation: Allocation, inferences: int, progress: Advance | None) -> None:
        """Wait for what was launched. However it ends, the device can launch again."""

    def _share(self, allocation: Allocation, segment: int, other: Allocation, its: int) -> None:
        """Let a segment be the memory of another allocation's."""
        raise DeviceError(f"{self}: programs that share memory cannot run here; compile the model for this device")

    def _run_together(self, allocations: Sequence[Allocation], inferences: int) -> bool:
        """Run programs on a core each and wait for all; False, and nothing done, where there are too few cores.

        Those that share memory begin each inference together.
        """
        return False

    @abstractmethod
    def _counters(self, allocation: Allocation) -> Counters:
        """The counters; there has been a launch without a fault."""

    def _cancel(self, allocation: Allocation) -> None:
        """End the launch under way. Nothing to do where :meth:`_wait` does all the work."""
        return

    def _release(self, allocation: Allocation) -> None:
        """Free what the state holds. Nothing to do where dropping it is enough."""
        return


def bytes_of(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """``data``, if it is bytes: other numbers would be cut to bytes without a word."""
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or not data.ndim or np.ma.is_masked(data):
        what = f"{data.ndim}-D {data.dtype}" if isinstance(data, np.ndarray) else shown(data)
        raise DeviceError(f"data: must be an array of uint8 with one axis at least, got {what}")
    return data


def has_shared(program: Program) -> bool:
    """Whether a program is one of several that exchange, and that are launched together alone."""
    return any(segment.kind == "shared" for segment in program.segments)


def fault(device: Device, program: Program, code: str, instruction: int | None, detail: str = "") -> DeviceFault:
    """The :class:`DeviceFault` of an instruction, with its layer looked up in the program's meta.

    ``instruction`` as the device reports it: a number that is none of the program's counts as unknown.
    """
    if instruction is not None and not 0 <= instruction < program.instruction_count:
        instruction = None
    layer = None
    owners = program.meta.get("instruction_layer", [])
    if instruction is not None and instruction < len(owners) and owners[instruction] >= 0:
        layer = program.meta["layers"][owners[instruction]]["name"]
    return DeviceFault(str(device), code, instruction, layer, detail)
