"""The HLS kernels, natively executed: every byte of every segment equal to the simulator's.

``make test`` runs a few dozen random programs on small configs, ``make test-all`` 2,000 on 20. What native
execution cannot show is in ``docs/hls.md``.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from tests.conftest import REPOSITORY, ModelCase
from tests.hw.hls_programs import begin, finish
from tests.hw.lane_programs import function_program, scaling_program, table_program
from tests.isa.build import ALU, GEMM, LOAD, OUTPUT, PAIRED, TINY, Builder
from tests.runtime.network import images, make_artifact, make_program
from tests.verification.random_program import random_config, random_program, random_segments
from tilewright.config import PRESETS, Config
from tilewright.hw.hls import build
from tilewright.hw.hls.build import WARNINGS, build_library, compile_kernels
from tilewright.hw.hls.header import config_header, constants
from tilewright.hw.verilated.toolchain import ToolError
from tilewright.isa.functions import AluOp
from tilewright.isa.program import Program
from tilewright.isa.spec import FORMATS, HEADER
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.runtime.device import DeviceError, DeviceFault, open_device
from tilewright.runtime.executable import Executable
from tilewright.runtime.hls_device import HlsDevice
from tilewright.runtime.report.console import print_report
from tilewright.runtime.report.html import render_html
from tilewright.sim import simulate

#: between them: batch, both kinds of non-square blocks, narrow weights, two bus widths
QUICK_SEEDS = (11, 22, 37)
QUICK_PROGRAMS, FULL_PROGRAMS, FULL_CONFIGS = 15, 100, 20
PROGRAM_SIZE = 24

Segments = list[NDArray[np.uint8]]


@pytest.fixture(scope="module")
def tiny(hls_toolchain: None) -> HlsDevice:
    return HlsDevice(TINY)


def on_hls(device: HlsDevice, program: Program, segments: Segments) -> Segments:
    """All segments after a run that found ``segments`` in DRAM."""
    allocation = device.allocate(program, 1)
    for number, content in enumerate(segments):
        device.write(allocation, number, 0, 0, content)
    device.launch(allocation, 1)
    device.wait(allocation)
    found = [device.read(allocation, number, 0, 0, content.size) for number, content in enumerate(segments)]
    device.release(allocation)
    return found


def on_sim(program: Program, segments: Segments) -> Segments:
    expected = [content.copy() for content in segments]
    assert simulate(program, expected).fault is None
    return expected


def same_as_sim(device: HlsDevice, program: Program) -> None:
    segments = random_segments(np.random.default_rng(0), program)
    for mine, theirs in zip(on_hls(device, program, segments), on_sim(program, segments)):
        np.testing.assert_array_equal(mine, theirs)


def seeded_config(seed: int) -> Config:
    return random_config(np.random.default_rng(seed)).replace(name=f"random-{seed}")


def failures(config: Config, programs: range) -> list[str]:
    """Differences on random programs, told by their seeds and the segment."""
    device = HlsDevice(config)
    found = []
    for seed in programs:
        rng = np.random.default_rng(seed)
        program = random_program(rng, config, PROGRAM_SIZE)
        segments = random_segments(rng, program)
        for spec, mine, theirs in zip(program.segments, on_hls(device, program, segments), on_sim(program, segments)):
            if wrong := int((mine != theirs).sum()):
                found.append(f"{config.name}, program seed {seed}: {wrong} bytes of {spec.name} differ")
    device.close()
    return found


@pytest.mark.parametrize("function", list(AluOp))
@pytest.mark.parametrize("use_imm", [0, 1])
def test_functions_of_extreme_values(tiny: HlsDevice, function: AluOp, use_imm: int) -> None:
    same_as_sim(tiny, function_program(function, use_imm))


@pytest.mark.parametrize("seed", range(4))
def test_scaling_of_extreme_values(tiny: HlsDevice, seed: int) -> None:
    same_as_sim(tiny, scaling_program(seed))


def test_tables_of_all_values(tiny: HlsDevice) -> None:
    same_as_sim(tiny, table_program(TINY)[0])


@pytest.mark.parametrize("config_seed", QUICK_SEEDS)
def test_random_programs_leave_the_bytes_that_sim_leaves(hls_toolchain: None, config_seed: int) -> None:
    assert failures(seeded_config(config_seed), range(QUICK_PROGRAMS)) == []


@pytest.mark.parametrize("burst", [PAIRED.burst_beats, 1])
def test_two_memory_ports_leave_the_bytes_that_sim_leaves(hls_toolchain: None, burst: int) -> None:
    assert failures(PAIRED.replace(burst_beats=burst), range(QUICK_PROGRAMS)) == []


@pytest.mark.slow
@pytest.mark.parametrize("config_seed", range(FULL_CONFIGS))
def test_random_programs_in_full(hls_toolchain: None, config_seed: int) -> None:
    assert failures(seeded_config(config_seed), range(1000, 1000 + FULL_PROGRAMS)) == []


def test_reads_as_the_synthesis_tool_sees_them(hls_toolchain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bank's port is read in every iteration, the banks that are not meant at their spare row."""
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-DTW_READ_EVERY_BANK"))
    assert failures(seeded_config(QUICK_SEEDS[1]), range(QUICK_PROGRAMS)) == []


# -- what random programs seldom hit: dependences at the least distance that is allowed --------------------


def close_gemm(distance: int) -> Program:
    """``distance`` accumulators in turn, so that each is taken up again ``distance`` cycles later."""
    b = Builder(TINY)
    begin(b)
    b.gemm(count=distance, inner=6, src_inner=1, pop=[LOAD], push=[ALU])
    b.wait(ALU, pop=[LOAD, GEMM])
    return finish(b)


#: with pace, the first operand is read an iteration ahead: what was written eight vectors before, in a chain
CHAIN = {"src": 0, "src_inner": 8, "dst": 8, "dst_inner": 8, "inner": 3}


def close_alu(pace: int, **operand: Any) -> Program:
    """Sums taken up again after exactly the ALU's distance."""
    b = Builder(TINY)
    begin(b)
    b.wait(GEMM, pop=[LOAD], push=[ALU])
    b.wait(ALU, pop=[LOAD, GEMM])
    b.alu(**{"inner": 4, **operand}, count=ALU_DISTANCE // (1 + pace), function=int(AluOp.ADD), pace=pace)
    return finish(b)


def outcome(device: HlsDevice, program: Program) -> tuple[bytes, bytes]:
    """The output segment on the device and on the simulator."""
    segments = random_segments(np.random.default_rng(0), program)
    return on_hls(device, program, segments)[OUTPUT].tobytes(), on_sim(program, segments)[OUTPUT].tobytes()


@pytest.mark.parametrize("distance", range(1, 8))
def test_accumulation_at_every_distance(tiny: HlsDevice, distance: int) -> None:
    found, expected = outcome(tiny, close_gemm(distance))
    assert found == expected


@pytest.mark.parametrize(
    ("pace", "operand"),
    [
        (0, {"use_imm": 1, "imm": 3}),
        (1, {"use_imm": 1, "imm": 3}),
        (0, {"src": TINY.acc_bank_units}),
        (1, {"src": TINY.acc_bank_units}),
        (1, CHAIN),
    ],
)
def test_alu_dependences_at_the_least_distance(tiny: HlsDevice, pace: int, operand: dict[str, int]) -> None:
    found, expected = outcome(tiny, close_alu(pace, **operand))
    assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("promise", "broken", "program"),
    [
        ("TW_FORWARD 4", "TW_FORWARD 3", close_gemm(4)),
        ("TW_ALU_DISTANCE 15", "TW_ALU_DISTANCE 17", close_alu(0, use_imm=1, imm=3)),
        ("TW_ALU_DISTANCE 15", "TW_ALU_DISTANCE 16", close_alu(1, **CHAIN)),
    ],
)
def test_a_dependence_promise_that_does_not_hold_shows(
    hls_toolchain: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, promise: str, broken: str, program: Program
) -> None:
    """The native build delays writes of acc as far as the DEPENDENCE pragmas allow the tool to."""

    def header(config: Config) -> str:
        text = config_header(config)
        assert promise in text
        return text.replace(promise, broken)

    monkeypatch.setattr(build, "config_header", header)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    found, expected = outcome(HlsDevice(TINY), program)
    assert found != expected


# -- the generated header ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_the_header_places_every_field_as_the_declaration_does(name: str) -> None:
    config = PRESETS[name]
    text = config_header(config)
    start = sum(f.bits(config) for f in HEADER)
    for fmt in FORMATS:
        body = text.partition(f"decode_{fmt.opcode.name.capitalize()}Fields")[2].partition("return f;")[0]
        ranges = [(int(high), int(low)) for high, low in re.findall(r"range\((\d+), (\d+)\)", body)]
        position, expected = start, []
        for field in (field for field in fmt.fields if field.bits(config)):
            expected.append((position + field.bits(config) - 1, position))
            position += field.bits(config)
        assert ranges == expected
    values = constants(config)
    assert values["ACT_PARTS"] * values["BEAT_BYTES"] == config.act_unit_bytes
    assert values["WGT_PARTS"] * values["BEAT_WEIGHTS"] == config.block_in * config.block_out


# -- build and device -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cores"), [*((name, 1) for name in sorted(PRESETS)), ("tiny", 2)])
def test_the_kernels_of_every_preset_compile_without_warnings(
    hls_toolchain: None, tmp_path: Path, name: str, cores: int
) -> None:
    printed = compile_kernels(PRESETS[name].replace(cores=cores), tmp_path, [*WARNINGS, "-fsyntax-only"])
    assert printed == ""


def test_a_library_is_built_once_and_shared_by_configs_of_one_shape(tiny: HlsDevice) -> None:
    told: list[str] = []
    path = build_library(TINY.replace(name="another"), lambda what, done, total: told.append(what))
    assert path == build_library(TINY)
    assert told == []


def test_a_missing_package_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    build.ap_types.cache_clear()
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match=r"^hls4ml, .* is not installed; pip install 'tilewright\[hls\]'$"):
        open_device("hls", TINY)


def test_faults_are_those_of_sim_and_leave_the_device_usable(tiny: HlsDevice) -> None:
    program = make_program(faulty=True)
    faults = []
    for device in (tiny, open_device("sim", TINY)):
        allocation = device.allocate(program, 1)
        device.launch(allocation, 1)
        with pytest.raises(DeviceFault) as caught:
            device.wait(allocation)
        faults.append((caught.value.code, caught.value.instruction, caught.value.layer))
    assert faults[0] == faults[1]
    assert faults[0][0] == "SEGMENT"
    found, expected = outcome(tiny, close_gemm(1))
    assert found == expected


def test_a_token_that_nobody_sends_ends_the_program(tiny: HlsDevice) -> None:
    b = Builder(TINY)
    b.wait(LOAD)
    b.wait(GEMM, pop=[ALU])
    allocation = tiny.allocate(b.program(), 1)
    tiny.launch(allocation, 1)
    with pytest.raises(DeviceFault, match="fault WATCHDOG at instruction 1: waits for a token"):
        tiny.wait(allocation)


def test_misuse_is_refused(tiny: HlsDevice) -> None:
    allocation = tiny.allocate(make_program(), 1)
    with pytest.raises(DeviceError, match="nothing has been launched"):
        tiny.wait(allocation)
    with pytest.raises(DeviceError, match="no launch has finished"):
        tiny.counters(allocation)
    with pytest.raises(DeviceError, match="2 inferences: segments are allocated for 1"):
        tiny.launch(allocation, 2)
    tiny.release(allocation)
    with pytest.raises(DeviceError, match="have been released"):
        tiny.launch(allocation, 1)


def test_a_batched_network_and_a_report_without_cycles(tiny: HlsDevice) -> None:
    x = images(5)
    y, report = Executable(make_artifact(), tiny).run(x)
    expected, simulated = Executable(make_artifact(), "sim").run(x)
    assert all(np.array_equal(a, b) for a, b in zip(y, expected))
    data, full = report.to_dict(), simulated.to_dict()
    derived = ("cycles", "lower_bound_ratio", "utilization", "latency_ms", "interval_cycles", "inferences_per_second")
    assert [data[key] for key in derived] == [None] * len(derived)
    assert None not in [full[key] for key in derived]
    for key in ("dram_read_bytes", "dram_write_bytes", "instructions"):
        assert data[key] == full[key]
    json.dumps(data)
    assert "cycles not counted" in str(report)
    console = Console(file=io.StringIO(), width=120)
    print_report(report, console)
    assert "not counted by the hls device" in console.file.getvalue()  # type: ignore[attr-defined]
    assert "not counted" in render_html(report.to_dict(), report.runs)


def test_the_digits_network_is_equal(hls_toolchain: None) -> None:
    pytest.importorskip("tvm", reason="the compiler needs apache-tvm: pip install 'tilewright[compile]'")
    from tilewright.compiling import compile

    folder = REPOSITORY / "examples" / "digits"
    with np.load(folder / "digits_test.npz") as data:
        x = data["x"][:20]
    outputs = [compile(folder / "digits.onnx", device=device).run([x])[0] for device in ("hls", "sim")]
    assert len(np.unique(outputs[0].argmax(axis=-1))) > 5
    assert np.array_equal(outputs[0], outputs[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["resnet8_cifar10", "dscnn_keywords", "autoencoder_toycar", "mobilenet_person", "mobilenet_v2_imagenet"]
)
def test_the_networks_are_equal(hls_toolchain: None, model_case: Callable[[str], ModelCase], name: str) -> None:
    pytest.importorskip("tvm", reason="the compiler needs apache-tvm: pip install 'tilewright[compile]'")
    from tilewright.compiling import compile

    case = model_case(name)
    x, expected = case.x[:2], case.y[:2]
    found, _ = compile(case.model, device="hls").run(x)
    assert np.array_equal(found, expected)
