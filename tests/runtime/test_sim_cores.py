"""The sim device of several cores, and inferences computed in several threads."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from tests.isa.build import INPUT
from tests.jit.builder import GraphBuilder
from tests.runtime.network import TINY, images, make_artifact, make_program
from tilewright.jit.compiler import compile_graph
from tilewright.runtime.device import DeviceFault
from tilewright.runtime.executable import Executable
from tilewright.runtime.report.console import print_report
from tilewright.runtime.sim_device import SimDevice
from tilewright.sim import Functional, Run, functional, initial_segments, simulate_cores


def test_threads_give_what_one_gives_where_scratch_is_shared() -> None:
    """A network too large for act spills to a segment that all inferences of a launch use."""
    b = GraphBuilder(0, (12, 64, 4), "spills")
    x = b.conv("x", 16)
    graph = b.graph(b.add(b.conv(b.conv(x, 16), 16), x))
    (program,) = compile_graph(graph, TINY).programs
    scratch = [k for k, s in enumerate(program.segments) if s.kind == "scratch"]
    table = program.table()
    assert set(scratch) & set(table["segment"][table["opcode"] == functional.STORE].tolist())
    (source,) = (k for k, s in enumerate(program.segments) if s.kind == "input")
    (target,) = (k for k, s in enumerate(program.segments) if s.kind == "output")
    inputs = np.random.default_rng(0).integers(0, 256, (12, program.segments[source].size), np.uint8)
    expected = []
    for row in inputs:
        segments = initial_segments(program)
        segments[source][:] = row
        Functional(program).run(segments)
        expected.append(segments[target])
    for jobs in (1, 5):
        device = SimDevice(TINY, jobs)
        allocation = device.allocate(program, 12)
        device.write_stack(allocation, source, 0, inputs)
        device.launch(allocation, 12)
        finished: list[int] = []
        device.wait(allocation, finished.append)
        found = device.read_stack(allocation, target, 12, 0, program.segments[target].size)
        assert np.array_equal(found, np.stack(expected))
        assert finished == [1] * 12


def test_kernels_hold_no_interpreter_lock() -> None:
    assert getattr(functional._run, "targetoptions")["nogil"] is True  # noqa: B009


def test_a_fault_in_threads_leaves_the_device_usable() -> None:
    device = SimDevice(TINY, 3)
    allocation = device.allocate(make_program(faulty=True), 6)
    device.launch(allocation, 6)
    with pytest.raises(DeviceFault, match="SEGMENT"):
        device.wait(allocation)
    good = device.allocate(make_program(), 6)
    device.write(good, INPUT, 0, 0, images(1).reshape(-1).view(np.uint8))
    device.launch(good, 6)
    device.wait(good)


@pytest.mark.parametrize("bandwidth", [0, 8, 13, 24])
def test_results_come_as_fast_as_all_cores_give_them(bandwidth: int) -> None:
    """Bytes and latency are those of one core; the rate is what the cores reach under the limit."""
    config, x = TINY.replace(cores=4, dram_bandwidth=bandwidth), images(10)
    one, alone = Executable(make_artifact()).run(x)
    y, report = Executable(make_artifact(), SimDevice(config)).run(x)
    assert all(np.array_equal(a, b) for a, b in zip(y, one))
    data = report.to_dict()
    assert (report.cycles, report.latency_ms, report.cores) == (alone.cycles, alone.latency_ms, 4)
    program = make_program()
    ran = simulate_cores(config, [Run(c, program) for c in range(4) for _ in range(2)])
    first, second = (max(r.end for r in ran[k::2]) for k in range(2))
    assert data["interval_cycles"] == (second - first) / 4 >= report.cycles / 4
    assert data["inferences_per_second"] == pytest.approx(1e6 * config.clock_mhz / data["interval_cycles"])
    assert data["with_host_per_second"] == pytest.approx(1e3 / (report.interval_ms + report.host_ms))
    held = data["interval_cycles"] > 1.01 * report.cycles / 4
    assert held == (bandwidth in (8, 13))
    assert held == any("4 cores give " in note and "dram_bandwidth" in note for note in report.notes)
    console = Console(file=io.StringIO(), width=120)
    print_report(report, console)
    assert "/s on 4 cores" in console.file.getvalue()  # type: ignore[attr-defined]


def test_one_core_gives_results_as_fast_as_it_runs() -> None:
    report = Executable(make_artifact()).run(images(2))[1]
    data = report.to_dict()
    assert (data["cores"], data["interval_cycles"]) == (1, report.cycles)
    assert data["inferences_per_second"] == pytest.approx(1e3 / report.latency_ms)
    assert not any("cores give" in note for note in report.notes)
