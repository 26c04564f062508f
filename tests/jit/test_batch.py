"""``.tflite`` models of a batch: image by image where no operator looks across it, with the whole batch's integers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.fuzz import TfliteNet
from tests.jit.tflite_models import SAME, TfliteBuilder
from tilewright.checking import reference_outputs
from tilewright.jit.source import open_source
from tilewright.runtime import regions
from tilewright.runtime.random_inputs import random_inputs

BATCH = 3


def compared(path: Path, **options: Any) -> tw.Executable:
    """Compiled for the tiny accelerator, two batches equal to the interpreter's."""
    exe = tw.compile(path, "tiny", cache=False, **options)
    x = random_inputs(exe.inputs, 0, 2)
    outputs, report = exe.run(x)
    wanted = reference_outputs(path, x)
    for got, expected in zip(outputs if isinstance(outputs, list) else [outputs], wanted, strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
    with exe.prepare(2) as infer:
        again = infer(x)
    for got, expected in zip(again if isinstance(again, list) else [again], wanted, strict=True):
        np.testing.assert_array_equal(got, expected)
    assert report.inferences == 2 * exe.artifact.batch
    assert any("image by image" in note for note in report.notes) == (exe.artifact.batch > 1)
    return exe


def places(exe: tw.Executable) -> dict[str, str]:
    return {o["op"]: o["place"] for o in exe.artifact.options["operators"] if o["macs"]}


def test_a_batch_of_vectors_reads_its_weights_once(tmp_path: Path) -> None:
    """It is a matrix, whose rows are so many pixels of one program."""

    def bytes_read(batch: int) -> int:
        net = TfliteNet(seed=5, dtype="int8")
        y = net.input((batch, 128))
        for _ in range(3):
            y = net.fully_connected(y, 128)
        path = net.save(tmp_path / f"{batch}.tflite", [y])
        exe = tw.compile(path, "tiny", cache=False)
        x = random_inputs(exe.inputs, 0, 1)
        outputs, report = exe.run(x)
        np.testing.assert_array_equal(outputs, reference_outputs(path, x)[0])
        assert report.inferences == 1
        return int(report.to_dict()["dram_read_bytes"])

    weights, one = 3 * 128 * 128, bytes_read(1)
    assert weights < one
    assert bytes_read(16) < 1.25 * one


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("by_shape", [False, True])
def test_tflite(dtype: str, by_shape: bool, tmp_path: Path) -> None:
    """A reshape whose target is a constant, or computed in the file from the batch's size."""
    net = TfliteNet(seed=5, dtype=dtype)
    x = net.input((BATCH, 8, 8, 6))
    y = net.conv(x, 8, padding="same")
    y = net.add(y, net.depthwise(y, padding="same"))
    y = net.average_pool(net.concatenation(y, net.max_pool(y, 1, 1)), 4, 4)
    y = net.flatten_by_shape(y) if by_shape else net.reshape(y, [BATCH, 64])
    y = net.fully_connected(y, 5)
    exe = compared(net.save(tmp_path / "m.tflite", [y, net.softmax(y)]))
    assert exe.artifact.batch == BATCH
    assert [t.shape for t in exe.outputs] == [(BATCH, 5), (BATCH, 5)]
    assert set(places(exe).values()) == {"accelerator"}


def test_artifact_intermediates_and_bytes(tmp_path: Path) -> None:
    """A batch survives the file, the folder of intermediates and the way in for other runtimes."""
    net = TfliteNet(seed=7)
    y = net.conv(net.conv(net.input((BATCH, 6, 6, 4)), 4, padding="same"), 3)
    path = net.save(tmp_path / "m.tflite", [y])
    exe = compared(path, keep_intermediates=True)
    exe.save(tmp_path / "m.twa")
    loaded = tw.load(tmp_path / "m.twa")
    (x,) = random_inputs(loaded.inputs, 1, 1)
    wanted, _ = exe.run(x, keep_intermediates=tmp_path / "kept")
    np.testing.assert_array_equal(loaded(x), wanted)
    np.testing.assert_array_equal(regions.run_bytes(exe.artifact.to_bytes(), [x[0]])[0], wanted[0])
    kept = [np.load(file).shape for file in sorted((tmp_path / "kept").glob("*.npy"))]
    assert kept[-1] == (1, *wanted.shape[1:])
    assert all(shape[:2] == (1, BATCH) for shape in kept)
    assert open_source(path).batch == BATCH


def test_tflite_moves_and_transposed_convolutions(tmp_path: Path) -> None:
    """Parts of channels, blocks of pixels, and an operator that is told the shape of its result, the batch in it."""
    net = TfliteNet(seed=8)
    one, other = net.split(net.conv(net.input((BATCH, 6, 6, 4)), 8, padding="same"), 2)
    y = net.transpose_conv(net.add(one, other), 4, padding="same")
    y = net.conv(net.depth_to_space(net.space_to_depth(y)), 3)
    exe = compared(net.save(tmp_path / "m.tflite", [y, net.transpose_conv(y, 4)]))
    assert exe.artifact.batch == BATCH
    assert set(places(exe).values()) == {"accelerator"}


def attended(net: TfliteNet, y: Any) -> Any:
    heads = net.transpose(net.reshape(y, [BATCH, 36, 2, 4]), [0, 2, 1, 3])
    return net.batch_matmul(net.batch_matmul(heads, heads, turned_b=True), heads)


def shuffled(net: TfliteNet, y: Any) -> Any:
    parted = net.transpose(net.reshape(y, [BATCH, 6, 6, 2, 4]), [0, 1, 2, 4, 3])
    return net.reshape(parted, [BATCH, 6, 6, 8])


def rows(net: TfliteNet, y: Any) -> list[Any]:
    return [net.strided_slice(y, [0, k, 0, 0], [BATCH, k + 1, 6, 8], [1, 1, 1, 1], 2) for k in (1, 3)]


#: operators that treat the images of a batch, (BATCH, 6, 6, 8), alike and apart
APART: dict[str, Callable[[TfliteNet, Any], Any]] = {
    "slice": lambda net, y: net.slice(y, [0, 1, 2, 3], [-1, 4, 3, 5]),
    "slice of all": lambda net, y: net.slice(y, [0, 1, 2, 3], [BATCH, 4, 3, 5]),
    "strided slice": lambda net, y: net.strided_slice(y, [-BATCH, 1, 0, 2], [BATCH + 2, 6, 6, 8], [1, 2, 2, 3]),
    "masked slice": lambda net, y: net.strided_slice(y, [2, 1, 0, 0], [1, 5, 6, 8], [1, 1, 1, 1], masks=(1, 1)),
    "one row": lambda net, y: rows(net, y)[0],
    "pack": lambda net, y: net.pack(*rows(net, y), axis=2),
    "pack to five axes": lambda net, y: net.pack(y, y, axis=1),
    "unpack": lambda net, y: net.unpack(y, 2),
    "gather": lambda net, y: net.gather(y, [3, 0, 3], 2),
    "reverse": lambda net, y: net.reverse(y, 2),
    "tile": lambda net, y: net.tile(y, [1, 2, 1, 1]),
    "expand": lambda net, y: net.expand_dims(net.reshape(y, [BATCH, 36, 8]), 1),
    "products": lambda net, y: net.batch_matmul(y, y, turned_b=True),
    "attention": attended,
    "shuffle": shuffled,
    "dilated": lambda net, y: net.dilated_by_batches(y, 2, 4, kernel=3),
}
INT8 = ("products", "attention")  #: of which LiteRT has no kernel of uint8
#: and that do not
TOGETHER: dict[str, Callable[[TfliteNet, Any], Any]] = {
    "slice": lambda net, y: net.slice(y, [1, 0, 2, 0], [2, 6, 2, 8]),
    "strided slice": lambda net, y: net.strided_slice(y, [0, 1, 0, 0], [BATCH, 6, 6, 8], [2, 2, 1, 1]),
    "slice from an image on": lambda net, y: net.strided_slice(
        y, [1, 1, 0, 0], [BATCH, 6, 6, 8], [1, 1, 1, 1], masks=(2, 2)
    ),
    "slice up to an image": lambda net, y: net.strided_slice(y, [0] * 4, [2, 1, 6, 8], [1] * 4, masks=(2, 2)),
    "one image": lambda net, y: net.strided_slice(y, [1, 0, 0, 0], [2, 6, 6, 8], [1, 1, 1, 1], 1),
    "pack": lambda net, y: net.pack(y, y, axis=0),
    "unpack": lambda net, y: net.unpack(y, 0),
    "split": lambda net, y: net.split(y, BATCH, axis=0),
    "gather": lambda net, y: net.gather(y, [2, 0], 0),
    "reverse": lambda net, y: net.reverse(y, 0),
    "tile": lambda net, y: net.tile(y, [2, 1, 1, 1]),
    "concatenation": lambda net, y: net.concatenation(y, y, axis=0),
    "pad": lambda net, y: net.pad(y, [[1, 2], [0, 0], [0, 1], [0, 0]]),
    "transpose": lambda net, y: net.transpose(y, [3, 1, 2, 0]),
    "reshape": lambda net, y: net.softmax(net.reshape(y, [2, 9, BATCH, 16])),
    "rows of all": lambda net, y: net.reduce_max(y, [0, 1]),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name in APART for dtype in ("int8", "uint8") if dtype == "int8" or name not in INT8],
)
def test_tflite_operators_that_keep_images_apart(name: str, dtype: str, tmp_path: Path) -> None:
    net = TfliteNet(seed=8, dtype=dtype)
    made = APART[name](net, net.conv(net.input((BATCH, 6, 6, 4)), 8, padding="same"))
    exe = compared(net.save(tmp_path / "m.tflite", made if isinstance(made, list) else [made]))
    assert exe.artifact.batch == BATCH
    assert "interpreter" not in {o["place"] for o in exe.artifact.options["operators"]}


@pytest.mark.parametrize("kind", ["EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"])
def test_tflite_choices_between_images(kind: str, tmp_path: Path) -> None:
    """A comparison and a choice by it, which LiteRT runs, keep the images of a batch apart as well."""
    net = TfliteNet(seed=10)
    x = net.input((BATCH, 6, 6, 4))
    y, z = net.conv(x, 8, padding="same"), net.conv(x, 8, padding="same")
    chosen, made = net._plain(y.shape, "bool"), net._like(y, y.shape)
    net.op(kind, [y, net.requantize(z, scale=y.scale, zero_point=y.zero_point)], [chosen])
    net.op("SELECT_V2", [chosen, y, y], [made], "SelectV2Options")
    exe = compared(net.save(tmp_path / "m.tflite", [net.conv(made, 4)]))
    assert exe.artifact.batch == BATCH
    assert set(places(exe).values()) == {"accelerator"}


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("name", TOGETHER)
def test_tflite_operators_across_the_batch(name: str, weighted: bool, tmp_path: Path) -> None:
    """A tensor of all images on the accelerator, and what is on each of them one by one."""
    net = TfliteNet(seed=9)
    x = net.input((BATCH, 6, 6, 8))
    made = TOGETHER[name](net, net.conv(x, 8, padding="same") if weighted else net.add(x, x))
    exe = compared(net.save(tmp_path / "m.tflite", made if isinstance(made, list) else [made]))
    assert exe.artifact.batch == 1
    assert "interpreter" not in {o["place"] for o in exe.artifact.options["operators"]}


#: operators on several images within a network: their results
WITHIN: dict[str, Callable[[TfliteNet, Any], Any]] = {
    "conv": lambda net, y: net.conv(y, 5, stride=2, padding="same"),
    "pointwise": lambda net, y: net.conv(y, 5, kernel=1),
    "depthwise": lambda net, y: net.depthwise(y, padding="valid"),
    "transposed": lambda net, y: net.transpose_conv(y, 5, padding="same"),
    "average": lambda net, y: net.average_pool(y, 3, 2),
    "maximum": lambda net, y: net.max_pool(y, 2, 2),
    "bilinear": lambda net, y: net.resize_bilinear(y, (9, 7)),
    "nearest": lambda net, y: net.resize_nearest(y, (12, 12)),
    "mean": lambda net, y: net.mean(y, scale=0.03),
    "mean of columns": lambda net, y: net.mean(y, (2,), keep_dims=True),
    "mean of channels": lambda net, y: net.mean(y, (3,)),
    "sum": lambda net, y: net.reduce_max(y, (1,)),
    "dense": lambda net, y: net.fully_connected(y, 7),
    "dense pixels": lambda net, y: net.fully_connected(y, 7, flatten=False, keep_num_dims=True),
    "activation": lambda net, y: net.hard_swish(y),
    "prelu": lambda net, y: net.prelu(y),
    "channels": lambda net, y: net.mul(y, net.constant_tensor((8,), 0.02, 3)),
    "image": lambda net, y: net.add(y, net.constant_tensor((BATCH, 6, 6, 8), 0.02, 3)),
    "extremes": lambda net, y: net.maximum(y, net.reverse(y, 0)),
    "numbers of images": lambda net, y: net.mul(y, net.logistic(net.mean(y, keep_dims=True))),
    "rows of images": lambda net, y: net.sub(net.reduce_max(y, (1, 3), keep_dims=True), y),
    "constants of images": lambda net, y: net.add(y, net.constant_tensor((BATCH, 1, 1, 8), 0.02, 3)),
    "blocks": lambda net, y: net.depth_to_space(net.space_to_depth(y)),
    "borders": lambda net, y: net.mirror_pad(y, [[0, 0], [1, 2], [1, 0], [0, 0]]),
    "padding": lambda net, y: net.pad(y, [[0, 1], [0, 0], [1, 0], [0, 2]]),
    "joined rows": lambda net, y: net.concatenation(y, y, axis=1),
    "joined": lambda net, y: net.concatenation(net.concatenation(y, y, axis=2), net.tile(y, [1, 1, 2, 1]), axis=3),
    "products": lambda net, y: net.batch_matmul(y, y, turned_b=True),
    "matrix": lambda net, y: net.softmax(net.batch_matmul(y, net.constant_tensor((8, 5), 0.01), scale=0.5)),
}


@pytest.mark.parametrize("name", WITHIN)
def test_tflite_images_within_a_network(name: str, tmp_path: Path) -> None:
    """Crops, say, that a network of one image puts together to several."""
    net = TfliteNet(seed=10)
    crops = net.reshape(net.conv(net.input((1, 18, 6, 4)), 8, padding="same"), [BATCH, 6, 6, 8])
    exe = compared(net.save(tmp_path / "m.tflite", [WITHIN[name](net, crops)]))
    found = {o["place"] for o in exe.artifact.options["operators"]}
    assert found <= {"accelerator", "none", "host"}


def test_tflite_too_many_images_within_a_network(tmp_path: Path) -> None:
    net = TfliteNet(seed=11)
    crops = net.reshape(net.relu(net.input((1, 60, 3, 4))), [20, 3, 3, 4])
    exe = compared(net.save(tmp_path / "m.tflite", [net.conv(crops, 4)]))
    (conv,) = (o for o in exe.artifact.options["operators"] if o["macs"])
    assert conv["reason"] == "20 images in one tensor, at most 16 are taken one by one"


@pytest.mark.parametrize("between", ["CAST", "CAST NEG"])
def test_numbers_that_follow_from_the_size_of_a_batch_keep_it_whole(between: str, tmp_path: Path) -> None:
    """The shape's first number, in float32, times what each image gives: twice as much as of one image."""
    b = TfliteBuilder(3)
    x, (w, scales) = b.tensor([2, 5, 5, 4], 0.05, 3), b.weights([4, 3, 3, 4], 0)
    y = b.tensor([2, 5, 5, 4], 0.1, -5)
    steps = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    b.op("CONV_2D", [x, w, b.bias(x, scales, 4)], y, "Conv2DOptions", Padding=SAME, **steps)
    real = b.op("DEQUANTIZE", [y], b.tensor([2, 5, 5, 4], dtype="float32"))
    shape = b.op("SHAPE", [y], b.tensor([4], dtype="int32"), "ShapeOptions", OutType=2)
    first = b.constant(np.array([0], np.int32))
    count = b.op("GATHER", [shape, first], b.tensor([1], dtype="int32"), "GatherOptions", Axis=0)
    number = b.op("CAST", [count], b.tensor([1], dtype="float32"), "CastOptions", InDataType=2, OutDataType=0)
    for kind in between.split()[1:]:
        number = b.op(kind, [number], b.tensor([1], dtype="float32"))
    made = b.op("MUL", [real, number], b.tensor([2, 5, 5, 4], dtype="float32"), "MulOptions")
    exe = compared(b.save(tmp_path / "m.tflite", [x], [made]))
    assert exe.artifact.batch == 1


def test_an_output_that_is_not_of_images_keeps_the_batch_whole(tmp_path: Path) -> None:
    b = TfliteBuilder(3)
    x, (w, scales) = b.tensor([2, 5, 5, 4], 0.05, 3), b.weights([4, 3, 3, 4], 0)
    y = b.tensor([2, 5, 5, 4], 0.1, -5)
    steps = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    b.op("CONV_2D", [x, w, b.bias(x, scales, 4)], y, "Conv2DOptions", Padding=SAME, **steps)
    shape = b.op("SHAPE", [y], b.tensor([4], dtype="int32"), "ShapeOptions", OutType=2)
    exe = compared(b.save(tmp_path / "m.tflite", [x], [y, shape]))
    assert exe.artifact.batch == 1


@pytest.mark.parametrize("axis", [0, 3])
def test_a_scale_for_each_image_keeps_the_batch_whole(axis: int, tmp_path: Path) -> None:
    """LiteRT has as many as images: one image would be read with none of its own."""
    b = TfliteBuilder(seed=3)
    shape = [BATCH, 4, 4, 5]
    scales = np.linspace(0.01, 0.05, shape[axis], dtype=np.float32)
    x = b.tensor(shape, scales, axis=axis)
    real = b.op("DEQUANTIZE", [x], b.tensor(shape, dtype="float32"), "DequantizeOptions")
    y = b.op("QUANTIZE", [real], b.tensor(shape, 0.03, 4), "QuantizeOptions")
    w, steps = b.weights([5, 3, 3, 5], 0)
    made = b.tensor(shape, 0.2, 1)
    b.op("CONV_2D", [y, w, b.bias(y, steps, 5)], made, "Conv2DOptions", Padding=SAME, StrideH=1, StrideW=1,
         DilationHFactor=1, DilationWFactor=1)  # fmt: skip
    exe = compared(b.save(tmp_path / "m.tflite", [x], [made]))
    assert exe.artifact.batch == (1 if axis == 0 else BATCH)
    assert places(exe)["CONV_2D"] == "accelerator"


@pytest.mark.parametrize("kind", ["RELU", "CONV_2D"])
def test_tensors_without_elements_are_litert_s(kind: str, tmp_path: Path) -> None:
    """Of a batch of no images there is nothing to schedule: the compiler looked for it without end."""
    b = TfliteBuilder(3)
    x, y = b.tensor([0, 6, 6, 4], 0.05, 3), b.tensor([0, 6, 6, 4], 0.05, 3)
    if kind == "RELU":
        b.op(kind, [x], y)
    else:
        w, scales = b.weights([4, 3, 3, 4], 0)
        steps = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
        b.op(kind, [x, w, b.bias(x, scales, 4)], y, "Conv2DOptions", Padding=SAME, **steps)
    exe = tw.compile(b.save(tmp_path / "m.tflite", [x], [y]), "tiny", cache=False)
    assert [o["place"] for o in exe.artifact.options["operators"]] == ["interpreter"]
    assert exe(np.zeros((2, 0, 6, 6, 4), np.int8)).size == 0
