"""The C runtime from Python, for tests: a network on a board whose three functions are Python's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.hw.verilated.design import design_library
from tilewright.hw.verilated.model import DesignModel
from tilewright.isa.dram_order import DramOrder
from tilewright.isa.program import Program
from tilewright.isa.registers import ID_VALUE, SEGMENT_BASE, SEGMENT_SPACING, Control, Status, offsets

OK, NO_MEMORY, FILE, DAMAGED, UNSUPPORTED, BOARD, FAULT, TIMEOUT, INPUT = range(9)
ALLOCATE, RELEASE, TO_DEVICE, FROM_DEVICE = range(4)

Bytes = NDArray[np.uint8]


class Buffer(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_void_p), ("address", ctypes.c_uint64), ("size", ctypes.c_size_t)]


_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
REGISTERS = ctypes.CFUNCTYPE(ctypes.c_uint32, _POINTER, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32))
MEMORY = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, ctypes.c_int, ctypes.POINTER(Buffer), _SIZE, _SIZE)
TIME = ctypes.CFUNCTYPE(ctypes.c_uint64, _POINTER, ctypes.c_uint32)


class BoardStruct(ctypes.Structure):
    _fields_ = [("context", _POINTER), ("registers", REGISTERS), ("memory", MEMORY), ("time", TIME)]


class Options(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("per_launch", "timeout_ms", "watchdog_cycles", "keep_states")]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("type", ctypes.c_char_p), ("rank", ctypes.c_int32), ("shape", ctypes.c_int32 * 8),
        ("bytes", ctypes.c_size_t), ("scale", ctypes.c_double), ("zero_point", ctypes.c_int32),
    ]  # fmt: skip

    @property
    def dims(self) -> tuple[int, ...]:
        return tuple(self.shape[: self.rank])


class Board:
    """Memory as NumPy arrays, a page apart, and what is done to the cache."""

    def __init__(self) -> None:
        self.buffers: dict[int, Bytes] = {}  #: by address
        self.maintained: list[int] = []
        self._next = 1 << 20
        self.most_bytes = 1 << 40
        self._calls = REGISTERS(self._register), MEMORY(self._memory), TIME(self._time)
        self.struct = BoardStruct(None, *self._calls)

    def read(self, offset: int) -> int:
        raise NotImplementedError

    def write(self, offset: int, value: int) -> None:
        raise NotImplementedError

    def rest(self, microseconds: int) -> int:
        """Let time pass; the microseconds since the beginning."""
        raise NotImplementedError

    def changed(self) -> None:
        """Buffers have come or gone."""

    def at(self, address: int, size: int) -> Bytes:
        """Bytes at an address of the accelerator's."""
        for first, data in self.buffers.items():
            if first <= address and address + size <= first + data.size:
                return data[address - first :][:size]
        raise AssertionError(f"nothing at {address:#x}")

    def _register(self, _: int, offset: int, value: Any) -> int:
        if not value:
            return self.read(offset)
        self.write(offset, value[0])
        return 0

    def _memory(self, _: int, what: int, buffer: Any, offset: int, size: int) -> int:
        self.maintained.append(what)
        if what == ALLOCATE:
            if size > self.most_bytes:
                return 1
            data = self.buffers[self._next] = np.full(size, 0xAA, np.uint8)
            buffer[0].bytes, buffer[0].address = data.ctypes.data, self._next
            self._next += size + 4096
            self.changed()
        elif what == RELEASE:
            del self.buffers[buffer[0].address]
            self.changed()
        else:
            assert offset + size <= self.buffers[buffer[0].address].size
        return 0

    def _time(self, _: int, microseconds: int) -> int:
        return self.rest(microseconds)


class DesignBoard(Board):
    """The Verilated design of a Config."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.model = DesignModel(design_library(config), config.dram_latency)
        self.clock_mhz = config.clock_mhz
        self.model.record(0)

    def read(self, offset: int) -> int:
        return self.model.read(offset)

    def write(self, offset: int, value: int) -> None:
        self.model.write(offset, value)

    def rest(self, microseconds: int) -> int:
        if microseconds:
            self.model.run(microseconds * self.clock_mhz)
        return self.model.cycle // self.clock_mhz

    def changed(self) -> None:
        self.model.set_regions([(address, data, True) for address, data in self.buffers.items()])


class FunctionBoard(Board):
    """Registers as an array; START has ``run(program number, segments)`` compute one inference after another.

    Programs are told from each other by their instructions in memory.
    """

    def __init__(self, config: Config, programs: tuple[Program, ...], run: Callable[[int, list[Bytes]], None]) -> None:
        super().__init__()
        self.config, self.programs, self.run, self.time = config, programs, run, 0
        self.offsets = offsets(config)
        self.values: dict[int, int] = {
            self.offsets["ID"]: ID_VALUE,
            self.offsets["FINGERPRINT_LOW"]: int(config.fingerprint[8:], 16),
            self.offsets["FINGERPRINT_HIGH"]: int(config.fingerprint[:8], 16),
        }
        self.launches: list[tuple[int, int]] = []  #: (program, inferences)
        self.seen: list[tuple[list[Bytes], list[Bytes]]] = []  #: segments in DRAM before and after each inference
        self.ends = True  #: whether what is started ends
        self.fault = 0

    def named(self, name: str) -> int:
        return self.values.get(self.offsets[name], 0)

    def read(self, offset: int) -> int:
        return self.values.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        self.values[offset] = value
        if offset != self.offsets["CONTROL"]:
            return
        status = 0
        if value >> Control.START & 1:
            self._start()
            status = 1 << Status.DONE if self.ends else 1 << Status.BUSY
            status |= (1 << Status.FAULT) * bool(self.fault)
        elif value >> Control.ABORT & 1:
            status = 1 << Status.DONE | 1 << Status.FAULT
        self.values[self.offsets["STATUS"]] = status

    def rest(self, microseconds: int) -> int:
        self.time += microseconds + 1
        return self.time

    def _start(self) -> None:
        order, address = DramOrder(self.config), self.named("PROGRAM_HIGH") << 32 | self.named("PROGRAM_LOW")
        found = []
        for number, program in enumerate(self.programs):
            size = len(program.instructions)
            code = order.read(self.at(address, order.whole(size)), 0, size).tobytes()
            if (code, self.named("PROGRAM_INSTRUCTIONS")) == (program.instructions, program.instruction_count):
                found.append(number)
        program, repeat = self.programs[found[0]], self.named("REPEAT")
        self.launches.append((found[0], repeat))
        for k in range(repeat if self.ends and not self.fault else 0):
            views, places = [], []
            for number, segment in enumerate(program.segments):
                at = SEGMENT_BASE + number * SEGMENT_SPACING
                base = self.values[at + 4] << 32 | self.values[at]
                assert self.values[at + 8] * self.config.beat_bytes == segment.size
                assert self.values[at + 12] == segment.repeat_stride
                place = self.at(base + k * segment.repeat_stride, order.whole(segment.size))
                views.append(order.read(place, 0, segment.size))
                places.append(place)
            packed = [place.copy() for place in places]
            self.run(found[0], views)
            for place, view in zip(places, views):
                order.write(place, 0, view)
            self.seen.append((packed, [place.copy() for place in places]))


class Refused(Exception):
    """What the runtime says, with its code first."""


class Network:
    """An open network of the C runtime. Raises :class:`Refused`."""

    def __init__(self, library: ctypes.CDLL, artifact: bytes, board: Board, **options: int) -> None:
        self._library, self.board = library, board
        for name in ("input", "output"):
            getattr(library, f"tilewright_{name}").restype = ctypes.POINTER(Tensor)
        library.tilewright_error.restype = ctypes.c_char_p
        library.tilewright_cycles.restype = ctypes.c_uint64
        self._handle = ctypes.c_void_p()
        # a copy that ends where the artifact does, and that is gone afterwards
        data = (ctypes.c_char * len(artifact)).from_buffer_copy(artifact) if artifact else None
        chosen = ctypes.byref(Options(**options)) if options else None
        opened = library.tilewright_open(
            ctypes.byref(self._handle), data, ctypes.c_size_t(len(artifact)), ctypes.byref(board.struct), chosen
        )
        if opened:
            message = self.error
            self.close()
            raise Refused(opened, message)

    @property
    def error(self) -> str:
        return str(self._library.tilewright_error(self._handle).decode())

    @property
    def cycles(self) -> int:
        return int(self._library.tilewright_cycles(self._handle))

    def close(self) -> None:
        self._library.tilewright_close(self._handle)
        self._handle = ctypes.c_void_p()

    def tensors(self, what: str) -> list[Tensor]:
        count = getattr(self._library, f"tilewright_{what}s")(self._handle)
        assert not getattr(self._library, f"tilewright_{what}")(self._handle, count)
        return [getattr(self._library, f"tilewright_{what}")(self._handle, k)[0] for k in range(count)]

    def run(self, *inputs: NDArray[Any]) -> list[NDArray[Any]]:
        """N inferences of stacked inputs, (N, *shape)."""
        count = len(inputs[0])
        kept = [np.ascontiguousarray(x) for x in inputs]
        for x, tensor in zip(kept, self.tensors("input"), strict=True):
            assert (x.nbytes, x.dtype.name) == (count * tensor.bytes, tensor.type.decode())
        outputs = [np.empty((count, *t.dims), t.type.decode()) for t in self.tensors("output")]
        given = (ctypes.c_void_p * len(kept))(*(x.ctypes.data for x in kept))
        taken = (ctypes.c_void_p * len(outputs))(*(y.ctypes.data for y in outputs))
        ran = self._library.tilewright_run(self._handle, ctypes.c_size_t(count), given, taken)
        if ran:
            raise Refused(ran, self.error)
        return outputs

    def reset(self) -> None:
        self._library.tilewright_reset(self._handle)
