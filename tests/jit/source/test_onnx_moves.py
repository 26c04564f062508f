"""Parts, arrangements, borders, joins and reductions of tensors equal ONNX Runtime's, on the accelerator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import tilewright as tw
from tests.jit.source.onnx_nets import F, NetBuilder, Tensor
from tests.jit.source.onnx_run import compared, interpreted, kinds
from tests.jit.source.test_tflite_source import places
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.runtime import interpreters

SHAPE = (1, 8, 6, 4)
both = pytest.mark.parametrize("dtype", ["uint8", "int8"])
Made = Callable[[NetBuilder, str], str]


def node(kind: str, *constants: Any, **attributes: Any) -> Made:
    """``kind`` of a tensor and constants; lists are of int64, None is left out."""

    def made(b: NetBuilder, x: str) -> str:
        rest = [
            "" if c is None else b.constant(np.asarray(c, np.int64) if isinstance(c, list) else c) for c in constants
        ]
        return b.op(kind, [x, *rest], **attributes)

    return made


def split(axis: int, *sizes: int) -> Made:
    """The second part."""

    def made(b: NetBuilder, x: str) -> str:
        names = [b.name("part") for _ in sizes]
        given = [x, b.constant(np.array(sizes, np.int64))]
        b.nodes.append(helper.make_node("Split", given, names, name=names[0], axis=axis))
        return names[1]

    return made


def twice(axis: int) -> Made:
    return lambda b, x: b.op("Concat", [x, x], axis=axis)


def expanded(b: NetBuilder, x: str) -> str:
    row = node("Slice", [1], [2], [2])(b, x)
    return node("Expand", [1, 8, 6, 4])(b, row)


UP = np.array([1, 1, 2, 1.5], F)
#: (node, the result's shape, what the accelerator runs where the numbers stay)
MOVES: dict[str, tuple[Made, tuple[int, ...], list[str]]] = {
    "split channels": (split(1, 3, 5), (1, 5, 6, 4), ["Conv2D"]),
    "split rows": (split(2, 2, 3, 1), (1, 8, 3, 4), ["Slice"]),
    "slice": (node("Slice", [1, 0], [6, 9], [2, 3], [2, 1]), (1, 8, 3, 4), ["Slice"]),
    "slice backwards": (node("Slice", [5], [-9], [2], [-1]), SHAPE, ["Resample"]),
    "slice channels": (node("Slice", [1], [7], [1], [2]), (1, 3, 6, 4), ["Conv2D"]),
    "depth to space": (node("DepthToSpace", blocksize=2), (1, 2, 12, 8), ["Conv2D"]),
    "depth to space crd": (node("DepthToSpace", blocksize=2, mode="CRD"), (1, 2, 12, 8), ["Conv2D"]),
    "space to depth": (node("SpaceToDepth", blocksize=2), (1, 32, 3, 2), ["Conv2D"]),
    "resize": (node("Resize", None, UP, mode="nearest"), (1, 8, 12, 6), ["Resample"]),
    "resize floor": (
        node("Resize", None, UP, coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        (1, 8, 12, 6), ["Resample"],
    ),
    "resize corners": (
        node("Resize", None, None, [1, 8, 4, 9], coordinate_transformation_mode="align_corners", nearest_mode="ceil"),
        (1, 8, 4, 9), ["Resample"],
    ),
    "gather": (node("Gather", [3, 1, 1, 7], axis=1), (1, 4, 6, 4), ["Conv2D"]),
    "gather rows": (node("Gather", [3, -1, 0], axis=2), (1, 8, 3, 4), ["Resample"]),
    "gather one": (node("Gather", np.array(2), axis=2), (1, 8, 4), ["Slice"]),
    "tile": (node("Tile", [1, 2, 1, 2]), (1, 16, 6, 8), ["Resample", "Conv2D"]),
    "expand": (expanded, SHAPE, ["Slice", "Resample"]),
    "pad": (node("Pad", [0, 0, 1, 2, 0, 0, 0, 3], F(0.2)), (1, 8, 7, 9), ["Pad"]),
    "pad channels": (node("Pad", [0, 2, 0, 1, 0, 1, 0, 0], F(0.2)), (1, 11, 6, 5), ["Pad", "Conv2D"]),
    "pad less": (node("Pad", [0, 0, -1, 0, 0, -2, 1, 0]), (1, 6, 6, 4), ["Slice", "Pad", "Conv2D"]),
    "pad reflect": (node("Pad", [0, 0, 1, 2, 0, 0, 2, 1], mode="reflect"), (1, 8, 9, 7), ["Resample"]),
    "pad edge": (node("Pad", [0, 1, 1, 0, 0, 0, 2, 1], mode="edge"), (1, 9, 9, 5), ["Resample", "Conv2D"]),
    "concat rows": (twice(2), (1, 8, 12, 4), ["Pad", "Pad", "Maximum"]),
    "concat columns": (twice(-1), (1, 8, 6, 8), ["Pad", "Pad", "Maximum"]),
    "greatest": (node("ReduceMax", axes=[2, 3]), (1, 8, 1, 1), ["MaxPool2D"]),
    "greatest of columns": (node("ReduceMax", axes=[3], keepdims=0), (1, 8, 6), ["MaxPool2D"]),
    "least": (node("ReduceMin", axes=[-2]), (1, 8, 1, 4), ["Requantize", "MaxPool2D", "Requantize"]),
    "greatest of channels": (
        node("ReduceMax", axes=[1]), (1, 1, 6, 4), [*["Conv2D", "Maximum"] * 3, "Conv2D"],
    ),
    "least of rows and channels": (
        node("ReduceMin", axes=[1, 2]), (1, 1, 1, 4),
        ["Requantize", "MaxPool2D", "Requantize", *["Conv2D", "Minimum"] * 3, "Conv2D"],
    ),
    "greatest of all": (node("GlobalMaxPool"), (1, 8, 1, 1), ["MaxPool2D"]),
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "like"), [("uint8", True), ("int8", False)])
@pytest.mark.parametrize("name", MOVES)
def test_elements_go_where_onnx_runtime_puts_them(name: str, like: bool, dtype: str, tmp_path: Path) -> None:
    made, shape, wanted = MOVES[name]
    b = NetBuilder(len(name), dtype)
    x = b.real_input(SHAPE)
    numbers = (x.scale, 3) if like else (0.031, -3)
    b.output(b.pair(made(b, x.name), shape, *numbers).name, shape)
    _, built = compared(b.save(tmp_path / "m.onnx"), count=2)
    assert not interpreted(built)
    found = kinds(built)
    assert (
        found == wanted
        if like
        else [kind for kind in found if kind != "Requantize"] == [kind for kind in wanted if kind != "Requantize"]
    )


@pytest.mark.parametrize("name", MOVES)
def test_between_convolutions_on_the_accelerator(name: str, tmp_path: Path) -> None:
    made, shape, _ = MOVES[name]
    b = NetBuilder(3)
    x = b.real_input((1, 5, 6, 4))
    y = b.fitted(b.conv(x, 8, 1), SHAPE, 1.0)
    z = b.pair(made(b, y.name), shape, y.scale, 3)
    result = (1, 6, *shape[2:])
    b.output(b.fitted(b.conv(z, 6, 1), result, 1.0).name, result)
    path = b.save(tmp_path / "m.onnx")
    exe = tw.compile(path, "pynq-z2", cache=False)
    image = np.random.default_rng(1).normal(0, 1.5, (1, 5, 6, 4)).astype(F)
    (wanted,) = interpreters.load("onnxruntime", path.read_bytes(), "whole")([image])
    np.testing.assert_array_equal(np.reshape(exe.run(image)[0], wanted.shape), wanted)
    assert set(places(exe.artifact).values()) <= {"accelerator", "host", "none"}


@both
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMean"])
@pytest.mark.parametrize("axes", [(2, 3), (1,), (-1,), (1, 2), (1, 2, 3)])
def test_sums_over_any_axes(kind: str, axes: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    b = NetBuilder(len(axes), dtype)
    x = b.real_input(SHAPE)
    shape = tuple(1 if a in {axis % 4 for axis in axes} else size for a, size in enumerate(SHAPE))
    made = node(kind, list(axes)) if kind == "ReduceSum" else node(kind, axes=list(axes))
    b.output(b.pair(made(b, x.name), shape, 0.0331, -5).name, shape)
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert all("would not always give" in reason for reason in interpreted(built).values())
    assert not interpreted(OnnxSource(tmp_path / "m.onnx", exact="close").build({}))


def test_a_report_says_what_falls_back_and_what_that_costs(tmp_path: Path) -> None:
    b = NetBuilder(3, "uint8")
    x, made = b.real_input(SHAPE), node("ReduceMean", axes=[1, 2, 3])
    b.output(b.pair(made(b, x.name), (1, 1, 1, 1), 0.0331, -5).name, (1, 1, 1, 1))
    exe = tw.compile(b.save(tmp_path / "m.onnx"), "tiny", cache=False)
    (fallen,) = (op for op in exe.artifact.options["operators"] if "in_doubt" in op)
    assert (fallen["op"], fallen["place"]) == ("ReduceMean", "interpreter")
    assert 0 < fallen["in_doubt"] < 1
    _, report = exe.run(np.zeros(SHAPE, np.float32))
    (note,) = (note for note in report.notes if "fall back" in note)
    assert f"{fallen['name']}, for {100 * fallen['in_doubt']:.2g} % of the sums" in note
    (step,) = report.to_dict()["interpreted_ms"]
    assert fallen["name"] in step["operators"]
    assert f" {step['ms']:.2f} ms of this PC" in note


def test_means_that_are_ties_belong_to_the_interpreter(tmp_path: Path) -> None:
    """Half of all sums of two are; the weights of 1 of a mean over channels make it no convolution."""
    for axes, shape in (([1], (1, 2, 6, 4)), ([2], (1, 8, 2, 4))):
        b = NetBuilder(1)
        x = b.real_input(shape)
        result = tuple(1 if a in axes else size for a, size in enumerate(shape))
        b.output(b.pair(b.op("ReduceMean", [x.name], axes=axes), result, x.scale, 3).name, result)
        _, built = compared(b.save(tmp_path / "m.onnx"))
        assert interpreted(built)


def test_padding_with_a_quantised_number(tmp_path: Path) -> None:
    b = NetBuilder(2)
    x = b.real_input(SHAPE)
    value = b.dequantise(b.constant(np.uint8(200)), 0.011, np.uint8(77))
    y = b.op("Pad", [x.name, b.constant(np.array([0, 0, 1, 2, 0, 0, 0, 3])), value])
    b.output(b.pair(y, (1, 8, 7, 9), 0.031, 5).name, (1, 8, 7, 9))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)


def test_a_clamped_tensor_is_taken_apart(tmp_path: Path) -> None:
    b = NetBuilder(2)
    x = b.real_input(SHAPE)
    y = split(1, 4, 4)(b, b.op("Relu", [x.name]))
    b.output(b.pair(y, (1, 4, 6, 4), 0.0217, 3).name, (1, 4, 6, 4))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert not interpreted(built)


def test_places_that_are_computed_belong_to_the_interpreter(tmp_path: Path) -> None:
    b = NetBuilder(2)
    x = b.real_input(SHAPE)
    index = b.op("Cast", [b.op("ReduceMax", [x.name], keepdims=0)], to=7)
    b.output(b.pair(b.op("Gather", [x.name, index], axis=1), (1, 6, 4), 0.0217, 3).name, (1, 6, 4))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    assert interpreted(built)


def test_random_parts(tmp_path: Path) -> None:
    """Slices of any axes and steps, behind each other."""
    for seed in range(12):
        b = NetBuilder(seed, ["uint8", "int8"][seed % 2])
        shape = tuple(int(s) for s in (1, *b.rng.integers(2, 9, 3)))
        x: Tensor = b.real_input(shape)
        for _ in range(2):
            axes = [a for a in (1, 2, 3) if b.rng.integers(0, 2)] or [2]
            steps = [int(b.rng.choice([-2, -1, 1, 2, 3])) for _ in axes]
            begin = [int(b.rng.integers(0, x.shape[a])) for a in axes]
            end = [-x.shape[a] - 1 if s < 0 else x.shape[a] for a, s in zip(axes, steps, strict=True)]
            sizes = list(x.shape)
            for a, first, last, s in zip(axes, begin, end, steps, strict=True):
                sizes[a] = len(range(x.shape[a])[first : last if s > 0 else None : s])
            y = node("Slice", begin, end, axes, steps)(b, x.name)
            x = b.pair(y, tuple(sizes), x.scale, 3)
        b.output(x.name, x.shape)
        _, built = compared(b.save(tmp_path / "m.onnx"), count=1)
        assert not interpreted(built)


def test_a_choice_of_more_channels_than_weights_can_choose_stays_with_onnx_runtime(tmp_path: Path) -> None:
    """A half of 20,000 channels: 200 million weights, which no array takes and which were written out all the same."""
    b = NetBuilder(1, "uint8")
    x = b.real_input((1, 20_000))
    parts = b.op("Slice", [x.name, *(b.constant(np.array([n])) for n in (5, 10_005, 1))])
    b.output(b.pair(parts, (1, 10_000), x.scale, 3).name, (1, 10_000))
    _, built = compared(b.save(tmp_path / "m.onnx"))
    (reason,) = interpreted(built).values()
    assert reason.startswith("10000x1x1x20000 weights to choose channels")
