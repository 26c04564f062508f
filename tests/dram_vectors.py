"""Test vectors of the DRAM rule of the timing contract (``docs/timing.md``): when data and responses arrive.

The cycle model, the model around the Verilated design and the HLS device each implement the rule on their
own; the vectors here hold them together. All times are cycles, all lengths beats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ReadVector:
    """Read bursts in the order granted: when, how long, and when their first and last beats arrive."""

    latency: int
    grants: tuple[int, ...]
    lengths: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]


@dataclass(frozen=True)
class WriteVector:
    """Write bursts in order: the cycle of each one's last beat, and of its response."""

    latency: int
    last_beats: tuple[int, ...]
    responses: tuple[int, ...]


def read_times(grants: Sequence[int], lengths: Sequence[int], latency: int) -> list[tuple[int, int]]:
    """(first beat, last beat) of each burst: ``latency`` after its grant, behind the data of those before it."""
    times: list[tuple[int, int]] = []
    data_end = -1
    for grant, length in zip(grants, lengths, strict=True):
        first = max(grant + latency, data_end + 1)
        data_end = first + length - 1
        times.append((first, data_end))
    return times


def response_times(last_beats: Sequence[int], latency: int) -> list[int]:
    """The response of each write burst: ``latency`` after its last beat, one per cycle, in order."""
    times: list[int] = []
    for last in last_beats:
        times.append(max(last + latency, times[-1] + 1 if times else 0))
    return times


READ_VECTORS: tuple[ReadVector, ...] = (
    ReadVector(1, (1,), (1,), (2,), (2,)),
    ReadVector(32, (1,), (16,), (33,), (48,)),
    ReadVector(32, (1, 2, 3), (16, 16, 4), (33, 49, 65), (48, 64, 68)),  # data of back-to-back bursts has no gap
    ReadVector(7, (0, 20, 21), (4, 1, 8), (7, 27, 28), (10, 27, 35)),  # an idle bus waits for the latency again
    ReadVector(2, (5, 6, 7, 8), (1, 1, 1, 1), (7, 8, 9, 10), (7, 8, 9, 10)),
    ReadVector(200, (1, 2, 150), (256, 2, 3), (201, 457, 459), (456, 458, 461)),
)

WRITE_VECTORS: tuple[WriteVector, ...] = (
    WriteVector(1, (5,), (6,)),
    WriteVector(32, (20, 36, 52), (52, 68, 84)),
    WriteVector(64, (10, 11, 12), (74, 75, 76)),
    WriteVector(7, (3, 30), (10, 37)),
)
