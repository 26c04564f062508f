"""DRAM behind the AXI master: regions of bytes, random latency and pauses, error responses where asked for."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiBus, AxiSlaveRead, AxiSlaveWrite
from cocotbext.axi.axi_channels import AxiARSink, AxiAWSink
from numpy.typing import NDArray

__all__ = ["CHANNELS", "DECERR", "OKAY", "SLVERR", "Dram", "Failure", "Region"]

OKAY, SLVERR, DECERR = 0, 2, 3
CHANNELS = ("ar", "r", "aw", "w", "b")
TAKEN_AHEAD = 1024  #: addresses and beats that are taken before they are served: the accelerator sets the limit
POISON = 0xA5  #: what comes with an error response must not be used


@dataclass(frozen=True)
class Region:
    """Bytes at an address, used in place. ``kind``: program, constant, input, output or scratch."""

    base: int
    data: NDArray[np.uint8]
    kind: str

    def holds(self, address: int, size: int) -> bool:
        """Whether all of the bytes lie in it."""
        return self.base <= address and address + size <= self.base + self.data.size


@dataclass(frozen=True)
class Failure:
    """The ``burst``-th (from 0) burst of ``what`` (fetch, load or store) is answered with ``response``."""

    what: str
    burst: int
    response: int = SLVERR


class Dram:
    """Slave models of cocotbext-axi at the master whose signals begin with ``prefix``, with this class as their target.

    ``latency``: cycles before a burst's first beat or response, drawn from 0 .. latency. ``pauses``: chance
    per channel and cycle that it stands still. An access outside the regions is answered with DECERR.
    """

    def __init__(self, dut: Any, seed: int, prefix: str) -> None:
        self.clock = dut.clk
        self.random = random.Random(seed)
        self.regions: list[Region] = []
        self.latency = 0
        self.failure: Failure | None = None
        self.failed = 0  #: error responses given
        self.bursts = {"fetch": 0, "load": 0, "store": 0}
        self._read_first, self._write_first = True, True
        self._response = OKAY
        bus = AxiBus.from_prefix(dut, prefix.removesuffix("_"))
        for sink, name in ((AxiARSink, "ar"), (AxiAWSink, "aw")):  # made for AXI4's; AXI3's have 4 and 2 bits
            widths = {f"{name}{field}": len(getattr(dut, f"{prefix}{name}{field}")) for field in ("len", "lock")}
            sink._signal_widths = {**sink._signal_widths, **widths}
        self.reads = AxiSlaveRead(bus.read, dut.clk, dut.rst, target=self)
        self.writes = AxiSlaveWrite(bus.write, dut.clk, dut.rst, target=self)
        for channel in (self.reads.ar_channel, self.writes.aw_channel, self.writes.w_channel):
            channel.queue_occupancy_limit = TAKEN_AHEAD
        self._channels = {
            "ar": self.reads.ar_channel, "r": self.reads.r_channel, "aw": self.writes.aw_channel,
            "w": self.writes.w_channel, "b": self.writes.b_channel,
        }  # fmt: skip
        self._answer(self.reads.r_channel, "rresp", self._read_answered)
        self._answer(self.writes.b_channel, "bresp", self._write_answered)

    def _answer(self, channel: Any, field: str, response: Any) -> None:
        """The models answer OKAY; the response is put in on the way to the bus."""
        send = channel.send

        async def answered(item: Any) -> None:
            setattr(item, field, await response(item))
            await send(item)

        channel.send = answered

    def pause(self, **chances: float) -> None:
        """Let the named channels pause at random, and the others run."""
        for name, channel in self._channels.items():
            chance = chances.get(name, 0.0)
            if chance:
                channel.set_pause_generator(self._pauses(chance))
            else:
                channel.clear_pause_generator()
                channel.pause = False

    def _pauses(self, chance: float) -> Iterator[bool]:
        while True:
            yield self.random.random() < chance

    def begin(self, regions: list[Region]) -> None:
        """Another run begins: what DRAM holds from now on; bursts are counted from 0."""
        self.regions = regions
        self.bursts = dict.fromkeys(self.bursts, 0)
        self.failed = 0

    def restart(self) -> None:
        """The bus was reset in the middle of whatever went on."""
        self._read_first, self._write_first = True, True
        self._response = OKAY

    # -- what the slave models ask ---------------------------------------------------------------------

    def _find(self, address: int, size: int) -> Region | None:
        return next((r for r in self.regions if r.holds(address, size)), None)

    def _asked(self, what: str) -> int:
        """The response that a burst gets if its address is good, and the count of one more burst."""
        number = self.bursts[what]
        self.bursts[what] += 1
        f = self.failure
        return f.response if f is not None and (f.what, f.burst) == (what, number) else OKAY

    async def read(self, address: int, size: int) -> bytes:
        """One beat of a read burst."""
        region = self._find(address, size)
        if self._read_first:
            self._read_first = False
            self._read_response = self._asked("fetch" if region is not None and region.kind == "program" else "load")
            await self._wait()
        if region is None or self._read_response != OKAY:
            self._beat_response = self._read_response if region is not None else DECERR
            return bytes([POISON]) * size
        self._beat_response = OKAY
        start = address - region.base
        return region.data[start : start + size].tobytes()

    async def _read_answered(self, beat: Any) -> int:
        self._read_first = bool(beat.rlast)
        self.failed += self._beat_response != OKAY
        return self._beat_response

    async def write(self, address: int, data: bytes) -> None:
        """Bytes of a write burst."""
        if self._write_first:
            self._write_first = False
            self._response = self._asked("store")
        region = self._find(address, len(data))
        if region is None or region.kind not in ("output", "scratch"):
            self._response = DECERR
        elif self._response == OKAY:
            start = address - region.base
            region.data[start : start + len(data)] = np.frombuffer(data, np.uint8)

    async def _write_answered(self, _: Any) -> int:
        await self._wait()
        response, self._response, self._write_first = self._response, OKAY, True
        self.failed += response != OKAY
        return response

    async def _wait(self) -> None:
        cycles = self.random.randint(0, self.latency) if self.latency else 0
        if cycles:
            await ClockCycles(self.clock, cycles)
