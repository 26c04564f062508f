"""A Verilated design in this process: clock, registers, DRAM, events. The other side of ``harness.cpp``."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.verilated.toolchain import ToolError
from tilewright.isa.spec import Engine

RESET_CYCLES = 8
RUN_CHUNK = 1 << 18  #: cycles between looks at the keyboard: a quarter of a second or less
RESPONSES = {0: "OKAY", 2: "SLVERR", 3: "DECERR", -1: "no answer"}


class ModelError(ToolError):
    """The design broke a bus rule or did not answer a register access."""


@dataclass(frozen=True)
class Disturbance:
    """What the DRAM does beyond the contract. ``stall``: chance in 256 that a channel pauses for a cycle.

    ``fail_read``, ``fail_write``: number of the burst (from 0, since :meth:`DesignModel.record`) that is
    answered with SLVERR, -1 for none.
    """

    stall: int = 0
    seed: int = 1
    fail_read: int = -1
    fail_write: int = -1


@dataclass(frozen=True)
class Recorded:
    """What the harness saw since :meth:`DesignModel.record`; cycle 0 being that of ``ev_start``.

    dispatch, dispatch_engine: in program order. issue, retire: by engine, in its order.
    """

    dispatch: NDArray[np.int64]
    dispatch_engine: NDArray[np.int64]
    issue: tuple[NDArray[np.int64], ...]
    retire: tuple[NDArray[np.int64], ...]
    read_bursts: int
    write_bursts: int
    read_beats: int
    write_beats: int


def _prototypes(library: ctypes.CDLL) -> None:
    pointer, i32, u32, i64, u64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_int64, ctypes.c_uint64
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "tw_new": (pointer, [u32, u32]),
        "tw_delete": (None, [pointer]),
        "tw_reset": (None, [pointer, i32]),
        "tw_cores": (i32, []),
        "tw_clear_regions": (None, [pointer, i32]),
        "tw_add_region": (None, [pointer, i32, u64, u64, pointer, i32]),
        "tw_limit": (None, [pointer, u32]),
        "tw_disturb": (None, [pointer, u32, u64, i64, i64]),
        "tw_write": (i32, [pointer, u32, u32]),
        "tw_read": (i32, [pointer, u32, ctypes.POINTER(u32)]),
        "tw_record": (None, [pointer, i32, u64]),
        "tw_run": (i32, [pointer, i64]),
        "tw_run_together": (i32, [pointer, i32, u32, u32, u32, pointer, i64]),
        "tw_status": (None, [pointer, i32, pointer]),
        "tw_violation": (ctypes.c_char_p, [pointer, i32]),
        "tw_events": (i64, [pointer, i32, i32, pointer, i64]),
        "tw_wave_open": (i32, [pointer, ctypes.c_char_p]),
        "tw_wave_close": (None, [pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


class DesignModel:
    """One instance of a built design, reset and clocked from here. ``cores``: how many it has.

    ``latency``: DRAM latency in cycles. ``seed``: 0 starts registers without reset and memories at zero,
    anything else at random values drawn from it. Close it, or use it in a ``with`` statement.
    """

    def __init__(self, library: Path, latency: int, seed: int = 0) -> None:
        try:
            self._library = ctypes.CDLL(str(library))
        except OSError as error:
            raise ModelError(f"{library}: cannot be loaded: {error}") from error
        _prototypes(self._library)
        self._handle: int | None = self._library.tw_new(latency, seed)
        self.cores = int(self._library.tw_cores())
        self._regions: list[list[NDArray[np.uint8]]] = [[] for _ in range(self.cores)]
        self.reset()

    def __enter__(self) -> DesignModel:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the model; further calls are an error. Closing twice is not."""
        if self._handle is not None:
            self._library.tw_wave_close(self._handle)
            self._library.tw_delete(self._handle)
            self._handle = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def reset(self, cycles: int = RESET_CYCLES) -> None:
        """Hold reset for some cycles; outstanding bursts are forgotten."""
        self._library.tw_reset(self._handle, cycles)

    def set_regions(self, regions: list[tuple[int, NDArray[np.uint8], bool]], core: int = 0) -> None:
        """What a core finds in the DRAM: (byte address, bytes, writable), used in place; DECERR everywhere else."""
        self._library.tw_clear_regions(self._handle, core)
        self._regions[core] = [data for _, data, _ in regions]
        for base, data, writable in regions:
            if data.dtype != np.uint8 or not data.flags.c_contiguous:
                raise ModelError("a DRAM region must be a contiguous uint8 array")
            self._library.tw_add_region(self._handle, core, base, data.size, data.ctypes.data, int(writable))

    def disturb(self, how: Disturbance) -> None:
        """Stall or fail DRAM accesses from now on; the default :class:`Disturbance` ends that."""
        self._library.tw_disturb(self._handle, how.stall, how.seed, how.fail_read, how.fail_write)

    def limit(self, bandwidth: int) -> None:
        """Let the DRAM move so many bytes a cycle over all ports, as after a long rest; 0: what each port asks for."""
        self._library.tw_limit(self._handle, bandwidth)

    def write(self, address: int, value: int) -> None:
        """Write a register. Raises :class:`ModelError` if the answer is not OKAY."""
        self._answered(self._library.tw_write(self._handle, address, value & 0xFFFFFFFF), "write", address)

    def read(self, address: int) -> int:
        """Read a register. Raises :class:`ModelError` if the answer is not OKAY."""
        value = ctypes.c_uint32()
        self._answered(self._library.tw_read(self._handle, address, ctypes.byref(value)), "read", address)
        return int(value.value)

    def _answered(self, response: int, what: str, address: int) -> None:
        if response != 0:
            raise ModelError(f"register {what} at {address:#05x}: {RESPONSES.get(response, response)}")

    def record(self, keep: int, core: int = 0) -> None:
        """Forget what was recorded of a core; keep up to ``keep`` events per list from now on."""
        self._library.tw_record(self._handle, core, keep)

    def run(self, limit: int) -> bool:
        """Run until the interrupt line is high, for at most ``limit`` cycles; whether it is high."""
        while limit > 0:
            chunk = min(limit, RUN_CHUNK)
            if self._library.tw_run(self._handle, chunk):
                return True
            limit -= chunk
        return False

    @staticmethod
    def run_together(
        models: Sequence[DesignModel], bandwidth: int, address: int, value: int, delays: Sequence[int], limit: int
    ) -> bool:
        """Clock models of one library in step before one DRAM of so many bytes a cycle; whether all have interrupted.

        Model k has ``value`` written to the register at ``address`` from cycle ``delays[k]`` on.
        """
        handles = (ctypes.c_void_p * len(models))(*(model._handle for model in models))
        starts = np.array(delays, np.int64)
        library = models[0]._library
        return bool(library.tw_run_together(handles, len(models), bandwidth, address, value, starts.ctypes.data, limit))

    def _status(self, core: int) -> NDArray[np.int64]:
        values = np.zeros(7, np.int64)
        self._library.tw_status(self._handle, core, values.ctypes.data)
        return values

    @property
    def cycle(self) -> int:
        """Clock cycles since the model was made."""
        return int(self._status(0)[0])

    def started(self, core: int = 0) -> int:
        """Clock cycle in which a core first started since :meth:`record`, -1 if it has not."""
        return int(self._status(core)[1])

    def recorded(self, core: int = 0) -> Recorded:
        """Events and counts of a core since :meth:`record`. Raises :class:`ModelError` if a bus rule was broken."""
        violation = self._library.tw_violation(self._handle, core).decode()
        if violation:
            raise ModelError(f"the design broke a bus rule: {violation}")
        _, start, read_bursts, write_bursts, read_beats, write_beats, _ = self._status(core).tolist()
        lists = [self._events(core, k) for k in range(2 + 2 * len(Engine))]
        issue, retire = lists[2:6], lists[6:10]
        return Recorded(
            lists[0] - start, lists[1], tuple(a - start for a in issue), tuple(a - start for a in retire),
            read_bursts, write_bursts, read_beats, write_beats,
        )  # fmt: skip

    def _events(self, core: int, number: int) -> NDArray[np.int64]:
        count = self._library.tw_events(self._handle, core, number, None, 0)
        values = np.zeros(count, np.int64)
        self._library.tw_events(self._handle, core, number, values.ctypes.data, count)
        return values

    def open_wave(self, path: Path) -> None:
        """Write a waveform from here on. The library must have been built for the file's kind."""
        if not self._library.tw_wave_open(self._handle, str(path).encode()):
            raise ModelError(f"{path}: the waveform cannot be written")

    def close_wave(self) -> None:
        """Finish the waveform file."""
        self._library.tw_wave_close(self._handle)
