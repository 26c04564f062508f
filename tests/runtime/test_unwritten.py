"""Rows behind the detections that TFLite_Detection_PostProcess finds, which LiteRT does not write, are zeros."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.jit.tflite_models import TfliteBuilder
from tilewright.checking import compare, reference_outputs
from tilewright.runtime import interpreters
from tilewright.runtime.litert.beyond import parts
from tilewright.runtime.litert.kernels import prepared

BOXES, CLASSES, MOST = 16, 3, 6


def detections(b: TfliteBuilder, boxes: int, scores: int, **options: Any) -> list[int]:
    """Boxes, classes, scores, count: of at most ``max_detections`` of the anchors of a 4 x 4 grid."""
    each, most = options.get("max_classes_per_detection", 1), options.get("max_detections", MOST)
    grid = np.stack(np.meshgrid(np.arange(4), np.arange(4), indexing="ij"), -1).reshape(BOXES, 2)
    anchors = b.constant(np.concatenate([(grid + 0.5) / 4, np.full((BOXES, 2), 0.25)], 1).astype(np.float32))
    shapes = [1, most * each, 4], [1, most * each], [1, most * each], [1]
    made = [b.tensor(shape, dtype="float32") for shape in shapes]
    usual = {
        "max_detections": MOST, "max_classes_per_detection": 1, "detections_per_class": 100, "use_regular_nms": False,
        "nms_score_threshold": 0.6, "nms_iou_threshold": 0.6, "num_classes": CLASSES, "y_scale": 10.0, "x_scale": 10.0,
        "h_scale": 5.0, "w_scale": 5.0,
    }  # fmt: skip
    return b.custom("TFLite_Detection_PostProcess", [boxes, scores, anchors], made, **{**usual, **options})


def alone(path: Path, **options: Any) -> bytes:
    b = TfliteBuilder()
    given = [b.tensor([1, BOXES, size], dtype="float32") for size in (4, CLASSES + 1)]
    return b.save(path, given, detections(b, *given, **options)).read_bytes()


def scored(found: int) -> list[np.ndarray]:
    """Boxes like their anchors, so many of which have two classes that are likely."""
    scores = np.full((1, BOXES, CLASSES + 1), 0.1, np.float32)
    scores[0, :found, 1], scores[0, :found, 2] = 0.9, 0.8
    return [np.zeros((1, BOXES, 4), np.float32), scores]


def as_litert_leaves_it(model: bytes, inputs: list[np.ndarray], mark: float) -> list[np.ndarray]:
    """LiteRT's outputs over memory that held ``mark``."""
    run = prepared(model, False)
    for detail, value in zip(run.get_input_details(), inputs, strict=True):
        run.set_tensor(detail["index"], value)
    places = [detail["index"] for detail in run.get_output_details()]
    for place in places:
        run.tensor(place)()[:] = mark
    run.invoke()
    return [run.get_tensor(place).copy() for place in places]


@pytest.mark.parametrize("found", [0, 2, 5, 9])
@pytest.mark.parametrize("regular", [False, True])
@pytest.mark.parametrize("each", [1, 2, 3])
def test_what_is_written_stays_and_the_rest_is_zero(found: int, regular: bool, each: int, tmp_path: Path) -> None:
    model = alone(tmp_path / "m.tflite", use_regular_nms=regular, max_classes_per_detection=each)
    inputs = scored(found)
    first, second = (as_litert_leaves_it(model, inputs, mark) for mark in (-7.0, -9.0))
    *made, count = interpreters.load("litert", model, "m")(inputs)
    assert count == first[3] == min(MOST, found * 2 if regular else found)
    rows = MOST if regular else min(MOST, found) * each
    for y, a, b in zip(made, first, second, strict=False):
        written = a == b
        assert written[:, :rows].all()
        assert not written[:, rows:].any()
        np.testing.assert_array_equal(y[written], a[written])
        assert not y[~written].any()


def test_an_operator_behind_reads_zeros(tmp_path: Path) -> None:
    b = TfliteBuilder()
    given = [b.tensor([1, BOXES, size], dtype="float32") for size in (4, CLASSES + 1)]
    boxes, _, _, count = detections(b, *given)
    moved = b.op("ADD", [boxes, b.constant(np.float32(1))], b.tensor([1, MOST, 4], dtype="float32"), "AddOptions")
    model = b.save(tmp_path / "m.tflite", given, [moved, count]).read_bytes()
    assert len(parts(model)[0]) == 2
    y, n = interpreters.load("litert", model, "m")(scored(2))
    assert n == 2
    assert (y[0, 2:] == 1).all()
    assert (y[0, :2] != 1).any()


def detector(path: Path) -> Path:
    """Convolutions to boxes and scores of a 4 x 4 image, few of which exceed the threshold."""
    b = TfliteBuilder()
    x = b.tensor([1, 4, 4, 8], 0.005, 0)

    def head(channels: int, likely: bool) -> int:
        weights, scales = b.weights([channels, 1, 1, 8], 0)
        y = b.op(
            "CONV_2D", [x, weights, b.bias(x, scales, channels)], b.tensor([1, 4, 4, channels], 0.03, 0),
            "Conv2DOptions", StrideW=1, StrideH=1, Padding=1,
        )  # fmt: skip
        shape = [1, BOXES, channels]
        y = b.op("RESHAPE", [y, b.constant(np.array(shape, np.int32))], b.tensor(shape, 0.03, 0))
        if likely:
            y = b.op("LOGISTIC", [y], b.tensor(shape, 1 / 256, -128))
        return b.op("DEQUANTIZE", [y], b.tensor(shape, dtype="float32"))

    return b.save(path, [x], detections(b, head(4, False), head(3, True), num_classes=2, max_detections=10))


def test_a_detector_that_finds_less_stays_on_the_accelerator(tmp_path: Path) -> None:
    path = detector(tmp_path / "m.tflite")
    with warnings.catch_warnings():
        warnings.simplefilter("error", tw.agreement.Misread)
        executable = tw.compile(path, cache=False)
    options = executable.artifact.options
    assert options["compared"].startswith("equal to ai-edge-litert")
    assert {e["op"] for e in options["operators"] if e["place"] == "accelerator"} == {"CONV_2D", "LOGISTIC"}
    x = [np.random.default_rng(1).integers(-128, 128, (30, 4, 4, 8)).astype(np.int8)]
    outputs, _ = executable.run(x)
    found = outputs[3]
    assert found.min() < found.max() <= 10
    for y in outputs[:3]:
        assert all(not rows[int(n) :].any() for rows, n in zip(y, found.reshape(-1), strict=True))
    assert compare(outputs, reference_outputs(path, x), [1.0] * 4).exact
