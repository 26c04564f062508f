"""The Device interface and the registry."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest

from tests.isa.build import CONSTANT, INPUT, OUTPUT
from tests.runtime.network import SHAPE, TINY, images, make_program, reference
from tilewright.config import PRESETS
from tilewright.isa.program import Segment
from tilewright.runtime.device import DeviceError, open_device
from tilewright.runtime.device_base import Allocation, fault
from tilewright.runtime.sim_device import SimDevice


def test_unknown_devices_are_told_what_exists() -> None:
    with pytest.raises(DeviceError, match="device gpu: no such device; available: sim"):
        open_device("gpu", TINY)
    assert isinstance(open_device("sim", TINY), SimDevice)


def test_a_batched_launch_gives_each_inference_its_own_segments() -> None:
    device, program, x = SimDevice(TINY), make_program(), images(4)
    allocation = device.allocate(program, 4)
    for k in range(4):
        device.write(allocation, INPUT, k, 0, x[k].reshape(-1).view(np.uint8))
    device.launch(allocation, 4)
    finished: list[int] = []
    device.wait(allocation, finished.append)
    assert finished == [1, 1, 1, 1]
    conv, scale = reference(x)
    for k in range(4):
        out = device.read(allocation, OUTPUT, k, 0, 64).view(np.int8).reshape(2, *SHAPE[1:])
        assert np.array_equal(out[0], scale[k])
        assert np.array_equal(out[1], conv[k])
    counters = device.counters(allocation)
    assert counters.cycles > 0
    assert counters.write_bytes == 64
    assert counters.events is not None
    assert len(counters.events.retire) == program.instruction_count
    device.release(allocation)
    with pytest.raises(DeviceError, match="the segments have been released"):
        device.launch(allocation, 1)


def test_bounds_are_exact() -> None:
    device, program = SimDevice(TINY), make_program()
    allocation, size, last = device.allocate(program, 2), program.segments[INPUT].size, len(program.segments) - 1
    for segment, inference, offset, count in ((INPUT, 0, 0, size), (INPUT, 1, size - 1, 1), (last, 0, 0, 1)):
        assert len(device.read(allocation, segment, inference, offset, count)) == count
    for segment, inference, offset, count, message in (
        (INPUT, 0, 0, size + 1, "lie outside segment"), (INPUT, 0, size, 1, "lie outside segment"),
        (INPUT, 0, -1, 1, "lie outside segment"), (INPUT, 2, 0, 1, "of inference 2"), (INPUT, -1, 0, 1, "inference -1"),
        (last + 1, 0, 0, 1, f"no segment {last + 1}"), (-1, 0, 0, 1, "no segment -1"),
    ):  # fmt: skip
        with pytest.raises(DeviceError, match=message):
            device.read(allocation, segment, inference, offset, count)
    for inferences, message in ((0, "inferences = 0: must be an integer"), (3, "3 inferences: segments are .* for 2")):
        with pytest.raises(DeviceError, match=message):
            device.launch(allocation, inferences)
    with pytest.raises(DeviceError, match="inferences = 0: must be an integer from 1"):
        device.allocate(program, 0)


def test_as_many_segments_as_the_config_has() -> None:
    program = make_program()
    most = TINY.segments - len(program.segments)
    for more in (most, most + 1):
        extra = tuple(Segment(f"s{k}", "scratch", 64) for k in range(more))
        wide = dataclasses.replace(program, segments=program.segments + extra)
        if more == most:
            SimDevice(TINY).allocate(wide, 1)
        else:
            with pytest.raises(DeviceError, match=f"{TINY.segments + 1} segments, the config has {TINY.segments}"):
                SimDevice(TINY).allocate(wide, 1)


def test_the_reference_values_are_not_degenerate() -> None:
    conv, scale = reference(images(4))
    assert len(np.unique(conv)) > 40
    assert len(np.unique(scale)) > 40


def test_constants_reach_their_segment() -> None:
    device, program = SimDevice(TINY), make_program()
    allocation = device.allocate(program, 2)
    data = program.segments[CONSTANT].data
    assert data is not None
    for k in range(2):
        assert device.read(allocation, CONSTANT, k, 0, len(data)).tobytes() == data


def test_misuse_is_refused() -> None:
    device, program = SimDevice(TINY), make_program()
    with pytest.raises(DeviceError, match=r"another config than the device \(block_in: 4 != 16"):
        SimDevice(PRESETS["pynq-z2"]).allocate(program, 1)
    with pytest.raises(DeviceError, match="inferences = 0: must be an integer from 1"):
        device.allocate(program, 0)
    fixed = dataclasses.replace(
        program, segments=tuple(dataclasses.replace(s, repeat_stride=0) for s in program.segments)
    )
    with pytest.raises(DeviceError, match="segment x has no repeat stride"):
        device.allocate(fixed, 2)
    allocation = device.allocate(program, 2)
    with pytest.raises(DeviceError, match="segments are allocated for 2"):
        device.launch(allocation, 3)
    with pytest.raises(DeviceError, match="no launch has finished"):
        device.counters(allocation)
    with pytest.raises(DeviceError, match=r"bytes 16380\.\.16388 lie outside segment x of 16384"):
        device.read(allocation, INPUT, 0, 16380, 8)
    with pytest.raises(DeviceError, match="no segment 9 of inference 0"):
        device.read(allocation, 9, 0, 0, 8)


def test_the_board_side_imports_only_numpy() -> None:
    import subprocess

    code = (
        "import sys, tilewright, tilewright.isa, tilewright.runtime.executable, tilewright.runtime.report.trace\n"
        "bad = {'tvm', 'numba', 'rich', 'typer', 'onnx', 'tflite'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(bad)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_results_that_cannot_repeat_are_refused_too() -> None:
    program = make_program()
    for name, kind in (("x", "input"), ("y", "output")):
        segments = tuple(
            dataclasses.replace(s, repeat_stride=0, name=name) if s.kind == kind else s for s in program.segments
        )
        fixed = dataclasses.replace(program, segments=segments)
        with pytest.raises(DeviceError, match=f"segment {name} has no repeat stride"):
            SimDevice(TINY).allocate(fixed, 2)
        SimDevice(TINY).allocate(fixed, 1)


def test_counters_are_those_of_a_launch_that_has_ended() -> None:
    device = SimDevice(TINY)
    allocation = device.allocate(make_program(), 1)
    for _ in range(2):
        device.launch(allocation, 1)
        with pytest.raises(DeviceError, match="no launch has finished"):
            device.counters(allocation)
        device.wait(allocation)
        assert device.counters(allocation).cycles > 0
    with pytest.raises(DeviceError, match="nothing has been launched"):
        device.wait(allocation)


class Noted(SimDevice):
    """One core, which notes what is asked of it."""

    def __init__(self) -> None:
        super().__init__(TINY)
        self.asked: list[str] = []

    def _cancel(self, allocation: Allocation) -> None:
        self.asked.append(f"cancel with {allocation.pending} pending")

    def _release(self, allocation: Allocation) -> None:
        self.asked.append("release")


def test_a_launch_that_nobody_waits_for_is_ended_before_its_segments_go() -> None:
    device = Noted()
    allocation = device.allocate(make_program(), 2)
    device.launch(allocation, 2)
    device.release(allocation)
    device.release(allocation)
    assert device.asked == ["cancel with 0 pending", "release"]
    other = device.allocate(make_program(), 1)
    device.launch(other, 1)
    device.wait(other)
    device.release(other)
    assert device.asked[2:] == ["release"]


def test_of_programs_one_after_another_the_last_says_that_an_inference_is_done() -> None:
    device, finished = SimDevice(TINY), list[int]()
    allocations = [device.allocate(make_program(), 2) for _ in range(3)]
    device.run_together(allocations, 2, finished.append)
    assert finished == [1, 1]
    assert not any(device.counters(allocation).together for allocation in allocations)


def test_a_fault_names_the_layer_of_its_instruction() -> None:
    device, program = SimDevice(TINY), make_program()
    count = program.instruction_count
    owned = program.meta["instruction_layer"]
    assert {owned[0], owned[count - 2]} == {0, 1}
    for instruction, layer in ((0, "conv"), (count - 2, "scale"), (count - 1, "conv")):
        found = fault(device, program, "BUS_ERROR", instruction, "no answer")
        assert (found.instruction, found.layer) == (instruction, layer)
        assert str(found) == f"sim device: fault BUS_ERROR at instruction {instruction} of layer {layer}: no answer"
    for unknown in (None, -1, count):
        found = fault(device, program, "BUS_ERROR", unknown)
        assert (found.instruction, found.layer, str(found)) == (None, None, "sim device: fault BUS_ERROR")
    of_none = dataclasses.replace(program, meta={**program.meta, "instruction_layer": [-1] * (count - 1)})
    for instruction in (count - 2, count - 1):
        assert fault(device, of_none, "BUS_ERROR", instruction).layer is None


def test_memory_that_is_not_there_is_told_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    program, device = make_program(), SimDevice(TINY)

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(device, "_allocate", full)
    size = sum(s.size if not s.repeat_stride else 3 * s.size for s in program.segments)
    with pytest.raises(DeviceError, match=f"sim device: there is no memory for {size:,} bytes of segments"):
        device.allocate(program, 3)
