"""Resizing and transposed convolution on the accelerator, equal to LiteRT's kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.jit.builder import sampling
from tests.jit.source.test_tflite_source import assert_equal, conv, places
from tests.jit.tflite_models import RELU, SAME, VALID, TfliteBuilder
from tilewright.jit.kernels.resample import Runs

RESIZES = {"RESIZE_BILINEAR": "ResizeBilinearOptions", "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions"}
#: (align_corners, half_pixel_centers)
CONVENTIONS = [(False, False), (True, False), (False, True)]


@pytest.mark.parametrize("sizes", [((4, 5), (8, 10)), ((3, 4), (7, 5)), ((6, 9), (3, 3)), ((1, 1), (4, 3))])
@pytest.mark.parametrize("convention", CONVENTIONS, ids=["edges", "corners", "centers"])
@pytest.mark.parametrize("kind", list(RESIZES))
def test_an_image_resized_between_convolutions(
    kind: str, convention: tuple[bool, bool], sizes: tuple[tuple[int, int], tuple[int, int]], tmp_path: Path
) -> None:
    b = TfliteBuilder(seed=3)
    (height, width), out = sizes
    x = b.tensor([1, height, width, 4], 0.04, -3)
    y = conv(b, x, 6, [1, height, width])
    size = b.constant(np.array(out, np.int32))
    z = b.tensor([1, *out, 6], 0.09, 4)
    corners, centers = convention
    b.op(kind, [y, size], z, RESIZES[kind], AlignCorners=corners, HalfPixelCenters=centers)
    path = b.save(tmp_path / "m.tflite", [x], [conv(b, z, 5, [1, *out])])
    assert places(assert_equal(path))[kind] == "accelerator"  # in tiles where prm has no room for all weights


@pytest.mark.parametrize("kind", list(RESIZES))
def test_uint8(kind: str, tmp_path: Path) -> None:
    b = TfliteBuilder(seed=4)
    x = b.tensor([1, 5, 6, 3], 0.04, 120, "uint8")
    size = b.constant(np.array([10, 12], np.int32))
    y = b.op(kind, [x, size], b.tensor([1, 10, 12, 3], 0.04, 120, "uint8"), RESIZES[kind], HalfPixelCenters=True)
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [y]), count=5)
    assert places(artifact) == {kind: "accelerator"}


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize("kernel", [(2, 2), (3, 3), (5, 4)])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (3, 2)])
def test_transposed_convolution(
    strides: tuple[int, int], kernel: tuple[int, int], padding: int, tmp_path: Path
) -> None:
    if padding == VALID:
        out = [(size - 1) * s + max(k, s) for size, s, k in zip((4, 5), strides, kernel, strict=True)]
    else:
        out = [size * s for size, s in zip((4, 5), strides, strict=True)]
    b = TfliteBuilder(seed=5)
    x = b.tensor([1, 4, 5, 4], 0.04, -3)
    y = conv(b, x, 6, [1, 4, 5])
    shape = b.constant(np.array([1, *out, 7], np.int32))
    w, scales = b.weights([7, *kernel, 6], 0)
    z = b.tensor([1, *out, 7], 0.3, -9)
    options = {"Padding": padding, "StrideH": strides[0], "StrideW": strides[1], "FusedActivationFunction": RELU}
    b.op("TRANSPOSE_CONV", [shape, w, y, b.bias(y, scales, 7)], z, "TransposeConvOptions", **options)
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [conv(b, z, 5, [1, *out])]))
    assert set(places(artifact).values()) == {"accelerator"}


@pytest.mark.parametrize(("size", "kernel", "stride"), [(4, 3, 2), (1, 5, 4), (3, 1, 3), (2, 2, 4), (5, 4, 3)])
@pytest.mark.parametrize("padding", [SAME, VALID])
def test_transposed_convolutions_of_any_size(padding: int, size: int, kernel: int, stride: int, tmp_path: Path) -> None:
    """All sizes that a convolution of the same geometry takes to the input's."""
    least = (size - 1) * stride + (1 if padding == SAME else kernel)
    b = TfliteBuilder(seed=7)
    x = b.tensor([1, size, 3, 4], 0.04, -3)
    w, scales = b.weights([5, kernel, 2, 4], 0)
    bias, made = b.bias(x, scales, 5), []
    options = {"Padding": padding, "StrideH": stride, "StrideW": 2, "FusedActivationFunction": RELU}
    for out in range(least, least + stride):
        shape = b.constant(np.array([1, out, 6, 5], np.int32))
        made.append(b.tensor([1, out, 6, 5], 0.1, -9))
        b.op("TRANSPOSE_CONV", [shape, w, x, bias], made[-1], "TransposeConvOptions", **options)
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], made))
    assert set(places(artifact).values()) == {"accelerator"}


def test_an_image_that_does_not_fit_whole(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=6)
    x = b.tensor([1, 64, 64, 4], 0.04, -3)
    size = b.constant(np.array([128, 128], np.int32))
    y = b.op(
        "RESIZE_NEAREST_NEIGHBOR", [x, size], b.tensor([1, 128, 128, 4], 0.04, -3), RESIZES["RESIZE_NEAREST_NEIGHBOR"]
    )
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [y]), count=1)
    assert places(artifact) == {"RESIZE_NEAREST_NEIGHBOR": "accelerator"}


def test_runs_cover_every_column_once() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        columns, size = int(rng.integers(1, 20)), int(rng.integers(1, 9))
        matrix = np.zeros((columns, size), np.int32)
        for row in matrix:
            row[rng.integers(0, size, 2)] = rng.integers(0, 3, 2)
        wanted = sampling(matrix).taps()
        lo = int(rng.integers(0, columns))
        hi = int(rng.integers(lo, columns)) + 1
        found = {}
        for part in Runs(wanted).within(lo, hi):
            for k in range(part.count):
                place = part.first + k * part.step
                assert place not in found
                found[place] = tuple((at + k * part.move, weight) for at, weight in part.taps)
        assert found == {x: wanted[x] for x in range(lo, hi)}
