"""SVDFs: equal to LiteRT (a state of int16) and TensorFlow Lite Micro (of int8), in NumPy and as programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="the test extra is not installed: pip install 'tilewright[test]'")

import tilewright as tw
from tests.fuzz import TfliteNet
from tests.fuzz.flatbuffer import StoredOperator, StoredTensor, write_tflite
from tests.jit.recurrent.test_lstm import changed, reset
from tests.jit.source.test_tflite_source import places
from tests.verification.differential import Bench
from tilewright.checking import reference_outputs
from tilewright.config import PRESETS
from tilewright.isa.verifier import verify
from tilewright.jit.emit.writer import INPUT, OUTPUT
from tilewright.jit.errors import ModelError, PlaceError
from tilewright.jit.graph import Graph, Interpreted
from tilewright.jit.importer import import_model
from tilewright.jit.proof import ProofError, prove
from tilewright.jit.recurrent import svdf as program_of_svdf
from tilewright.jit.recurrent.fixed_point import joined
from tilewright.jit.recurrent.form import RecurrentProgram
from tilewright.jit.recurrent.ops import Svdf, scaled
from tilewright.jit.recurrent.program import recurrent_program
from tilewright.jit.reference import result_of
from tilewright.jit.sides import subgraph
from tilewright.sim import Functional, initial_segments

Array = NDArray[np.int8]
CONFIG = PRESETS["pynq-z2"]
NUMBERS = (3, 16, 40, 12, 6)  #: seed, inputs, units, memory, inferences
#: batch, rank, state, its zero point, bias, gain of the state, changes of NUMBERS
CASES: dict[str, tuple[int, int, str, int, bool, float, dict[int, int]]] = {
    "plain": (1, 1, "int16", 0, True, 1.0, {}),
    "rank 3": (1, 3, "int16", 0, True, 1.0, {2: 11}),
    "no bias": (1, 2, "int16", 0, False, 0.25, {1: 33}),
    "saturated": (1, 1, "int16", 0, True, 64.0, {3: 3}),
    "a batch": (3, 2, "int16", 0, True, 1.0, {1: 70, 2: 5, 3: 4}),
    "no memory": (2, 1, "int16", 0, True, 1.0, {3: 1}),
    "int8": (1, 1, "int8", 0, True, 1.0, {}),
    "int8, zero point": (1, 2, "int8", 25, True, 0.5, {2: 9}),
    "int8, saturated": (2, 1, "int8", -118, False, 16.0, {3: 5}),
}


def saved(folder: Path, case: str) -> tuple[Path, Array]:
    """A file with one SVDF, and inputs (inferences, batch, inputs), some of which are extremes alone."""
    batch, rank, state, zero_point, bias, gain, changes = CASES[case]
    seed, inputs, units, memory, steps = (changes.get(k, n) for k, n in enumerate(NUMBERS))
    net = TfliteNet(seed=seed)
    x = net.input((batch, inputs), scale=1 / 32, zero_point=-7)
    path = net.save(folder / "svdf.tflite", [net.svdf(x, units, memory, rank, state, zero_point, bias, gain)])
    values = np.random.default_rng(seed).integers(-128, 128, (steps + memory, batch, inputs))
    values[1::3] = np.where(values[1::3] > 0, 127, -128)
    return path, values.astype(np.int8)


def graph_of(path: Path) -> Graph:
    graph = import_model(path).graph
    return subgraph(graph, [op for op in graph.ops if isinstance(op, Svdf)], False)


def svdf_of(path: Path) -> Svdf:
    (op,) = graph_of(path).ops
    assert isinstance(op, Svdf)
    return op


def expected(path: Path, x: Array) -> Array:
    """Of the interpreter, input by input, its state going on."""
    (result,) = reference_outputs(path, [x], stream=True)
    return np.asarray(result, np.int8)


def in_numpy(op: Svdf, x: Array) -> tuple[Array, list[list[Array]]]:
    """Results of (inferences, batch, inputs), and the states after each."""
    wide, rows = op.state_bits == 16, x.shape[1] * (op.memory - 1)
    first = [0, -128] if wide else [op.state_zero_point]
    states = [np.full((1, 1, rows * op.rank, len(op.bias)), z, np.int8) for z in first] if op.memory > 1 else []
    results, after = [], []
    for value in x:
        result, *kept = result_of(op, value[None, None], *states)
        states = kept or states
        results.append(result[0, 0])
        after.append(states)
    return np.stack(results), after


def run(made: RecurrentProgram, x: Array, states: dict[str, Array]) -> Array:
    """The result of a legal program of (batch, inputs), on the simulator; ``states`` become those after it."""
    verify(made.program)
    buffers, images = initial_segments(made.program), made.program.config.batch
    for pack, value in zip(made.packs, [x[None, None], *states.values()], strict=True):
        packed = pack.apply(np.repeat(value[None], images, axis=0))[0]
        buffers[INPUT][pack.offset : pack.offset + pack.size] = packed
    assert Functional(made.program).run(buffers).fault is None
    result, *after = (u.apply(buffers[OUTPUT][None, u.offset : u.offset + u.size])[0] for u in made.unpacks)
    states |= dict(zip(states, after, strict=True))
    return result.reshape(len(x), -1)


def assert_streams(made: RecurrentProgram, op: Svdf, x: Array) -> None:
    """Programs and NumPy agree, states too, inference after inference."""
    states = reset(made)
    for value, wanted, kept in zip(x, *in_numpy(op, x), strict=True):
        np.testing.assert_array_equal(run(made, value, states), wanted)
        for got, known in zip(states.values(), kept, strict=True):
            np.testing.assert_array_equal(got, known)


@pytest.mark.parametrize("case", ["rank 3", "a batch"])
def test_its_macs_are_those_of_feature_and_time(case: str, tmp_path: Path) -> None:
    batch, rank, *_, changes = CASES[case]
    _, inputs, units, memory, _ = (changes.get(k, n) for k, n in enumerate(NUMBERS))
    graph = import_model(saved(tmp_path, case)[0]).graph
    assert [op.macs(graph) for op in graph.ops if isinstance(op, Svdf)] == [batch * rank * units * (inputs + memory)]


@pytest.mark.parametrize("case", CASES)
def test_the_numpy_model_equals_the_interpreter(case: str, tmp_path: Path) -> None:
    path, x = saved(tmp_path, case)
    results, _ = in_numpy(svdf_of(path), x)
    np.testing.assert_array_equal(results, expected(path, x).reshape(results.shape))
    assert len(np.unique(results)) > 15


def micro(path: Path) -> Path:
    """A network whose numbers no generator draws."""
    feature = (np.arange(36).reshape(6, 6) * 37 % 101 - 50).astype(np.int8)
    time = (np.arange(24).reshape(6, 4) * 53 % 197 - 98).astype(np.int8)
    one = np.array([0])
    tensors = [
        StoredTensor("x", (1, 6), "int8", np.array([0.05]), np.array([-9])),
        StoredTensor("feature", (6, 6), "int8", np.array([0.01]), one, 0, feature),
        StoredTensor("time", (6, 4), "int8", np.array([0.007]), one, 0, time),
        StoredTensor("bias", (3,), "int32", np.array([0.0014]), one, 0, np.array([900, -400, 77], np.int32)),
        StoredTensor("state", (1, 24), "int8", np.array([0.2]), np.array([14]), variable=True),
        StoredTensor("y", (1, 3), "int8", np.array([0.15]), np.array([-20])),
    ]
    fields = {"rank": 2, "fusedActivationFunction": 1}
    return write_tflite(path, tensors, [StoredOperator("SVDF", [0, 1, 2, 3, 4], [5], "SVDFOptions", fields)], [0], [5])


def test_a_state_of_int8_is_that_of_tensorflow_lite_micro(tmp_path: Path) -> None:
    """The numbers are those of tflite-micro 0.dev20261023182759, run on this network."""
    path = micro(tmp_path / "micro.tflite")
    x = (np.arange(42).reshape(7, 1, 6) * 91 % 255 - 127).astype(np.int8)
    wanted = [
        [17, -21, -14],
        [17, -34, -21],
        [2, -23, -2],
        [-65, 10, -9],
        [-68, 20, -29],
        [-59, -31, -58],
        [-23, -68, -20],
    ]
    np.testing.assert_array_equal(in_numpy(svdf_of(path), x)[0][:, 0], wanted)
    np.testing.assert_array_equal(expected(path, x).reshape(7, 3), wanted)


@pytest.mark.parametrize("name", ["pynq-z2", "kv260", "zcu104", "tiny", "vta-64"])
@pytest.mark.parametrize("case", CASES)
def test_programs_equal_numpy(case: str, name: str, tmp_path: Path) -> None:
    path, x = saved(tmp_path, case)
    assert_streams(recurrent_program(graph_of(path), PRESETS[name]), svdf_of(path), x)


@pytest.mark.parametrize("case", ["rank 3", "a batch", "int8, zero point"])
@pytest.mark.parametrize(
    "changes",
    [{"block_out": 8}, {"batch": 2}, {"act_bytes": 8192}, {"block_in": 8, "block_out": 32}, {"wgt_bytes": 8192}],
)
def test_programs_of_other_shapes_are_right(changes: dict[str, int], case: str, tmp_path: Path) -> None:
    path, x = saved(tmp_path, case)
    assert_streams(recurrent_program(graph_of(path), CONFIG.replace(axi_ports=1, **changes)), svdf_of(path), x)


def test_extremes_of_int16(tmp_path: Path) -> None:
    """Weights over time of -32768 and 32767, whose high bytes are two; sums wrap, as the kernel's do."""
    net = TfliteNet(seed=3)
    y = net.svdf(net.input((1, 16), scale=1 / 32), 24, 9, 2, state_gain=64.0, scale=1 / 256, zero_point=3)
    time = net.tensors[net.operators[-1].inputs[2]]
    assert time.data is not None
    time.data = np.where(time.data < 0, -32768, 32767).astype(np.int16)
    time.data[::3, 1::2] = 0
    path = net.save(tmp_path / "svdf.tflite", [y])
    op, x = svdf_of(path), np.random.default_rng(0).choice([-128, 127], (20, 1, 16)).astype(np.int8)
    fresh = scaled([op.feature], x[:, 0])
    assert fresh.min() < -32768
    assert fresh.max() > 32767
    results, states = in_numpy(op, x)
    np.testing.assert_array_equal(results, expected(path, x).reshape(results.shape))
    assert len(np.unique(results)) > 10
    window = np.abs(joined(*states[-1]).reshape(8, 2, 24)).sum(axis=(0, 1)) * 32767
    assert window.max() > 1 << 31
    assert_streams(recurrent_program(graph_of(path), CONFIG), op, x)


@pytest.mark.parametrize("state", ["int16", "int8"])
def test_a_program_on_the_rtl(state: str, toolchain: None, tmp_path: Path) -> None:
    net = TfliteNet(seed=8)
    path = net.save(tmp_path / "svdf.tflite", [net.svdf(net.input((1, 7), scale=1 / 32), 5, 3, 2, state)])
    program = recurrent_program(graph_of(path), PRESETS["tiny"]).program
    segments = initial_segments(program)
    segments[INPUT][:] = np.random.default_rng(0).integers(0, 256, segments[INPUT].size, dtype=np.uint8)
    bench = Bench(program.config)
    try:
        assert bench.compare(program, segments) is None
    finally:
        bench.close()


@pytest.mark.parametrize("state", ["int16", "int8"])
def test_models_equal_the_interpreter(state: str, tmp_path: Path) -> None:
    """Layers around it, in all states of a stream; all of it on the accelerator."""
    net = TfliteNet(seed=5)
    x = net.fully_connected(net.input((1, 30), scale=1 / 16), 20)
    y = net.svdf(net.svdf(x, 12, 5, 2, state), 9, 4, 1, state)
    path = net.save(tmp_path / "svdf.tflite", [net.fully_connected(y, 7)])
    executable = tw.compile(path, "tiny", cache=False)
    assert set(places(executable.artifact).values()) == {"accelerator"}
    assert executable.stateful
    inputs = np.random.default_rng(1).integers(-128, 128, (9, 30)).astype(np.int8)
    continued, fresh = (reference_outputs(path, [inputs[:, None]], stream=stream)[0] for stream in (True, False))
    with executable.stream() as stream:
        got = np.concatenate([stream(inputs[:4]), stream(inputs[4:])])
        stream.reset()
        again = stream(inputs)
    assert (continued != fresh).any()
    for result, wanted in ((got, continued), (again, continued), (executable(inputs), fresh)):
        np.testing.assert_array_equal(result.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("state", ["int16", "int8"])
def test_a_wrong_program_is_not_taken(state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose weights are an inference off: it runs in LiteRT then, and gives the same."""
    net = TfliteNet(seed=5)
    path = net.save(tmp_path / "svdf.tflite", [net.svdf(net.input((1, 12)), 9, 4, 2, state)])
    digits = program_of_svdf._digits
    monkeypatch.setattr(program_of_svdf, "_digits", lambda time: digits(np.roll(time, 1, axis=1)))
    executable = tw.compile(path, "tiny", cache=False)
    (operator,) = executable.artifact.options["operators"]
    assert operator["place"] == "interpreter"
    assert "elements wrong" in operator["reason"]
    x = np.random.default_rng(1).integers(-128, 128, (9, 12)).astype(np.int8)
    (wanted,) = reference_outputs(path, [x[:, None]], stream=True)
    with executable.stream() as stream:
        np.testing.assert_array_equal(stream(x).reshape(wanted.shape), wanted)


def refused(kind: str, path: Path) -> Path:
    net = TfliteNet(seed=4)
    numbers = ("int8", 200) if kind == "zero point" else ("int16", 0)
    y = net.svdf(net.input((1, 6), scale=1 / 16), 7, 4, 1, *numbers)
    stored = net.tensors[net.operators[-1].inputs[2 if kind == "weights" else 4]]
    if kind == "mixed":
        stored.dtype = "int8"
    elif kind != "zero point":
        stored.zero_points = np.array([3])
    return net.save(path, [y])


@pytest.mark.parametrize(
    "kind,reason",
    [
        ("mixed", "an SVDF of int8, int8, int16, int8, int8"), ("state", "whose state of int16 has a zero point"),
        ("weights", "several scales or a zero point"), ("zero point", "a zero point beyond int8"),
    ],
)  # fmt: skip
def test_other_svdfs_are_left_to_litert_by_name(kind: str, reason: str, tmp_path: Path) -> None:
    (op,) = import_model(refused(kind, tmp_path / "svdf.tflite")).graph.ops
    assert isinstance(op, Interpreted)
    assert reason in op.reason


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    path, _ = saved(tmp_path, "plain")
    graph = graph_of(path)
    with pytest.raises(PlaceError, match="an SVDF that does not fit act; raise act_bytes"):
        recurrent_program(graph, CONFIG.replace(act_bytes=1024))
    with pytest.raises(PlaceError, match="an SVDF that does not fit acc; raise acc_bytes"):
        recurrent_program(graph, CONFIG.replace(acc_bytes=1024))


def test_float_svdfs_stay_with_the_interpreter(tmp_path: Path) -> None:
    """So do those with another activation, which LiteRT's integer kernel has not."""
    net = TfliteNet(seed=4)
    y = net.svdf(net.input((1, 6)), 7, 4)
    changed(net, fusedActivationFunction=0)
    (op,) = import_model(net.save(tmp_path / "svdf.tflite", [y])).graph.ops
    assert isinstance(op, Interpreted)
    assert "another activation than RELU" in op.reason


@pytest.mark.parametrize("name", ["pynq-z2", "tiny", "zcu104"])
@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("int8")])
def test_programs_of_int8_are_proven(case: str, name: str, tmp_path: Path) -> None:
    """A wrong weight over time, or bias, is seen by the algebra."""
    path, _ = saved(tmp_path, case)
    graph, op = graph_of(path), svdf_of(path)
    made = recurrent_program(graph, PRESETS[name])
    assert prove(made.graph, made.program, made.packs, made.unpacks).followed
    time, bias = op.time.copy(), op.bias.copy()
    time[0, -1] += 1
    bias[-1] += 1
    (stated,) = made.graph.ops
    for change in ({"time": time}, {"bias": bias}, {"state_zero_point": op.state_zero_point + 1}):
        other = replace(made.graph, ops=[replace(stated, **change)])
        with pytest.raises(ProofError):
            prove(other, made.program, made.packs, made.unpacks)


@pytest.mark.parametrize("memory", [1, 3])
def test_weights_of_one_are_proven_too(memory: int, tmp_path: Path) -> None:
    """Sums that are an int8 value as it is."""
    net = TfliteNet(seed=5)
    path = net.save(tmp_path / "svdf.tflite", [net.svdf(net.input((1, 6)), 6, memory, 1, "int8", bias=False)])
    graph, op = graph_of(path), svdf_of(path)
    feature = replace(op.feature, weight=np.eye(6, dtype=np.int8), bias=np.zeros(6, np.int64))
    time = np.eye(6, memory, dtype=np.int8) + np.eye(1, memory, dtype=np.int8)
    made = recurrent_program(replace(graph, ops=[replace(op, feature=feature, time=time)]), CONFIG)
    assert prove(made.graph, made.program, made.packs, made.unpacks).followed


def test_weights_over_time_that_are_computed_are_refused_by_name(tmp_path: Path) -> None:
    """Of int8: LiteRT would read past their end."""
    net = TfliteNet(seed=4)
    x, time = net.input((1, 6)), net.input((7, 4), scale=1 / 127, zero_point=0)
    y = net.svdf(x, 7, 4, 1, "int8")
    changed(net, input2=time.key)
    with pytest.raises(ModelError, match=r"operator 0 \(SVDF\): an SVDF with a state of int8, for which LiteRT has no"):
        tw.compile(net.save(tmp_path / "svdf.tflite", [y]), "tiny", cache=False)


@pytest.mark.filterwarnings("error")
def test_scales_of_zero_are_left_to_litert(tmp_path: Path) -> None:
    net = TfliteNet(seed=4)
    y = net.svdf(net.input((1, 6)), 7, 4)
    net.tensors[net.operators[-1].inputs[4]].scales = np.array([0.0])
    (op,) = import_model(net.save(tmp_path / "svdf.tflite", [y])).graph.ops
    assert isinstance(op, Interpreted)


def test_a_state_that_is_no_variable_is_refused_by_name(tmp_path: Path) -> None:
    net = TfliteNet(seed=4)
    y = net.svdf(net.input((1, 6)), 7, 4)
    net.tensors[net.operators[-1].inputs[4]].variable = False
    with pytest.raises(ModelError, match="nothing gives it before it is read"):
        import_model(net.save(tmp_path / "svdf.tflite", [y]))
