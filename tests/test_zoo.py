"""The zoo of odd real networks: every one runs, and all outputs equal the reference interpreter's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from bench.bench_networks import run, stored
from tilewright.checking import reference_outputs
from tilewright.files import CACHE_VARIABLE
from tilewright.jit.source.tflite.cut import cut
from tilewright.jit.source.tflite.source import TfliteSource

SMALL = [
    "cifar10_tinymaix", "dcgan_discriminator", "hello_world", "keyword_svdf", "lstm_mnist_keras", "lstm_mnist_tflm",
    "micro_speech", "mnist_resnet", "mul_int8", "split_concat", "ssd_head_uint8", "toy_transpose_conv",
    "wakeword_nabu",
]  # fmt: skip
LARGE = [
    "dcgan_generator", "deeplab_dm05_uint8", "detection_mcunet", "lenet300", "mobilenet_v1_025_128_uint8",
    "mobilenet_v1_025_96", "movenet_lightning", "vww_mcunet",
]  # fmt: skip


@pytest.fixture
def zoo(shared_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A model of the zoo by name, with a cache of the test's own."""
    pytest.importorskip("ai_edge_litert")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))

    def model(name: str) -> Path:
        path = shared_models / "zoo" / f"{name}.tflite"
        if not path.exists():
            pytest.skip(f"{path} is not there")
        return path

    return model


@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(n, marks=pytest.mark.slow) for n in LARGE)])
def test_every_output_is_equal(name: str, zoo: Callable[[str], Path]) -> None:
    path = zoo(name)
    exe = tw.compile(path)
    outputs, expected, report = run(exe, *stored(path.with_suffix(".npz")))
    assert expected
    for got, wanted in zip(outputs, expected, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
    operators = exe.artifact.options["operators"]
    assert all(entry["exact"] in ("proven", "by construction") for entry in operators)
    assert [entry["name"] for entry in operators] == sorted(entry["name"] for entry in operators)
    known = (
        "runs on the CPU, exactly", "MACs run on the accelerator", "MACs are left out",
        "compared with the reference on some inputs", "were reset for each inference; --stream",
    )  # fmt: skip
    assert all(any(text in note for text in known) for note in report.notes)


@pytest.mark.parametrize("name", ["keyword_svdf", "lstm_mnist_keras", "lstm_mnist_tflm", "wakeword_nabu"])
def test_streams_are_equal(name: str, zoo: Callable[[str], Path], tmp_path: Path) -> None:
    """Fresh, continued and reset, layers inside included: probabilities alone are mostly 0 or 1."""
    path = with_layers(zoo(name), tmp_path / "model.tflite")
    executable = tw.compile(path)
    assert executable.stateful
    (tensor,) = executable.inputs
    limits, rng = np.iinfo(tensor.dtype), np.random.default_rng(0)
    x = np.stack([rng.integers(limits.min // 4, limits.max // 4, tensor.shape[1:]) for _ in range(5)]).astype(
        tensor.dtype
    )
    with executable.stream() as stream:
        first, second = stream(x[:2]), stream(x[2:])
        stream.reset()
        again = stream(x)
    continued, fresh = (reference_outputs(path, [x], stream=stream) for stream in (True, False))
    for a, b, c, wanted in zip(first, second, again, continued, strict=True):
        np.testing.assert_array_equal(np.concatenate([a, b]), wanted)
        np.testing.assert_array_equal(c, wanted)
    for got, wanted in zip(executable(x), fresh, strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert any(len(np.unique(y)) > 20 for y in continued)
    assert any((a != b).any() for a, b in zip(continued, fresh, strict=True))


def with_layers(model: Path, path: Path) -> Path:
    """A copy that gives the results of its weighted layers too. Biases of SVDFs are left out: the zoo's are drawn at
    random, and saturate whatever the input is."""
    source = TfliteSource(model)
    for op in source.file.operators:
        if op.kind == "SVDF":
            source.file.model.subgraphs[0].operators[op.index].inputs = [*op.inputs[:3], -1, op.inputs[4]]
    kinds = ("CONV_2D", "FULLY_CONNECTED", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM")
    layers = [op.outputs[0] for op in source.file.operators if op.kind in kinds]
    everything = [op.index for op in source.file.operators]
    outputs = list(dict.fromkeys([*source.file.outputs, *layers]))
    path.write_bytes(cut(source.file, everything, source.file.inputs, outputs, {}, {}))
    return path
