"""LSTMs: equal to LiteRT in NumPy and as programs, which are legal; the cell equal to its functions for all int16."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="the test extra is not installed: pip install 'tilewright[test]'")

from tests.fuzz import TfliteNet
from tests.jit.source.test_tflite_source import assert_equal, places
from tests.verification.differential import Bench
from tilewright.config import PRESETS, Config
from tilewright.isa.arithmetic import Rounding, scale_round
from tilewright.isa.spec import Memory
from tilewright.isa.verifier import verify
from tilewright.jit.emit.writer import INPUT, OUTPUT
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph, Interpreted, TensorSpec
from tilewright.jit.importer import import_model
from tilewright.jit.recurrent import cell, fixed_point
from tilewright.jit.recurrent.cell import Scratch, activate
from tilewright.jit.recurrent.fixed_point import joined, parted
from tilewright.jit.recurrent.form import RecurrentProgram
from tilewright.jit.recurrent.ops import Lstm, Sums, scaled
from tilewright.jit.recurrent.program import recurrent_program
from tilewright.jit.recurrent.scaling import bound_of, cut, pieces_of, scale
from tilewright.jit.recurrent.vectors import Run, VectorWriter
from tilewright.jit.sides import subgraph
from tilewright.runtime import interpreters
from tilewright.sim import Functional, initial_segments

INT16 = np.arange(-32768, 32768)
CONFIG = PRESETS["pynq-z2"]
#: seed, inputs, units, steps, scale of the inputs, scale and zero point of the hidden state, clip of the cell
CASES = (
    (1, 16, 8, 6, 1 / 128, 1 / 128, 0, 0.0),
    (2, 28, 20, 28, 1 / 128, 1 / 128, -1, 100.0),
    (3, 5, 33, 12, 1 / 16, 1 / 100, 7, 0.5),
    (4, 64, 48, 8, 1 / 2, 1 / 8, -20, 0.0),
)
FORMS: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = {
    "several sequences": ((3, 7, 10), {}),
    "time first": ((7, 1, 10), {"time_major": True}),
    "several, time first": ((7, 3, 10), {"time_major": True}),
    "a cell of up to 8": ((1, 9, 10), {"cell_bits": 12}),
}


def saved(folder: Path, case: tuple[Any, ...]) -> tuple[Path, NDArray[np.int8]]:
    """A file with one LSTM, and inputs (1, steps, inputs) that reach both ends."""
    seed, inputs, units, steps, scale_x, scale_h, zero_point, clip = case
    net = TfliteNet(seed=seed)
    x = net.input((1, steps, inputs), scale=scale_x)
    path = net.save(folder / "lstm.tflite", [net.lstm(x, units, scale_h, zero_point, clip)])
    values = np.random.default_rng(seed).choice([-128, -127, -40, -1, 0, 1, 40, 127], (1, steps, inputs))
    return path, values.astype(np.int8)


def graph_of(path: Path) -> Graph:
    """The LSTM of a file, alone."""
    graph = import_model(path).graph
    return subgraph(graph, [op for op in graph.ops if isinstance(op, Lstm)], False)


def lstm_of(path: Path) -> Lstm:
    (op,) = graph_of(path).ops
    assert isinstance(op, Lstm)
    return op


def hidden(op: Lstm, x: NDArray[np.int8]) -> NDArray[np.int8]:
    """Of (steps, inputs) by the NumPy model."""
    result: np.ndarray = op.run(x[None, None])[0, 0]
    return result


def run(
    made: RecurrentProgram, x: NDArray[np.int8], states: dict[str, NDArray[np.int8]] | None = None
) -> NDArray[np.int8]:
    """Hidden states of a legal program of one sequence (steps, inputs), on the simulator; ``states``: those to begin
    with, replaced by those that it ends in; reset where left out."""
    verify(made.program)
    buffers = initial_segments(made.program)
    kept = reset(made) if states is None else states
    for pack, value in zip(made.packs, [x, *kept.values()], strict=True):
        buffers[INPUT][pack.offset : pack.offset + pack.size] = pack.apply(value[None])[0]
    assert Functional(made.program).run(buffers).fault is None
    result, *after = (u.apply(buffers[OUTPUT][None, u.offset : u.offset + u.size])[0] for u in made.unpacks)
    kept |= dict(zip(kept, after, strict=True))
    return result.reshape(len(x), -1)


def reset(made: RecurrentProgram) -> dict[str, NDArray[np.int8]]:
    return {state.name: np.full(state.shape, state.zero_point, np.int8) for state in made.states}


def litert(path: Path, *inputs: NDArray[np.int8]) -> NDArray[np.int8]:
    """Of one interpreter, input by input, its state going on: the last result."""
    interpreter = interpreters.load("litert", path.read_bytes(), "an LSTM")
    results: list[NDArray[np.int8]] = [interpreter([x])[0][0] for x in inputs]
    return results[-1]


@pytest.mark.parametrize("case", CASES)
def test_the_numpy_model_equals_litert(case: tuple[Any, ...], tmp_path: Path) -> None:
    path, x = saved(tmp_path, case)
    np.testing.assert_array_equal(hidden(lstm_of(path), x[0]), litert(path, x))


def computed(w: VectorWriter, run: Run) -> NDArray[Any]:
    """What a legal program leaves in accumulators."""
    program = w.program([], {})
    verify(program)
    functional = Functional(program)
    functional.run(initial_segments(program))
    acc = np.asarray(functional.memory(Memory.ACC)).reshape(-1, w.config.lanes)
    return acc[run.first : run.first + run.count * run.span].reshape(-1)


def on_the_simulator(config: Config, sigmoids: bool, integer_bits: int, values: NDArray[Any]) -> NDArray[Any]:
    w = VectorWriter(config)
    w.begin(0, "a function")
    count, half = len(values) // config.block_out, config.acc_units // 2
    argument, base, result = (Run(k * count * config.out_units, count, config.out_units) for k in range(3))
    strips = [Run(k * count * config.out_units, count, config.out_units) for k in range(4)]
    w.load_acc(argument, values.astype(np.int32))
    scratch = Scratch(base, result, Run(half, count, config.out_units), *strips)
    activate(w, argument, scratch, count if sigmoids else 0, integer_bits)
    return computed(w, result)


@pytest.mark.parametrize("name", ["pynq-z2", "kv260"])
@pytest.mark.parametrize("sigmoids,integer_bits", [(True, 3), (False, 3), (False, 4)])
def test_the_cell_s_functions_on_all_int16(name: str, sigmoids: bool, integer_bits: int) -> None:
    wanted = fixed_point.sigmoid(INT16) if sigmoids else fixed_point.tanh(INT16, integer_bits)
    got = [on_the_simulator(PRESETS[name], sigmoids, integer_bits, part) for part in np.split(INT16, 16)]
    np.testing.assert_array_equal(np.concatenate(got), wanted)


@pytest.mark.parametrize(
    "bits,shift", [(13, 24), (13, 40), (13, 44), (20, 52), (18, 31), (18, 32), (21, 32), (21, 35), (24, 33), (24, 40)]
)
def test_scaling_equals_litert_s_near_every_rounding(bits: int, shift: int) -> None:
    """On sums whose product lies next to a half, of both signs, with full and with float32's multipliers."""
    rng = np.random.default_rng(shift * 100 + bits)
    most = (1 << bits) - 1
    for multiplier in ((1 << 30) | int(rng.integers(1 << 30)) | 1, int(rng.integers(1 << 23, 1 << 24)) << 7, 1 << 30):
        halves = rng.integers(-(1 << 20), 1 << 20, 512) * (1 << shift) + (1 << shift - 1)
        near = np.clip(halves // multiplier + rng.integers(-1, 3, 512), -most, most)
        sums = np.concatenate([near, rng.integers(-most, most + 1, 512)])
        w, count = VectorWriter(CONFIG), len(sums) // CONFIG.block_out
        w.begin(0, "sums")
        run, scratch, sign = Run(0, count, 1), Run(count, count, 1), Run(0, count, 1)
        w.load_acc(run, sums.astype(np.int32))
        part = Sums(np.zeros((1, 1), np.int8), np.array([most]), multiplier, shift)
        scale(w, [run], pieces_of([part]), scratch, Run(CONFIG.acc_units // 2, count, 1), sign)
        wanted = scale_round(sums, multiplier, shift, 0, Rounding.DOUBLE)
        np.testing.assert_array_equal(computed(w, run), wanted)


@pytest.mark.parametrize("name", ["pynq-z2", "kv260", "zcu104", "tiny"])
@pytest.mark.parametrize("case", CASES[1:3])
def test_programs_equal_litert(case: tuple[Any, ...], name: str, tmp_path: Path) -> None:
    path, x = saved(tmp_path, case)
    np.testing.assert_array_equal(run(recurrent_program(graph_of(path), PRESETS[name]), x[0]), litert(path, x))


@pytest.mark.parametrize("name", ["pynq-z2", "kv260", "tiny"])
@pytest.mark.parametrize("case", CASES)
def test_states_go_on(case: tuple[Any, ...], name: str, tmp_path: Path) -> None:
    """Sequence after sequence, in the program and in NumPy, with cells that fill their 16 bits and those clipped."""
    path, x = saved(tmp_path, case)
    made, op = recurrent_program(graph_of(path), PRESETS[name]), lstm_of(path)
    inputs = [x, -1 - x, x[:, ::-1], np.full_like(x, 127), x]
    states, known = reset(made), [*reset(made).values()]
    for count in range(1, len(inputs) + 1):
        result, wanted = run(made, inputs[count - 1][0], states), litert(path, *inputs[:count])
        np.testing.assert_array_equal(result, wanted)
        in_numpy, *known = op.run(inputs[count - 1][:, None], *known)
        np.testing.assert_array_equal(in_numpy[0, 0], wanted)
        for state, value in zip(states.values(), known, strict=True):
            np.testing.assert_array_equal(state, value)


def test_cells_are_kept_in_two_bytes() -> None:
    np.testing.assert_array_equal(joined(*parted(INT16)), INT16)


@pytest.mark.parametrize(
    "changes",
    [
        {"block_out": 8},
        {"batch": 2},
        {"weight_bits": 4, "batch": 4},
        {"act_bytes": 8192},
        {"block_in": 8, "block_out": 32},
    ],
)
def test_programs_of_other_shapes_are_right(changes: dict[str, int], tmp_path: Path) -> None:
    """By the NumPy model; inputs that are no whole vectors of ALU, few weights, small ones."""
    path, x = saved(tmp_path, (7, 9, 20, 5, 1 / 128, 1 / 128, -1, 0.5))
    graph, op = graph_of(path), lstm_of(path)
    small = [tuple(replace(p, weight=p.weight // 16) for p in parts) for parts in (op.entry, op.recurrent)]
    few = replace(op, entry=small[0], recurrent=small[1])
    made = recurrent_program(replace(graph, ops=[few]), CONFIG.replace(axi_ports=1, **changes))
    np.testing.assert_array_equal(run(made, x[0]), hidden(few, x[0]))


@pytest.mark.parametrize("inputs,units,wgt_bytes", [(96, 96, 65536), (144, 144, 131072), (3200, 32, 131072)])
def test_weights_that_pass_through_a_ring(inputs: int, units: int, wgt_bytes: int, tmp_path: Path) -> None:
    path, x = saved(tmp_path, (5, inputs, units, 5, 1 / 128, 1 / 128, 3, 0.0))
    made = recurrent_program(graph_of(path), CONFIG.replace(wgt_bytes=wgt_bytes))
    assert made.bound.read_bytes > 5 * units * units + 4 * units * inputs  # some of them more than once
    np.testing.assert_array_equal(run(made, x[0]), litert(path, x))


def test_a_program_equals_litert_where_gates_saturate(tmp_path: Path) -> None:
    """On inputs with the signs of a unit's weights, another unit and gate at each step."""
    path, _ = saved(tmp_path, CASES[3])
    op = lstm_of(path)
    rows = [sign * op.entry[k].weight[k].astype(int) for k in range(4) for sign in (1, -1)]
    x = (127 * np.sign(rows)).astype(np.int8)
    assert scaled(op.entry, x).max() > 32767
    np.testing.assert_array_equal(hidden(op, x), litert(path, x[None]))
    np.testing.assert_array_equal(run(recurrent_program(graph_of(path), CONFIG), x), litert(path, x[None]))


def test_a_program_on_the_rtl(toolchain: None, tmp_path: Path) -> None:
    """Its multipliers are negative too, which those of random programs are not."""
    path, _ = saved(tmp_path, (6, 5, 6, 4, 1 / 128, 1 / 100, 7, 0.0))
    program = recurrent_program(graph_of(path), PRESETS["tiny"]).program
    segments = initial_segments(program)
    segments[INPUT][:] = np.random.default_rng(0).integers(0, 256, segments[INPUT].size, dtype=np.uint8)
    bench = Bench(program.config)
    try:
        assert bench.compare(program, segments) is None
    finally:
        bench.close()


@pytest.mark.parametrize("form", FORMS)
def test_models_equal_litert(form: str, tmp_path: Path) -> None:
    """RecurrentPrograms of more steps than act holds at once, on one of the smallest Configs."""
    shape, fields = FORMS[form]
    net = TfliteNet(seed=3)
    x = net.input(shape, scale=1 / 32)
    path = net.save(tmp_path / "lstm.tflite", [net.lstm(x, 6, **fields)])
    artifact = assert_equal(path)
    assert places(artifact) == {"UNIDIRECTIONAL_SEQUENCE_LSTM": "accelerator"}


def test_layers_around_an_lstm_are_programs_of_their_own(tmp_path: Path) -> None:
    net = TfliteNet(seed=4)
    x = net.fully_connected(net.input((1, 5, 12)), 9, flatten=False, keep_num_dims=True)
    once = net.lstm(x, 7)
    twice = net.lstm(once, 5)
    path = net.save(tmp_path / "lstm.tflite", [net.fully_connected(twice, 3, flatten=False, keep_num_dims=True), once])
    artifact = assert_equal(path)
    assert set(places(artifact).values()) == {"accelerator"}
    assert len(artifact.programs) == 4


def changed(net: TfliteNet, **fields: Any) -> None:
    """The last operator with other inputs, by place, or options."""
    (inputs, options) = (net.operators[-1].inputs, net.operators[-1].fields)
    for name, value in fields.items():
        if name.startswith("input"):
            inputs[int(name.removeprefix("input"))] = value
        else:
            options[name] = value


@pytest.mark.parametrize(
    "kind,reason",
    [
        ("peepholes", "an LSTM with peepholes"), ("coupled", "an LSTM with a coupled input gate"),
        ("activation", "another activation than tanh"),
    ],
)  # fmt: skip
def test_other_lstms_are_left_to_litert_by_name(kind: str, reason: str, tmp_path: Path) -> None:
    net = TfliteNet(seed=4)
    y = net.lstm(net.input((1, 5, 6)), 7)
    if kind == "peepholes":
        weights = [net.constant_tensor((7,), 2.0**-12, dtype="int16").key for _ in range(3)]
        changed(net, **{f"input{9 + k}": weight for k, weight in enumerate(weights)})
    elif kind == "coupled":
        changed(net, input1=-1, input5=-1, input12=-1)
    elif kind == "activation":
        changed(net, fusedActivationFunction=0)
    (op,) = import_model(net.save(tmp_path / "lstm.tflite", [y])).graph.ops
    assert isinstance(op, Interpreted)
    assert reason in op.reason


@pytest.mark.parametrize("constant", ["EXP_EIGHTH", "SEED"])
def test_a_wrong_program_is_not_taken(constant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the proof cannot follow it compares: a constant of the cell that is one too great in the program alone."""
    path, _ = saved(tmp_path, CASES[1])
    monkeypatch.setattr(cell, constant, getattr(cell, constant) + 1)
    artifact = assert_equal(path, config="pynq-z2")
    (operator,) = artifact.options["operators"]
    assert operator["place"] == "interpreter"
    assert "elements wrong" in operator["reason"]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    path, _ = saved(tmp_path, CASES[1])
    graph, op = graph_of(path), lstm_of(path)
    wide, _ = saved(tmp_path, CASES[3])
    with pytest.raises(PlaceError, match="does not fit act; raise act_bytes"):
        recurrent_program(graph_of(wide), CONFIG.replace(act_bytes=1024))
    with pytest.raises(PlaceError, match="does not fit acc; raise acc_bytes"):
        recurrent_program(graph, CONFIG.replace(acc_bytes=4096))
    with pytest.raises(PlaceError, match="entries of prm"):
        recurrent_program(graph, CONFIG.replace(prm_entries=16))
    with pytest.raises(PlaceError, match="13 bits of fraction"):
        recurrent_program(replace(graph, ops=[replace(op, cell_bits=13)]), CONFIG)
    longer = TensorSpec(op.inputs[0], (1, 1, 1025, 28), "int8")
    with pytest.raises(PlaceError, match="1025 steps, more than the 1024"):
        recurrent_program(replace(graph, tensors={**graph.tensors, longer.name: longer}), CONFIG)


def test_more_bits_take_more_pieces() -> None:
    part = Sums(np.full((1, 64), 127, np.int8), np.zeros(1, np.int64), (1 << 30) + 1, 40)
    assert bound_of(part) == 64 * 127 * 128
    assert cut(part, 0) is None
    assert len(pieces_of([part])[0].low) > len(pieces_of([replace(part, multiplier=1 << 30)])[0].low) == 0
