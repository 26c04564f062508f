"""Lower bounds are lower bounds, in total and layer by layer: of random networks on random Configs and of kept ones."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.conftest import ModelCase
from tests.jit.builder import GraphBuilder
from tests.jit.random_graphs import odd_graph, random_config
from tilewright.config import PRESETS, Config
from tilewright.dse.networks import load_networks
from tilewright.isa.effects import row_beats, slots
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Opcode
from tilewright.jit import graph as g
from tilewright.jit.compiler import compile_graph
from tilewright.jit.cost.lower_bound import layer_bounds, network_bound
from tilewright.runtime.activity import layer_of_instruction
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.device import Counters, Events
from tilewright.runtime.report.html import COLOURS
from tilewright.runtime.report.report import Report
from tilewright.runtime.report.roofline import roofline_svg
from tilewright.runtime.report.run import ProgramRun, needs
from tilewright.sim import simulate_timing

CONFIGS = [PRESETS["tiny"], PRESETS["pynq-z2"], PRESETS["zcu104"]]


def report_of(programs: list[Program], config: Config) -> Report:
    runs = []
    for program in programs:
        timing = simulate_timing(program)
        events = Events(timing.dispatch, timing.issue, timing.retire)
        runs.append(
            ProgramRun(program, Counters(timing.cycles, timing.dram_read_bytes, timing.store_bytes, events=events))
        )
    return Report(Artifact("net", config, tuple(programs), (), (), ()), "sim", 1, tuple(runs))


def check(report: Report) -> None:
    """Bounds below cycles, causes that add up to them, a sentence for each layer, and no dot above the roof."""
    assert 0 < report.lower_bound_cycles <= report.cycles
    measured = [layer for layer in report.layers if layer["place"] == "accelerator"]
    assert sum(layer["cycles"] for layer in measured) == report.cycles
    for layer in measured:
        label = f"{layer['name']}: {layer}"
        assert 0 <= layer["lower_bound_cycles"] <= min(layer["cycles"], layer["alone_cycles"]), label
        assert sum(layer["cycles_by_cause"].values()) == layer["cycles"], label
        assert min(layer["cycles_by_cause"].values()) >= 0, label
        assert layer["useful"] <= layer["array_cycles"] * report.array_macs_per_cycle, label
        assert layer["utilization"] <= 1, label
        assert re.fullmatch(r"[A-Z0-9].*\.", layer["why"]), label
    assert sum(report.causes.values()) == report.cycles
    assert report.utilization <= 1
    below_the_roof(report.to_dict())


def below_the_roof(data: dict[str, Any]) -> None:
    svg = roofline_svg(data, COLOURS)
    corners = np.array([pair.split(",") for pair in re.findall(r'points="([^"]+)"', svg)[0].split()], float)
    for x, y in re.findall(r'<circle cx="([\d.-]+)" cy="([\d.-]+)"', svg):
        roof = float(np.interp(float(x), corners[:, 0], corners[:, 1]))
        assert float(y) >= roof - 0.2, f"a dot at {x}, {y} is above the roof at {roof}"  # y grows downwards


def check_needs(program: Program) -> None:
    """What a layer is said to need of the engines is in its instructions."""
    config, fields, layer = program.config, program.columns(), layer_of_instruction(program)
    busy, beats = slots(fields, config), fields.rows * row_beats(fields, config)
    loads, stores = fields.opcode == Opcode.LOAD, fields.opcode == Opcode.STORE
    array, alu = fields.opcode == Opcode.GEMM, (fields.engine == Engine.ALU) & (fields.opcode != Opcode.WAIT)
    each = [needs(recorded, config) for recorded in program.meta["layers"]]
    assert sum(need["read"] for need in each) <= beats[loads].sum() + len(each)  # each is rounded up
    for number, need in enumerate(each):
        own = layer == number
        done = {"array": busy[own & array].sum(), "alu": busy[own & alu].sum(), "write": beats[own & stores].sum()}
        for name, cycles in done.items():
            assert need[name] <= cycles, f"{program.meta['layers'][number]}: {name} {cycles}"


@pytest.mark.parametrize("seed", range(12))
def test_bounds_hold_for_random_networks(seed: int) -> None:
    bounds_hold(seed)


def test_what_no_schedule_must_read_or_do_is_not_in_the_bound() -> None:
    """Rows that a stride passes over, columns that one weight of zero never meets, parameters that layers share, a
    pool that tiles compute as a dense layer, and a factor of one pixel."""
    b = GraphBuilder(5, (9, 40, 16))
    x = b.max_pool("x", (1, 1), (4, 4))
    x = b.average_pool(x, (1, 1))
    y = b.pairwise(g.Multiply, x, b.average_pool(x, b.shape(x)[1:3]))
    graph = b.graph(b.requantize(y), b.conv(x, 4, (1, 1), padding=(0, 0, 0, 0)))
    for config in CONFIGS:
        first, *_ = layer_bounds(graph, config)
        read = 3 * 10 * -(-16 // config.lanes) * config.act_unit_bytes
        assert first.read_bytes == read + 2 * config.prm_entry_bytes, config.name
        programs = compile_graph(graph, config).programs
        for program in programs:
            check_needs(program)
        check(report_of(programs, config))


def test_vectors_that_are_not_computed_are_not_in_the_bound() -> None:
    """A pool of 35 channels, the same taps in all, in blocks of 32 of which a vector is half."""
    bounds_hold(1040)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1150))
def test_bounds_hold_for_many_random_networks(seed: int) -> None:
    bounds_hold(seed)


def bounds_hold(seed: int) -> None:
    builder, outputs = odd_graph(seed)
    config = random_config(seed) if seed % 3 else CONFIGS[seed // 3 % len(CONFIGS)]
    programs = compile_graph(builder.graph(*outputs), config).programs
    for program in programs:
        check_needs(program)
    check(report_of(programs, config))


@pytest.mark.parametrize("config", ["tiny", "pynq-z2"])
@pytest.mark.parametrize("name", ["resnet8_cifar10", "dscnn_keywords", "mobilenet_person", "autoencoder_toycar"])
def test_bounds_hold_for_the_kept_networks(name: str, config: str, model_case: Any) -> None:
    case: ModelCase = model_case(name)
    executable = tw.compile(str(case.model), config)
    for program in executable.artifact.programs:
        check_needs(program)
    check(report_of(list(executable.artifact.programs), executable.artifact.config))


@pytest.mark.parametrize("config", ["tiny", "pynq-z2"])
@pytest.mark.parametrize("name", ["resnet8_cifar10", "autoencoder_toycar"])
def test_the_explorer_has_the_bounds_of_the_report(name: str, config: str, model_case: Any) -> None:
    model = model_case(name).model
    executable = tw.compile(str(model), config)
    programs = executable.artifact.programs
    networks = load_networks(model)
    found = [pair for network in networks for pair in network.bounds(PRESETS[config])]
    recorded = [layer for program in programs for layer in program.meta["layers"]]
    assert [(name, asdict(bound)) for name, bound in found] == [
        (layer["name"], {key: layer[key] for key in asdict(found[0][1])}) for layer in recorded
    ]
    alone = [bound.cycles(PRESETS[config]) for _, bound in found]
    assert alone == [layer["floor_cycles"] for layer in recorded]
    bounds = [[bound for _, bound in network.bounds(PRESETS[config])] for network in networks]
    assert (
        sum(network_bound(each, PRESETS[config]) for each in bounds)
        == report_of(list(programs), PRESETS[config]).lower_bound_cycles
    )


@pytest.mark.slow
@pytest.mark.parametrize("config", ["tiny", "pynq-z2"])
def test_bounds_hold_for_the_zoo(shared_models: Path, config: str) -> None:
    paths = sorted(shared_models.glob("zoo/*.tflite"))
    if not paths:
        pytest.skip(f"no zoo/*.tflite in {shared_models}")
    checked = 0
    for path in paths:
        artifact = tw.compile(str(path), config).artifact
        if not artifact.programs:
            continue
        checked += 1
        for program in artifact.programs:
            check_needs(program)
        check(report_of(list(artifact.programs), artifact.config))
    assert checked > len(paths) / 2
