"""Resize by mode ``linear`` of 8-bit tensors, as they are or between Q/DQ pairs, equals ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tests.jit.source.onnx_nets import F, NetBuilder
from tests.jit.source.onnx_run import compared, interpreted, random_inputs, run
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.runtime import interpreters

CONTINUED = 0.0217  #: a scale whose multiples float32 rounds
SHORT = 3 * 2.0**-7  #: one whose multiples it does not
both = pytest.mark.parametrize("dtype", ["uint8", "int8"])


def resize(
    path: Path,
    dtype: str,
    shape: tuple[int, ...],
    size: tuple[int, int] | NDArray[np.float32],
    scales: tuple[float, float] | None,
    **attributes: Any,
) -> Path:
    """A Resize alone: to a size (or by factors), of values with the first scale to the second; None: no Q/DQ pair."""
    b = NetBuilder(3, activations=dtype, opset=attributes.pop("opset", 13))
    x = b.input(shape, dtype)
    by = isinstance(size, np.ndarray)
    after = tuple(int(n * f) for n, f in zip(shape, size, strict=True)) if by else (*shape[:2], *size)
    sizes = ["", b.constant(size)] if by else ["", "", b.constant(np.array(after, np.int64))]
    name = x if scales is None else b.dequantise(x, F(scales[0]), b.zero(5))
    y = b.op("Resize", [name, *sizes], mode="linear", **attributes)
    if scales is None:
        b.output(b.dequantise(y, F(SHORT), b.zero(0)), after)
    else:
        b.output(b.quantise(y, scales[1], 5), after, dtype)
    return b.save(path)


def assert_proven_for_all_pairs(path: Path, dtype: str) -> None:
    """A model of (1, 256, 256, 2): all pairs of neighbouring values."""
    source = OnnxSource(path)
    built = source.build({})
    assert interpreted(built) == {}
    assert all(layer.proven for layer in built.exactness)
    values = np.arange(256).astype(np.uint8).view(dtype)
    image = np.stack(np.meshgrid(values, values, indexing="ij"), axis=-1)[None]
    (wanted,) = interpreters.load("onnxruntime", path.read_bytes(), "whole")([image])
    assert np.array_equal(run(source, built, [image])[0], wanted)


@both
@pytest.mark.parametrize("scale", [2.0**-5, SHORT])
@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric", "pytorch_half_pixel"])
def test_ties_of_all_pairs_go_to_the_even_one(dtype: str, scale: float, mode: str, tmp_path: Path) -> None:
    """All pairs of values, in weights of quarters and halves: a quarter of the results are ties."""
    path = resize(
        tmp_path / "m.onnx", dtype, (1, 256, 256, 2), (256, 4), (scale, scale), coordinate_transformation_mode=mode
    )
    assert_proven_for_all_pairs(path, dtype)


@both
@pytest.mark.parametrize(
    ("size", "new", "attributes"),
    [
        ((8, 8), (16, 24), {"coordinate_transformation_mode": "align_corners"}),
        ((7, 5), (21, 15), {"coordinate_transformation_mode": "half_pixel"}),
        ((5, 6), np.array([1, 1, 3, 1], F), {"coordinate_transformation_mode": "asymmetric"}),
        ((4, 4), (1, 1), {"coordinate_transformation_mode": "pytorch_half_pixel"}),
        ((9, 9), (3, 3), {"coordinate_transformation_mode": "half_pixel", "opset": 18}),
    ],
    ids=str,
)
def test_weights_without_ties_keep_any_scale(
    dtype: str, size: tuple[int, int], new: Any, attributes: dict[str, Any], tmp_path: Path
) -> None:
    path = resize(tmp_path / "m.onnx", dtype, (1, 20, *size), new, (CONTINUED, CONTINUED), **attributes)
    _, built = compared(path)
    assert interpreted(built) == {}
    assert [layer.exact for layer in built.exactness] == [20], built.exactness


def test_sums_that_seldom_come_near_a_tie_fall_back_unless_close_results_are_asked_for(tmp_path: Path) -> None:
    path = resize(
        tmp_path / "m.onnx", "uint8", (1, 20, 128, 2), (256, 4), (CONTINUED, CONTINUED),
        coordinate_transformation_mode="align_corners",
    )  # fmt: skip
    _, built = compared(path)
    (reason,) = interpreted(built).values()
    assert "of the sums that a channel can reach" in reason
    close = OnnxSource(path, exact="close")
    built = close.build({})
    (layer,) = built.exactness
    assert interpreted(built) == {}
    (x,), whole = (
        random_inputs(built, np.random.default_rng(0)),
        interpreters.load("onnxruntime", path.read_bytes(), ""),
    )
    (got,), (wanted,) = run(close, built, [x]), whole([x])
    assert np.abs(got.astype(int) - wanted.astype(int)).max() <= layer.bound <= 1
    assert layer.worst < 0.01


def test_ties_that_float32_decides_stay_with_onnx_runtime(tmp_path: Path) -> None:
    path = resize(tmp_path / "m.onnx", "uint8", (1, 20, 8, 8), (16, 16), (CONTINUED, CONTINUED))
    _, built = compared(path)
    (reason,) = interpreted(built).values()
    assert "6.2 % of the sums" in reason


@both
@pytest.mark.parametrize("mode", ["half_pixel", "asymmetric"])
def test_the_fraction_is_dropped_without_a_pair(dtype: str, mode: str, tmp_path: Path) -> None:
    """Towards zero, which is down for uint8 alone."""
    path = resize(
        tmp_path / "m.onnx", dtype, (1, 256, 256, 2), (256, 4), None, coordinate_transformation_mode=mode
    )  # fmt: skip
    assert_proven_for_all_pairs(path, dtype)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"coordinate_transformation_mode": "align_corners"}, "by weights that float32 rounds"),
        ({"coordinate_transformation_mode": "half_pixel_symmetric", "opset": 19}, "with coordinates"),
        ({"antialias": 1, "opset": 18}, "against aliasing"),
    ],
    ids=str,
)
def test_what_is_not_known_stays_with_onnx_runtime(attributes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    path = resize(tmp_path / "m.onnx", "uint8", (1, 20, 8, 8), (16, 16), None, **attributes)
    _, built = compared(path)
    (given,) = interpreted(built).values()
    assert reason in given


@both
@pytest.mark.parametrize("scales", [None, (SHORT, SHORT)], ids=["as it is", "between pairs"])
def test_the_program_is_exact(dtype: str, scales: tuple[float, float] | None, tmp_path: Path) -> None:
    path = resize(tmp_path / "m.onnx", dtype, (1, 20, 6, 5), (12, 10), scales)
    exe = tw.compile(path, "tiny", cache=False)
    x = np.random.default_rng(1).integers(0, 256, (1, 20, 6, 5)).astype(np.uint8).view(dtype)
    (wanted,) = interpreters.load("onnxruntime", path.read_bytes(), "whole")([x])
    got, _ = exe.run(x)
    assert np.array_equal(got.reshape(wanted.shape), wanted)
    assert not any(step.kind == "interpreter" for step in exe.artifact.steps)
