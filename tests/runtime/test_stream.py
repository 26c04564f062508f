"""Streams: what one LiteRT interpreter gives that is invoked again and again, wherever states are kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="the test extra is not installed: pip install 'tilewright[test]'")

import tilewright as tw
from tests.fuzz import TfliteNet
from tests.jit.variables import branches, keep
from tests.runtime.network import TINY
from tests.runtime.remote.serving import serving
from tilewright.runtime import interpreters
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.executable import Executable, InputError
from tilewright.runtime.sim_device import SimDevice
from tilewright.runtime.steps import InterpreterStep, StepError
from tilewright.runtime.stream import StreamError

Array = NDArray[Any]


def lstm(path: Path, shape: tuple[int, ...] = (1, 3, 6), **fields: Any) -> Path:
    net = TfliteNet(seed=8)
    hidden = net.lstm(net.input(shape, scale=1 / 64), 5, **fields)
    return net.save(path, [hidden])


def variables(path: Path) -> Path:
    """Two accumulators in resource variables, with layers of the accelerator before and behind."""
    net = TfliteNet(seed=3)
    x, first, second = net.input((1, 8), scale=0.05), net.input((1, 6), scale=0.05), net.input((1, 6), scale=0.05)
    y = net.add(net.fully_connected(x, 6, scale=0.05, zero_point=0), first, scale=0.05, zero_point=0)
    z = net.add(y, second, scale=0.05, zero_point=0)
    path = net.save(path, [net.fully_connected(z, 4)])
    values = [np.full((1, 6), value, np.int8) for value in (5, -7)]
    return keep(path, {"a": (first, y, values[0]), "b": (second, z, values[1])})


def mixed(path: Path) -> Path:
    """An LSTM of the accelerator, another of the CPU (its cell has more fraction than programs know), and a layer."""
    net = TfliteNet(seed=5)
    x = net.lstm(net.input((1, 2, 6), scale=1 / 64), 7)
    return net.save(path, [net.fully_connected(net.lstm(x, 4, cell_bits=10), 3)])


MODELS: dict[str, Callable[[Path], Path]] = {
    "LSTM": lstm,
    "LSTM of several sequences": lambda path: lstm(path, (3, 2, 6)),
    "LSTM, time first": lambda path: lstm(path, (2, 3, 6), time_major=True),
    "LSTM of single steps": lambda path: lstm(path, (1, 1, 6)),
    "variables": variables,
    "LSTMs here and there": mixed,
}


class Reference:
    """One interpreter, which goes on."""

    def __init__(self, path: Path) -> None:
        self.content = path.read_bytes()
        self.interpreter = interpreters.load("litert", self.content, str(path))

    def run(self, x: Array) -> Array:
        """Of inputs (N, *shape), one after another."""
        return np.stack([self.interpreter([row])[0] for row in x])


def inputs(executable: Executable, count: int, seed: int = 0) -> Array:
    (tensor,) = executable.inputs
    shape = tensor.shape[1:] if tensor.shape[0] == 1 else tensor.shape
    return np.random.default_rng(seed).integers(-128, 128, (count, *shape)).astype(np.int8)


def assert_equal(got: Array, wanted: Array) -> None:
    np.testing.assert_array_equal(got, wanted.reshape(got.shape))


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Executable]:
    path = MODELS[request.param](tmp_path_factory.mktemp("models") / "model.tflite")
    return path, tw.compile(path, TINY, cache=False)


def test_fresh_continued_and_reset(model: tuple[Path, Executable]) -> None:
    path, executable = model
    assert executable.stateful
    x = inputs(executable, 7)
    with executable.stream() as stream:
        reference = Reference(path)
        first, report = stream.run(x[:1])
        assert_equal(first, reference.run(x[:1]))
        assert report.inferences == 1
        assert report.to_dict()["stream"]
        assert any("went on" in note for note in report.notes)
        assert_equal(stream(x[1:5]), reference.run(x[1:5]))
        assert_equal(stream(x[5:]), reference.run(x[5:]))
        stream.reset()
        assert_equal(stream(x[2:]), Reference(path).run(x[2:]))
    fresh = np.concatenate([Reference(path).run(row[None]) for row in x])
    assert_equal(executable(x), fresh)
    assert (Reference(path).run(x) != fresh).any()


def test_prepared_calls_begin_afresh(model: tuple[Path, Executable]) -> None:
    _, executable = model
    x = inputs(executable, 4)
    with executable.prepare() as infer:
        assert_equal(np.concatenate([infer(row[None]) for row in x]), executable(x))
    with executable.prepare(2) as infer:
        assert_equal(np.concatenate([infer(x[:2]), infer(x[2:])]), executable(x))


def test_streams_side_by_side_do_not_mix(model: tuple[Path, Executable]) -> None:
    path, executable = model
    x = [inputs(executable, 4, seed) for seed in range(3)]
    streams, references = [executable.stream() for _ in x], [Reference(path) for _ in x]
    for k in range(4):
        for stream, reference, values in zip(streams, references, x, strict=True):
            assert_equal(stream(values[k : k + 1]), reference.run(values[k : k + 1]))
            assert_equal(executable(values[:1]), Reference(path).run(values[:1]))


def test_an_artifact_streams(model: tuple[Path, Executable], tmp_path: Path) -> None:
    path, executable = model
    executable.save(tmp_path / "model.twa")
    loaded, x = tw.load(tmp_path / "model.twa"), inputs(executable, 4)
    assert_equal(loaded.stream()(x), Reference(path).run(x))


def test_lstms_are_where_they_should_be(tmp_path: Path) -> None:
    artifact = tw.compile(mixed(tmp_path / "m.tflite"), TINY, cache=False).artifact
    assert [e["place"] for e in artifact.options["operators"]] == ["accelerator", "interpreter", "accelerator"]
    assert len(artifact.states) == 3
    assert sum(isinstance(step, InterpreterStep) and step.stateful for step in artifact.steps) == 1


def test_reset_is_litert_s_for_variable_tensors(tmp_path: Path) -> None:
    """Resource variables LiteRT's own reset leaves as they are; here they begin anew."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    path = lstm(tmp_path / "m.tflite")
    executable = tw.compile(path, TINY, cache=False)
    one = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    one.allocate_tensors()
    stream, x = executable.stream(), inputs(executable, 5)
    for row in x:
        for _ in range(2):
            one.set_tensor(one.get_input_details()[0]["index"], row[None])
            one.invoke()
            assert_equal(stream(row[None]), one.get_tensor(one.get_output_details()[0]["index"]))
        one.reset_all_variables()
        stream.reset()


def test_a_variable_of_a_branch(tmp_path: Path) -> None:
    """Other subgraphs than the main one keep it."""
    path = branches(tmp_path / "m.tflite")
    executable = tw.compile(path, TINY, cache=False)
    assert executable.stateful
    conditions, x = np.array([False, True, False, False, True, False]), np.arange(24, dtype=np.int8).reshape(6, 4)
    reference = interpreters.load("litert", path.read_bytes(), "branches")
    wanted = np.concatenate([reference([c, row])[0] for c, row in zip(conditions, x, strict=True)])
    assert_equal(executable.stream()([conditions, x]), wanted)
    assert_equal(executable([conditions, x])[3], np.full(4, 9))


def test_a_stream_on_a_server(tmp_path: Path) -> None:
    """The server has the device, the client the states; others use it between the calls."""
    path = mixed(tmp_path / "m.tflite")
    artifact = tw.compile(path, TINY, cache=False).artifact
    with serving(SimDevice(TINY)) as running:
        ones = [Executable(artifact, running.client()).stream() for _ in range(2)]
        x, references = inputs(Executable(artifact), 4), [Reference(path) for _ in ones]
        for row in x:
            for stream, reference in zip(ones, references, strict=True):
                assert_equal(stream(row[None]), reference.run(row[None]))


def test_a_network_without_states_streams_as_it_runs(tmp_path: Path) -> None:
    net = TfliteNet(seed=1)
    executable = tw.compile(net.save(tmp_path / "m.tflite", [net.fully_connected(net.input((1, 8)), 4)]), TINY)
    x = inputs(executable, 3)
    assert not executable.stateful
    assert_equal(executable.stream()(x), executable(x))


def test_a_run_that_fails_ends_the_stream_until_it_is_reset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lstm(tmp_path / "m.tflite")
    executable = tw.compile(path, TINY, cache=False)
    stream, x = executable.stream(), inputs(executable, 3)
    stream.run(x[:1])
    with pytest.raises(InputError):
        stream.run(x.astype(np.int16))
    assert_equal(stream(x[1:2]), Reference(path).run(x[:2])[1:])
    with monkeypatch.context() as patch:
        patch.setattr(executable.device, "_wait", lambda *_: (_ for _ in ()).throw(TimeoutError("gone")))
        with pytest.raises(TimeoutError):
            stream.run(x[2:])
    with pytest.raises(StreamError, match="reset it"):
        stream.run(x[2:])
    stream.reset()
    assert_equal(stream(x), Reference(path).run(x))


def test_programs_that_keep_no_states_are_refused_by_name(tmp_path: Path) -> None:
    artifact = tw.compile(lstm(tmp_path / "m.tflite"), TINY, cache=False).artifact
    with pytest.raises(StreamError, match="compile the model again"):
        Executable(dataclasses.replace(artifact, states=()), verified=True).stream()


@pytest.mark.parametrize(
    "changes,said",
    [
        ({"dtype": "int16"}, "not int8"),
        ({"zero_point": 128}, "not int8"),
        ({"shape": (1, 1, 1, 6)}, "does not hold"),
        ({"name": "t0"}, "the name of another tensor"),
        ({"name": "nothing"}, "there is no tensor"),
    ],
)
def test_states_of_another_form_are_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    artifact = tw.compile(lstm(tmp_path / "m.tflite"), TINY, cache=False).artifact
    (hidden, *others) = artifact.states
    assert artifact.inputs[0].name == "t0"
    bad = dataclasses.replace(artifact, states=(dataclasses.replace(hidden, **changes), *others))
    with pytest.raises(StepError, match=said):
        Executable(Artifact.from_bytes(bad.to_bytes()))
