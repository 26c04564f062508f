"""``tw.compile`` on real networks and on graphs whose edges need host steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.conftest import REPOSITORY, ModelCase
from tests.jit.onnx_models import QdqBuilder
from tests.jit.source.onnx_nets import NetBuilder
from tilewright.checking import reference_outputs
from tilewright.files import CACHE_VARIABLE
from tilewright.runtime.artifact import accelerator_layers

NETWORKS = ["autoencoder_toycar", "dscnn_keywords"]
LARGE = ["resnet8_cifar10", "mobilenet_person"]


@pytest.mark.parametrize("name", [*NETWORKS, *(pytest.param(n, marks=pytest.mark.slow) for n in LARGE)])
def test_real_networks_equal_the_reference_in_every_layer(
    name: str, model_case: Callable[[str], ModelCase], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    case = model_case(name)
    exe = tw.compile(case.model, "pynq-z2", keep_intermediates=True)
    y, report = exe.run(case.x[:8], keep_intermediates=tmp_path / "layers")
    assert np.array_equal(y, case.y[:8])
    assert sum(layer["cycles"] for layer in report.layers) == report.cycles
    assert case.layers is not None
    expected = {key: value for key, value in case.layers.items() if key.endswith("_out")}
    stored = json.loads((tmp_path / "layers" / "index.json").read_text())
    found = {f"{entry['operator'][:5]}_out": np.load(tmp_path / "layers" / entry["file"])[0] for entry in stored}
    assert set(found) == set(expected)
    for key, value in expected.items():
        assert np.array_equal(found[key].reshape(-1), value.reshape(-1)), key


def test_an_exported_artifact_gives_the_same(
    model_case: Callable[[str], ModelCase], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    case = model_case("autoencoder_toycar")
    tw.compile(case.model).save(tmp_path / "a.twa")
    exe = tw.load(tmp_path / "a.twa")
    assert np.array_equal(exe(case.x), case.y)


def mixed_model(path: Path) -> Path:
    """A convolution, a softmax that has no exact integer lowering, and another convolution."""
    b = QdqBuilder(seed=3)
    y = b.quantised(b.conv(b.input([1, 4, 6, 6]), (8, 4, 3, 3), pads=[1, 1, 1, 1]), 0.05, 3)
    z = b.quantised(b.node("Softmax", [y], axis=2), 1 / 256, -128)
    return b.save(path, b.quantised(b.conv(z, (4, 8, 1, 1)), 0.02, -5), [1, 4, 6, 6])


def test_what_has_no_integer_form_runs_in_the_interpreter_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    path = mixed_model(tmp_path / "mixed.onnx")
    exe = tw.compile(path, "tiny")
    x = np.random.default_rng(0).normal(0, 1, (3, 4, 6, 6)).astype(np.float32)
    y, report = exe.run(x)
    (wanted,) = reference_outputs(path, [x])
    np.testing.assert_array_equal(y, wanted)
    places = {layer["op"]: (layer["place"], layer.get("reason")) for layer in report.layers}
    assert places["Softmax"][0] == "host"
    assert places["Softmax"][1]
    assert places["Conv"][0] == "accelerator"
    assert len(report.runs) == 2
    assert sum(layer["cycles"] for layer in report.layers) == report.cycles > 0
    assert report.timings.launch_s > 0
    exe.save(tmp_path / "mixed.twa")
    assert np.array_equal(tw.load(tmp_path / "mixed.twa")(x), y)
    assert len(accelerator_layers(exe.artifact)) == sum(layer["place"] == "accelerator" for layer in report.layers)


def test_a_mixed_artifact_runs_in_a_process_that_has_no_compiler_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    exe = tw.compile(mixed_model(tmp_path / "mixed.onnx"), "tiny")
    exe.save(tmp_path / "mixed.twa")
    x = np.random.default_rng(1).normal(0, 1, (2, 4, 6, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys, numpy as np, tilewright as tw\n"
        "y = tw.load('mixed.twa')(np.load('x.npy'))\n"
        "assert not any(name.startswith('tilewright.jit') for name in sys.modules)\n"
        "np.save('y.npy', y)"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
    assert np.array_equal(np.load(tmp_path / "y.npy"), exe(x))


def test_outputs_have_the_names_of_the_file(tmp_path: Path) -> None:
    """Those of ``.onnx``, integers and floats, one of which another operator reads too."""
    b = NetBuilder(seed=1)
    x = b.real_input((1, 3, 6, 6))
    first = b.fitted(b.conv(x, 4), (1, 4, 4, 4), 2.0)
    second = b.fitted(b.op("MaxPool", [first.name], kernel_shape=[2, 2]), (1, 4, 3, 3), 2.0)
    quantised = b.quantise(second.name, 0.05, 0)
    b.output(second.name, second.shape)
    b.output(quantised, second.shape, "uint8")
    b.output(first.name, first.shape)
    exe = tw.compile(b.save(tmp_path / "m.onnx"), "tiny", cache=False)
    outputs = [second.name, quantised, first.name]
    assert [tensor.name for tensor in exe.outputs] == outputs
    exe.save(tmp_path / "m.twa")
    again = tw.load(tmp_path / "m.twa")
    assert again.outputs == exe.outputs
    assert [tensor.dtype for tensor in again.outputs] == ["float32", "uint8", "float32"]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_integers_that_nothing_quantises_stand_for_themselves(dtype: str, tmp_path: Path) -> None:
    """Beside others of ``.onnx`` that have a scale."""
    b = NetBuilder(seed=1)
    x = b.input((1, 4), dtype)
    real = b.real_input((1, 4))
    b.output(b.op("Transpose", [x]), (4, 1), dtype)
    b.output(b.pair(b.op("Relu", [real.name]), (1, 4), 0.5, 3).name, (1, 4))
    exe = tw.compile(b.save(tmp_path / "m.onnx"), "tiny", cache=False)
    for tensor in (exe.inputs[0], exe.outputs[0]):
        assert (tensor.dtype, tensor.scale, tensor.zero_point) == (dtype, 1.0, 0)


def test_equal_models_give_equal_files(tmp_path: Path) -> None:
    """Whatever order sets have, however long it takes: a file can be named by its checksum."""
    code = "import sys, tilewright as tw; tw.compile(sys.argv[1], 'tiny', cache=False).save(sys.argv[2])"
    digits, files = REPOSITORY / "examples" / "digits" / "digits.onnx", []
    for seed in ("1", "2"):
        files.append(tmp_path / f"{seed}.twa")
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, digits, files[-1]], check=True, env=environment, timeout=600)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert tw.load(files[0]).artifact.compile_seconds == 0
