"""What the host spends on a launch of the pynq device, besides DMA: run ``python -m bench.bench_launch``.

The registers are a plain array of words, as ``MMIO.array`` is on a board, that always says "done"; flush and
invalidate do nothing. What is left is the driver's own work: writing the registers, looking at STATUS, reading the
counters. The way of an interrupt through PYNQ's event loop is measured apart: a launch that has ended when STATUS is
first looked at does not take it.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import machine, seconds
from tilewright.config import PRESETS, Config
from tilewright.isa.registers import ID_VALUE, Status, offsets
from tilewright.runtime.pynq.interrupt import InterruptLine
from tilewright.runtime.pynq.manifest import Manifest
from tilewright.runtime.pynq_device import PynqDevice
from tilewright.runtime.selftest import programs

LIMIT_SECONDS = 50e-6


class Buffer(np.ndarray):  # NumPy 1.21 has no arguments for it
    """A contiguous buffer whose cache needs no maintenance."""

    device_address = 1 << 28

    def flush(self) -> None: ...

    def invalidate(self) -> None: ...

    def freebuffer(self) -> None: ...


class InstantBoard:
    """Stands for the ``pynq`` package: every program has ended when it is looked at."""

    def __init__(self, config: Config) -> None:
        at = {name: offset // 4 for name, offset in offsets(config).items()}
        self.array = np.zeros(1024, np.uint32)
        self.array[at["ID"]] = ID_VALUE
        self.array[at["FINGERPRINT_LOW"]] = int(config.fingerprint[8:], 16)
        self.array[at["FINGERPRINT_HIGH"]] = int(config.fingerprint[:8], 16)
        self.array[at["STATUS"]] = 1 << Status.DONE
        self.ip_dict = {"tilewright_0": {"phys_addr": 0, "addr_range": 4096}}
        self.interrupt_pins: dict[str, Any] = {"tilewright_0/irq": {}}

    def Overlay(self, path: str, download: bool) -> InstantBoard:
        return self

    def MMIO(self, base: int, length: int) -> InstantBoard:
        return self

    def Interrupt(self, pin: str) -> InstantBoard:
        return self

    async def wait(self) -> None:
        await asyncio.sleep(0)

    def allocate(self, shape: tuple[int, ...], dtype: str, cacheable: int) -> Buffer:
        return np.zeros(shape, dtype).view(Buffer)


def measure(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median and 99th percentile of one call, in seconds."""
    times = seconds(work, repeats)
    return statistics.median(times), statistics.quantiles(times, n=100)[98]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="pynq-z2", choices=sorted(PRESETS))
    parser.add_argument("--repeats", type=int, default=5000)
    options = parser.parse_args()
    config = PRESETS[options.config]
    board = InstantBoard(config)
    device = PynqDevice(config, Manifest(Path("instant.bit"), config), pynq=board)
    case, other = programs.gemm(config, 4), programs.copy(config, 1)
    allocation, second = device.allocate(case.program, 4), device.allocate(other.program, 1)

    def launch() -> None:
        device.launch(allocation, 4)
        device.wait(allocation)
        device.counters(allocation)

    def with_data() -> None:
        device.write_stack(allocation, programs.INPUT, 0, case.inputs)
        launch()
        device.read_stack(allocation, programs.OUTPUT, 4, 0, case.outputs.shape[1])

    def alternating() -> None:
        launch()
        device.launch(second, 1)
        device.wait(second)
        device.counters(second)

    line = InterruptLine(board, "tilewright_0/irq")
    print(f"{machine()}, Python {platform.python_version()}, NumPy {np.__version__}")
    rows = (
        ("launch, wait, counters", launch),
        ("the same, inputs and outputs of 4 inferences copied", with_data),
        ("two launches of two programs in turn", alternating),
        ("an interrupt through the event loop", lambda: line.wait(1.0)),
    )
    for name, work in rows:
        median, worst = measure(work, options.repeats)
        print(f"{name:<54}{median * 1e6:8.1f} us  (99 %: {worst * 1e6:.1f} us)")
    held = measure(launch, options.repeats)[0] <= LIMIT_SECONDS
    print(f"limit {LIMIT_SECONDS * 1e6:.0f} us a launch: {'held' if held else 'NOT held'}")


if __name__ == "__main__":
    main()
