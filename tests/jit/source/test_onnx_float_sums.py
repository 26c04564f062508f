"""Layers that ONNX Runtime computes in float32: biases with numbers of their own, and what is said of the sums."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, interpreted, kinds, run
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.layers.builder import Output, Quantisation
from tilewright.jit.source import Built
from tilewright.jit.source.onnx.float_sums import FloatSums
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.runtime import interpreters

ACTIVATIONS = pytest.mark.parametrize("activations", ["uint8", "int8"])
CHANNELS = 16


@ACTIVATIONS
@pytest.mark.parametrize("scale,zero", [(0.01, 0), (None, 500), (0.01, 7)])
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose", "Gemm"])
def test_bias_with_numbers_of_its_own(
    kind: str, scale: float | None, zero: int, activations: str, tmp_path: Path
) -> None:
    """Its meaning is (b - zero) * scale: ONNX Runtime then computes in float32; integer Gemm takes it as it is."""
    b = NetBuilder(1, activations)
    image = kind != "Gemm"
    x = b.real_input((1, 5, 6, 6) if image else (1, 5))
    weight, scales = b.weight((5, 5, 3, 3) if image else (5, 5), per_channel=False)
    unit = F(x.scale) * scales if scale is None else F(scale)
    bias = b.dequantise(b.constant(np.arange(5, dtype=np.int32) * 90), unit, np.int32(zero))
    y = b.op(kind, [x.name, weight, bias])
    shape = {"Conv": (1, 5, 4, 4), "ConvTranspose": (1, 5, 8, 8), "Gemm": (1, 5)}[kind]
    b.output(b.pair(y, shape, 0.05, 3).name, shape)
    _, built = compared(b.save(tmp_path / "m.onnx"), count=8)
    assert interpreted(built) == {}
    assert kinds(built) == ["Conv2D"]
    assert all(layer.proven or layer.bound == 1 for layer in built.exactness)


@ACTIVATIONS
@pytest.mark.parametrize("kind", ["Conv", "Gemm"])
@pytest.mark.parametrize("alone", [False, True])
def test_a_bias_that_layers_share_leaves_them_on_the_accelerator(
    kind: str, alone: bool, activations: str, tmp_path: Path
) -> None:
    """Exporters merge equal constants, and ONNX Runtime's quantiser states such a bias in the unit of one layer, or
    (``alone``) a file has it in the unit of none."""
    b, image = NetBuilder(1, activations), kind == "Conv"
    x = b.real_input((1, 5, 6, 6) if image else (1, 5))
    heads = [b.weight((5, 5, 3, 3) if image else (5, 5), per_channel=False) for _ in range(3)]
    unit = F(x.scale) * heads[0][1] * F(0.7 if alone else 1)
    bias = b.dequantise(b.constant(np.arange(5, dtype=np.int32) * 90), unit, np.int32(0))
    shape = (1, 5, 4, 4) if image else (1, 5)
    for weight, _ in heads:
        b.output(b.pair(b.op(kind, [x.name, weight, bias]), shape, 0.05, 3).name, shape)
    _, built = compared(b.save(tmp_path / "m.onnx"), count=8)
    assert not interpreted(built)
    assert kinds(built).count("Conv2D") == 3


def every_pair(rng: np.random.Generator, path: Path, activations: str, powers: bool) -> tuple[Built, NDArray[np.int64]]:
    """A convolution of two channels with a bias of its own, and by how much its results for all pairs differ."""

    def number(low: float, high: float) -> np.float32:
        value = rng.uniform(low, high)
        return F(2.0 ** np.rint(value) if powers else 2.0**value)

    b = NetBuilder(1, activations)
    x = b.input((1, 2, 256, 256), activations)
    scale, scales = number(-8, 0), np.array([number(-8, 0) for _ in range(CHANNELS)])
    image = b.dequantise(x, scale, b.zero(int(rng.integers(-128, 128))))
    values = rng.integers(-100, 101, (CHANNELS, 2, 1, 1)).astype(np.int8)
    weight = b.dequantise(b.constant(values), scales, np.zeros(CHANNELS, np.int8), axis=0)
    given = rng.integers(-2000, 2000, CHANNELS).astype(np.int32)
    bias = b.dequantise(b.constant(given), number(-8, -4), np.int32(rng.integers(-5, 5)))
    y = b.op("Conv", [image, weight, bias])
    if rng.random() < 0.3:
        y = b.op("Relu", [y])
    b.output(b.quantise(y, float(100 * scale * scales.mean()), int(rng.integers(-90, 90))), (1, CHANNELS, 256, 256))
    b.outputs[0].type.tensor_type.elem_type = {"uint8": 2, "int8": 3}[activations]
    b.save(path)
    source = OnnxSource(path)
    built = source.build({})
    values = np.arange(256).astype(np.uint8).view(activations)
    pairs = np.stack(np.meshgrid(values, values, indexing="ij"))[None]
    (wanted,) = interpreters.load("onnxruntime", path.read_bytes(), "whole")([pairs])
    return built, np.abs(run(source, built, [pairs])[0].astype(np.int64) - wanted)


@ACTIVATIONS
@pytest.mark.parametrize("seed", range(4))
def test_no_more_channels_differ_than_is_said(seed: int, activations: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    built, difference = every_pair(rng, tmp_path / "m.onnx", activations, powers=False)
    assert interpreted(built) == {}
    (layer,) = built.exactness
    assert layer.exact > 0
    assert int(difference.any(axis=(0, 2, 3)).sum()) <= layer.channels - layer.exact
    assert difference.max() <= layer.bound


@ACTIVATIONS
@pytest.mark.parametrize("seed", range(4))
def test_sums_of_powers_of_two_are_proven_with_any_such_bias(seed: int, activations: str, tmp_path: Path) -> None:
    """Nothing is rounded but the quotient, ties included, whatever the result's scale."""
    rng = np.random.default_rng(seed + 100)
    built, difference = every_pair(rng, tmp_path / "m.onnx", activations, powers=True)
    assert interpreted(built) == {}
    assert all(layer.proven for layer in built.exactness)
    assert not difference.any()


@pytest.mark.parametrize("shape", [(5, 1), (1, 5), (5,), (1,), (1, 1)])
def test_a_bias_by_rows_is_none_by_channels(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Gemm adds whatever broadcasts; five rows of five channels tell both apart."""
    b = NetBuilder(1, "int8")
    x = b.real_input((1, 5, 5))
    rows = b.op("Reshape", [x.name, b.constant(np.array([5, 5]))])
    weight, _ = b.weight((5, 5), per_channel=False)
    bias = b.dequantise(b.constant((np.arange(np.prod(shape)) * 90).astype(np.int32).reshape(shape)), 0.01, np.int32(0))
    b.output(b.pair(b.op("Gemm", [rows, weight, bias]), (5, 5), 0.05, 3).name, (5, 5))
    compared(b.save(tmp_path / "m.onnx"), count=8)


def test_a_bias_beyond_all_proportion_stays_with_onnx_runtime(tmp_path: Path) -> None:
    b = NetBuilder(1, "int8")
    x = b.real_input((1, 5, 3, 3))
    weight, _ = b.weight((5, 5, 3, 3))
    bias = b.dequantise(b.constant(np.full(5, 1 << 30, np.int32)), 7.0, np.int32(0))
    b.output(b.pair(b.op("Conv", [x.name, weight, bias]), (1, 5, 1, 1), 0.05, 3).name, (1, 5, 1, 1))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert list(interpreted(built).values()) == ["a bias that is large beside the unit of the sum"]


@pytest.mark.parametrize(("bias", "proven"), [(1 << 23, True), ((1 << 24) + 2, False), (-(1 << 24) - 2, False)])
def test_a_bias_takes_digits_of_float32_from_the_sums(bias: int, proven: bool) -> None:
    """One that alone is beyond 24 bits of the unit leaves sums that are no float32 numbers, here next to a tie."""
    unit = 2.0**-8
    given = np.array([bias * unit], F)
    assert float(given[0]) == bias * unit
    sums = FloatSums.of(Quantisation(2.0**-4, 0), np.array([[1, 1]]), np.array([2.0**-4]), given)
    out = Output(Quantisation(abs(bias) * unit / 100.5, 0))
    site: Any = SimpleNamespace(builder=SimpleNamespace(exactness=[LayerExactness("sum", "onnxruntime", 1, 1)]))
    sums.state(site, out)
    (entry,) = site.builder.exactness
    assert entry.proven == proven
    assert proven or entry.bound >= 1
