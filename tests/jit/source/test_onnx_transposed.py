"""ConvTranspose between Q/DQ pairs, of any strides, paddings and groups, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.fuzz.onnx_net import OnnxNet
from tests.jit.source.onnx_run import difference, interpreted
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.runtime import interpreters


def network(path: Path, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    groups, depth, channels = int(rng.choice([1, 1, 2, 4])), 4 * int(rng.integers(1, 4)), 4 * int(rng.integers(1, 4))
    kernel = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    strides = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    net = OnnxNet(seed=seed, dtype=("int8", "uint8")[seed % 2])
    y = net.conv_transpose(
        net.input((1, depth, int(rng.integers(2, 7)), int(rng.integers(2, 7)))), channels, kernel=kernel,
        stride=strides, pads=[int(rng.integers(0, (kernel[a % 2] + 1) // 2)) for a in range(4)], groups=groups,
        output_padding=(int(rng.integers(0, strides[0])), int(rng.integers(0, strides[1]))), per_channel=bool(seed % 3),
    )  # fmt: skip
    return net.save(path, [y])


def test_random_ones_equal_onnx_runtime(tmp_path: Path) -> None:
    """float32 sums of few terms, which do not come near a tie in these."""
    for seed in range(25):
        path = network(tmp_path / "m.onnx", seed)
        source = OnnxSource(path)
        built = source.build({})
        assert not interpreted(built)
        assert difference(path, source, built, 2) == 0


@pytest.mark.parametrize("stride", [1, 3])
def test_pads_beyond_the_kernel_leave_pixels_out(stride: int, tmp_path: Path) -> None:
    net = OnnxNet(seed=stride, dtype="int8")
    y = net.conv_transpose(
        net.input((1, 5, 6, 7)), 6, kernel=(2, 3), stride=stride, pads=(3, 2, 1, 4), output_padding=stride // 2
    )
    path = net.save(tmp_path / "m.onnx", [y])
    exe = tw.compile(path, "tiny", cache=False)
    assert "interpreter" not in {layer["place"] for layer in exe.run(np.zeros((1, 5, 6, 7), np.int8))[1].layers}
    x = np.random.default_rng(stride).integers(-128, 128, (1, 5, 6, 7)).astype(np.int8)
    (wanted,) = interpreters.load("onnxruntime", path.read_bytes(), "whole")([x])
    np.testing.assert_array_equal(np.reshape(exe.run(x)[0], wanted.shape), wanted)


@pytest.mark.parametrize("seed", [3, 4])
def test_on_the_accelerator(seed: int, tmp_path: Path) -> None:
    path = network(tmp_path / "m.onnx", seed)
    exe = tw.compile(path, "tiny", cache=False)
    (spec,) = exe.inputs
    x = np.random.default_rng(seed).integers(0, 127, spec.shape).astype(spec.dtype)
    (wanted,) = interpreters.load("onnxruntime", path.read_bytes(), "whole")([x])
    np.testing.assert_array_equal(np.reshape(exe.run(x)[0], wanted.shape), wanted)


def test_what_is_to_be_proven_is_left_to_onnx_runtime(tmp_path: Path) -> None:
    source = OnnxSource(network(tmp_path / "m.onnx", 3), exact="proven")
    assert interpreted(source.build({}))
