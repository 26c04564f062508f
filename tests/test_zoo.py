"""The zoo of odd real networks: every one runs, and all outputs equal the reference interpreter's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from bench.bench_networks import run, stored
from tilewright.files import CACHE_VARIABLE

SMALL = [
    "cifar10_tinymaix", "dcgan_discriminator", "hello_world", "keyword_svdf", "lstm_mnist_keras", "lstm_mnist_tflm",
    "micro_speech", "mnist_resnet", "mul_int8", "split_concat", "ssd_head_uint8", "toy_transpose_conv",
    "wakeword_nabu",
]  # fmt: skip
LARGE = [
    "dcgan_generator", "deeplab_dm05_uint8", "detection_mcunet", "lenet300", "mobilenet_v1_025_128_uint8",
    "mobilenet_v1_025_96", "movenet_lightning", "vww_mcunet",
]  # fmt: skip


@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(n, marks=pytest.mark.slow) for n in LARGE)])
def test_every_output_is_equal(name: str, shared_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert")
    path = shared_models / "zoo" / f"{name}.tflite"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
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
        "compared with the reference on some inputs",
    )  # fmt: skip
    assert all(any(text in note for text in known) for note in report.notes)
