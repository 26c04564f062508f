"""What is probably wrong, from what a self-test saw: written for whoever stands before the board."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.runtime.device_base import DeviceError, DeviceFault

Bytes = NDArray[np.uint8]

HALF_PORT = (
    "the memory port moves 32 of its bits only: set the port's width in the block design to the bus width, and on "
    "Zynq-7000 boot with a first-stage loader that leaves AFI 32BitEn at 0"
)
NOT_FLUSHED = "the accelerator reads what memory held before: the cache is not flushed (PynqBuffer.flush)"
NOT_THERE = (
    "what it wrote does not reach the processor: the cache is not invalidated (PynqBuffer.invalidate), the memory port "
    "is not enabled, or it is connected to another memory"
)
READS_ZEROS = (
    "LOAD returned zeros: the cache is not flushed, the memory port is not enabled, or its address range does not "
    "cover the processor's memory"
)
FETCHED_RUBBISH = (
    "the accelerator does not see the program: the cache is not flushed, the memory port's width differs from the bus "
    "width, or its address range does not cover the processor's memory"
)
BUS_ERROR = (
    "memory answers with errors: assign the whole of the processor's memory to the accelerator's port in the block "
    "design's address editor"
)
NEVER_ENDS = (
    "it neither ends nor faults: clock and reset of the accelerator, or a memory port that never answers; look at the "
    "clock of the port and at its enable"
)


def wrong_bytes(found: Bytes, expected: Bytes, previous: Bytes | None = None, beat: int = 8) -> str:
    """The cause of ``found`` where ``expected`` should be. ``previous``: what an earlier run left in its place."""
    differing = np.flatnonzero(found != expected)
    where = f"{differing.size} of {found.size} bytes differ, the first at byte {differing[0]}"
    if not found.any():
        return f"{where}: all are zero; {NOT_THERE}"
    if previous is not None and previous.size == found.size and (found == previous).all():
        return f"{where}: they are those of the run before; {NOT_FLUSHED}"
    if beat > 4 and set((differing % beat // 4).tolist()) == {1}:
        return f"{where}: the upper words of beats; {HALF_PORT}"
    flipped = np.bitwise_or.reduce(found[differing] ^ expected[differing])
    if flipped & (flipped - 1) == 0:
        lanes = sorted(set((differing % beat).tolist()))
        return (
            f"{where}: always bit {int(flipped).bit_length() - 1}, byte lanes {', '.join(map(str, lanes))} of a beat; "
            "a data line of the port fails timing or is not connected; look at the timing report and lower the clock"
        )
    return f"{where} ({found[differing[0]]:#04x} for {expected[differing[0]]:#04x})"


def failed_run(error: DeviceError | DeviceFault) -> str:
    """The cause of a program that did not end well."""
    if not isinstance(error, DeviceFault):
        return f"{error}; {NEVER_ENDS}"
    advice = {"BUS": BUS_ERROR, "ILLEGAL": FETCHED_RUBBISH, "SEGMENT": FETCHED_RUBBISH, "WATCHDOG": NEVER_ENDS}
    return f"{error}; {advice.get(error.code, 'no such fault is known: is the bitstream of this version?')}"


def slow_port(rate: float, beat: int, reachable: float) -> str:
    """Why a port moves ``rate`` of ``beat`` bytes a cycle, where ``reachable`` are expected."""
    said = f"bandwidth {rate:.1f} of {beat} B/cycle"
    if 0.4 * beat <= rate <= 0.6 * beat:
        return f"{said}: HP port in 32-bit mode, or its clock at half of the accelerator's?"
    return (
        f"{said}, {reachable:.1f} are within reach: memory answers later than the bursts in flight can cover (raise "
        "outstanding or burst_beats in the config), or others use it (stop other programs and the display)"
    )


def bad_register(name: str, written: int, read: int, bits: int) -> str:
    """The cause of a register that does not hold what is written to it."""
    said = f"{name} holds {read:#x} after {written:#x} was written"
    if read == 0 and written:
        return f"{said}: writes do not arrive; look at the write channel of the control port"
    wrong = read ^ written
    return f"{said}: bits {', '.join(str(k) for k in range(bits) if wrong >> k & 1)} are stuck or crossed"


def wrong_clock(found: float, expected: float) -> str:
    """Why the clock runs at another rate than the overlay is built for, in MHz."""
    said = f"the clock runs at {found:.1f} MHz, the overlay is built for {expected:.1f}"
    if found > expected:
        return f"{said}: too fast, results may be wrong; load the overlay with its own .hwh, which sets the clock"
    return f"{said}: cycles are right, seconds are not; another program has set it (pynq.Clocks), or the .hwh is old"
