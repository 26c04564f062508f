"""The AXI4-Lite register map, declared once as data: RTL, driver and docs are derived from it.

All registers are 32 bits. Writes to read-only or unknown addresses are ignored; unknown addresses read 0.
While a program runs, only CONTROL may be written.

A design of several cores has the whole map once for each, :data:`CORE_STRIDE` bytes apart from core 0 at 0 on, and
:data:`SHARED` behind the place of the last core that a design may have, so that nothing moves with their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from tilewright.config import Config
from tilewright.isa.spec import MOST_CORES, Engine, others

ADDRESS_BITS = 12  #: bytes of a core's register window: 4 KiB
CORE_STRIDE = 1 << ADDRESS_BITS  #: bytes from a register of a core to that of the next one
DRAM_ADDRESS_BITS = 40  #: width of a DRAM byte address on the AXI4 master
TAG_BITS = 24  #: width of an instruction index in FAULT_INSTRUCTION and the trace FIFO
TRACE_DEPTH = 256  #: entries of the trace FIFO; further ones are dropped and counted
ID_VALUE = 0x54575231  #: "TWR1"


class FaultCode(IntEnum):
    """Why a program was ended; 0 in FAULT_CODE means none."""

    SEGMENT = 1  #: a LOAD or STORE reaches outside its segment
    ILLEGAL = 2  #: an instruction does not decode
    WATCHDOG = 3  #: not done in time, or never (tokens that nobody sends)
    BUS = 4  #: the DRAM answered a read or write with an error


class Control(IntEnum):
    """Bits of CONTROL; each acts once when written as 1."""

    START = 0  #: run the program REPEAT times
    ABORT = 1  #: end the run with fault WATCHDOG, as the watchdog does
    ACKNOWLEDGE = 2  #: clear DONE, FAULT and the interrupt


class Status(IntEnum):
    """Bits of STATUS."""

    BUSY = 0  #: a run is under way
    DONE = 1  #: the last run has ended, with or without a fault
    FAULT = 2  #: the last run ended with a fault


@dataclass(frozen=True)
class Register:
    """One 32-bit register. ``bits``: how many of them are used."""

    name: str
    offset: int
    access: Literal["rw", "ro", "wo"]
    doc: str
    bits: int = 32


SEGMENT_BASE, SEGMENT_SPACING = 0x200, 0x20
COUNTER_BASE, COUNTER_SPACING = 0x100, 0x40

GLOBAL: tuple[Register, ...] = (
    Register("ID", 0x000, "ro", "0x54575231"),
    Register("FINGERPRINT_LOW", 0x004, "ro", "low half of the config fingerprint"),
    Register("FINGERPRINT_HIGH", 0x008, "ro", "high half of the config fingerprint"),
    Register("CONTROL", 0x010, "wo", "start, abort, acknowledge; see Control", bits=3),
    Register("STATUS", 0x014, "ro", "busy, done, fault; see Status", bits=3),
    Register("FAULT_CODE", 0x018, "ro", "see FaultCode; 0 for none", bits=3),
    Register("FAULT_INSTRUCTION", 0x01C, "ro", "index of the faulting instruction; all ones if none", bits=TAG_BITS),
    Register("PROGRAM_LOW", 0x020, "rw", "byte address of the program, a multiple of 4096"),
    Register("PROGRAM_HIGH", 0x024, "rw", "its upper bits", bits=DRAM_ADDRESS_BITS - 32),
    Register("PROGRAM_INSTRUCTIONS", 0x028, "rw", "instructions in the program", bits=TAG_BITS),
    Register("PROGRAM_BEATS", 0x02C, "rw", "AXI beats of the program, the last one whole", bits=TAG_BITS + 4),
    Register("REPEAT", 0x030, "rw", "inferences per start, at least 1", bits=16),
    Register("WATCHDOG", 0x034, "rw", "cycle at which an unfinished inference ends with a fault; 0: never"),
    Register("INTERRUPT_ENABLE", 0x038, "rw", "1: irq follows STATUS.DONE", bits=1),
    Register("COMPLETED", 0x03C, "ro", "inferences completed since start", bits=16),
    Register("CYCLES_LOW", 0x040, "ro", "cycles of the latest inference"),
    Register("CYCLES_HIGH", 0x044, "ro", "upper half"),
    Register("FETCH_BEATS", 0x048, "ro", "DRAM beats requested as instructions, latest inference"),
    Register("LOAD_BEATS", 0x04C, "ro", "DRAM beats requested by LOAD, latest inference"),
    Register("STORE_BEATS", 0x050, "ro", "DRAM beats written, latest inference"),
    Register("TRACE_COUNT", 0x060, "ro", "entries in the trace FIFO", bits=16),
    Register("TRACE_DROPPED", 0x064, "ro", "entries that found it full", bits=16),
    Register("TRACE_TAG", 0x068, "ro", "oldest entry: instruction index", bits=TAG_BITS),
    Register("TRACE_CYCLE", 0x06C, "ro", "oldest entry: retire cycle; reading it removes the entry"),
)

SHARED_BASE = CORE_STRIDE * MOST_CORES
#: registers that a design of several cores has once, for all of them
SHARED: tuple[Register, ...] = (
    Register("CORES", SHARED_BASE, "ro", "how many cores there are", bits=4),
    Register("INTERRUPTS", SHARED_BASE + 4, "ro", "bit c: core c interrupts; irq is high if any does", bits=8),
    Register("DOORBELLS", SHARED_BASE + 8, "rw", "bit c: core c has doorbells to hear; any write forgets all", bits=8),
)


def window_bits(config: Config) -> int:
    """Address bits of a design's whole register window: all cores, and what they share."""
    return ADDRESS_BITS if config.cores == 1 else (2 * SHARED_BASE - 1).bit_length()


def segment_registers(index: int) -> tuple[Register, ...]:
    """The registers of one DRAM segment."""
    at = SEGMENT_BASE + index * SEGMENT_SPACING
    return (
        Register(f"SEGMENT{index}_BASE_LOW", at, "rw", "byte address, a multiple of 4096"),
        Register(f"SEGMENT{index}_BASE_HIGH", at + 4, "rw", "its upper bits", bits=DRAM_ADDRESS_BITS - 32),
        Register(f"SEGMENT{index}_LIMIT", at + 8, "rw", "size in AXI beats"),
        Register(f"SEGMENT{index}_STRIDE", at + 12, "rw", "bytes added to the base per inference, a multiple of 4096"),
    )


def counter_names(engine: Engine) -> tuple[str, ...]:
    """Counters of an engine, in address order; each cycle of it falls under one of the first six after the first."""
    waits = tuple(f"WAIT_{other.name}" for other in others(engine))
    return ("INSTRUCTIONS", "BUSY", "EMPTY", *waits, "DRAIN", "BUS", "OUTSTANDING")


def counter_registers(engine: Engine) -> tuple[Register, ...]:
    """The counters of one engine; they hold the latest inference."""
    at = COUNTER_BASE + int(engine) * COUNTER_SPACING
    return tuple(
        Register(f"{engine.name}_{name}", at + 4 * k, "ro", "cycles" if k else "instructions issued")
        for k, name in enumerate(counter_names(engine))
    )


def register_map(config: Config) -> tuple[Register, ...]:
    """Every register of a core, by offset in its window."""
    counters = tuple(r for engine in Engine for r in counter_registers(engine))
    segments = tuple(r for k in range(config.segments) for r in segment_registers(k))
    return tuple(sorted(GLOBAL + counters + segments, key=lambda r: r.offset))


def offsets(config: Config, core: int = 0) -> dict[str, int]:
    """Byte offset of every register of a core by name, and of those that the cores share."""
    own = {r.name: core * CORE_STRIDE + r.offset for r in register_map(config)}
    return own | {r.name: r.offset for r in SHARED if config.cores > 1}
