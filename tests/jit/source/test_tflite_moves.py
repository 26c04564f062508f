"""Parts, arrangements, joins and reductions of tensors equal LiteRT's, on the accelerator where they have a form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz import TfliteNet
from tests.fuzz.tensors import Tensor
from tests.jit.source.test_tflite_arithmetic import DRAWS, both, differing, every, tensor
from tests.jit.source.test_tflite_source import assert_equal, conv, places
from tests.jit.tflite_models import NONE, TfliteBuilder
from tilewright.jit.importer import import_model
from tilewright.jit.layers.moves import coordinates

SHAPE = [1, 6, 8, 12]


def ints(b: TfliteBuilder, *values: Any) -> int:
    return b.constant(np.array(values, np.int32))


def split(b: TfliteBuilder, x: int, axis: int, parts: int) -> list[int]:
    shape = list(SHAPE)
    shape[axis] //= parts
    made = [tensor(b, shape, b.tensors[x]["dtype"], x) for _ in range(parts)]
    return b.ops("SPLIT", [b.constant(np.array(axis, np.int32)), x], made, "SplitOptions", NumSplits=parts)


def moved(b: TfliteBuilder, kind: str, x: int) -> list[int]:
    """``kind`` of an image of :data:`SHAPE`: its results."""
    name, _, how = kind.partition(" ")

    def like(*shape: int) -> int:
        return tensor(b, list(shape), b.tensors[x]["dtype"], x)

    if name == "SPLIT":
        return split(b, x, int(how), 2)
    if name == "SPLIT_V":
        made = [like(1, 6, 8, 5), like(1, 6, 8, 7)]
        sizes, axis = ints(b, 5, -1), b.constant(np.array(3, np.int32))
        return b.ops(name, [x, sizes, axis], made, "SplitVOptions", NumSplits=2)
    if name == "SLICE":
        return [b.op("SLICE", [x, ints(b, 0, 1, 2, 3), ints(b, 1, 4, -1, 5)], like(1, 4, 6, 5), "SliceOptions")]
    if name == "STRIDED_SLICE":
        masks = {"BeginMask": 1, "EndMask": 1, "EllipsisMask": 0, "NewAxisMask": 0, "ShrinkAxisMask": 0}
        if how == "backwards":
            parts = ints(b, 0, 5, 7, 0), ints(b, 1, -7, 1, 12), ints(b, 1, -1, -2, 1)
            return [b.op(name, [x, *parts], like(1, 6, 3, 12), "StridedSliceOptions", **masks)]
        if how == "one row":
            parts = ints(b, 0, 3, 0, 0), ints(b, 1, 4, 8, 12), ints(b, 1, 1, 1, 1)
            return [b.op(name, [x, *parts], like(1, 8, 12), "StridedSliceOptions", **{**masks, "ShrinkAxisMask": 2})]
        if how == "rest":  # the axes between the first and the last as they are
            parts = ints(b, 0, 0, 3), ints(b, 1, 0, 10), ints(b, 1, 1, 2)
            return [b.op(name, [x, *parts], like(1, 6, 8, 4), "StridedSliceOptions", **{**masks, "EllipsisMask": 2})]
        if how == "new axis":
            parts = ints(b, 0, 2, 0, 1, 0), ints(b, 1, 5, 1, 8, 12), ints(b, 1, 1, 1, 2, 1)
            return [b.op(name, [x, *parts], like(1, 3, 1, 4, 12), "StridedSliceOptions", **{**masks, "NewAxisMask": 4})]
        parts = ints(b, 0, 1, 0, 2), ints(b, 1, 6, 8, 11), ints(b, 1, 2, 3, 4)
        return [b.op(name, [x, *parts], like(1, 3, 3, 3), "StridedSliceOptions", **masks)]
    if name == "UNPACK":
        axis, shapes = int(how), {2: (1, 6, 12), 1: (1, 8, 12)}
        made = [like(*shapes[axis]) for _ in range(SHAPE[axis])]
        return b.ops(name, [x], made, "UnpackOptions", Axis=axis, Num=SHAPE[axis])
    if name == "PACK":
        rows = [like(1, 8, 12) for _ in range(SHAPE[1])]
        b.ops("UNPACK", [x], rows, "UnpackOptions", Axis=1, Num=SHAPE[1])
        packed = like(*np.insert([1, 8, 12], int(how), 3).tolist())
        fields = {"ValuesCount": 3, "Axis": int(how)}
        return [b.op(name, [rows[0], rows[4], rows[0]], packed, "PackOptions", **fields)]
    if name == "PAD":
        widths = b.constant(np.array([[0, 0], [2, 1], [0, 3], [1, 2]], np.int32))
        return [b.op(name, [x, widths], like(1, 9, 11, 15), "PadOptions")]
    if name == "GATHER":
        index = ints(b, 3, 0, 3, 5, 1)
        return [b.op(name, [x, index], like(*(5 if a == int(how) else s for a, s in enumerate(SHAPE))),
                     "GatherOptions", Axis=int(how))]  # fmt: skip
    if name == "MIRROR_PAD":
        widths = b.constant(np.array([[0, 0], [2, 1], [3, 0], [0, 0]], np.int32))
        return [b.op(name, [x, widths], like(1, 9, 11, 12), "MirrorPadOptions", Mode=int(how))]
    if name == "REVERSE_V2":
        return [b.op(name, [x, ints(b, int(how))], like(*SHAPE), "ReverseV2Options")]
    if name == "BROADCAST_TO":
        row = b.op("SLICE", [x, ints(b, 0, 2, 0, 0), ints(b, 1, 1, 8, 12)], like(1, 1, 8, 12), "SliceOptions")
        return [b.op(name, [row, ints(b, *SHAPE)], like(*SHAPE), "BroadcastToOptions")]
    if name == "TILE":
        return [b.op(name, [x, ints(b, 1, 2, 1, 3)], like(1, 12, 8, 36), "TileOptions")]
    if name == "SPACE_TO_DEPTH":
        return [b.op(name, [x], like(1, 3, 4, 48), "SpaceToDepthOptions", BlockSize=2)]
    if name == "DEPTH_TO_SPACE":
        return [b.op(name, [x], like(1, 12, 16, 3), "DepthToSpaceOptions", BlockSize=2)]
    if name == "CONCATENATION":
        axis = int(how)
        other = like(*(3 if a == axis else s for a, s in enumerate(SHAPE)))
        b.op("SLICE", [x, ints(b, 0, 0, 0, 0), ints(b, *b.tensors[other]["shape"])], other, "SliceOptions")
        whole = like(*(2 * s + 3 if a == axis else s for a, s in enumerate(SHAPE)))
        fields = {"Axis": axis, "FusedActivationFunction": NONE}
        return [b.op(name, [x, other, x], whole, "ConcatenationOptions", **fields)]
    assert name == "TRANSPOSE"
    order = [int(a) for a in how]
    return [b.op(name, [x, ints(b, *order)], like(*(SHAPE[a] for a in order)), "TransposeOptions")]


KINDS = (
    "SPLIT 1", "SPLIT 2", "SPLIT 3", "SPLIT_V", "SLICE", "STRIDED_SLICE", "STRIDED_SLICE backwards",
    "STRIDED_SLICE one row", "STRIDED_SLICE rest", "STRIDED_SLICE new axis",
    "UNPACK 1", "UNPACK 2", "GATHER 1", "GATHER 2", "GATHER 3", "MIRROR_PAD 0", "MIRROR_PAD 1",
    "REVERSE_V2 1", "REVERSE_V2 3", "TILE", "BROADCAST_TO", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE",
    "CONCATENATION 1", "CONCATENATION 2", "PACK 1", "PAD",
)  # fmt: skip


@both
@pytest.mark.parametrize("kind", [*KINDS, "PACK 2", "PACK 3", "TRANSPOSE 0312", "TRANSPOSE 0213", "TRANSPOSE 0321"])
def test_elements_go_where_litert_puts_them(kind: str, dtype: str, tmp_path: Path) -> None:
    b = TfliteBuilder(len(kind))
    x = tensor(b, SHAPE, dtype)
    made = moved(b, kind, x)
    values = [b.rng.choice(every(dtype), SHAPE)]
    for y in made[:3]:
        assert differing(b, [x], y, values, tmp_path / "m.tflite") == 0


@both
def test_a_gather_by_batch(dtype: str, tmp_path: Path) -> None:
    """Whatever options an operator has: LiteRT says where the elements come from."""
    b = TfliteBuilder(seed=4)
    x = tensor(b, SHAPE, dtype)
    rows = b.constant(np.array([[4, 0, 2, 2]], np.int32))
    y = b.op("GATHER", [x, rows], tensor(b, [1, 4, 8, 12], dtype, x), "GatherOptions", Axis=1, BatchDims=1)
    assert differing(b, [x], y, [b.rng.choice(every(dtype), SHAPE)], tmp_path / "m.tflite") == 0


@pytest.mark.parametrize("kind", KINDS)
def test_between_convolutions_on_the_accelerator(kind: str, tmp_path: Path) -> None:
    b = TfliteBuilder(seed=3)
    x = b.tensor([1, 6, 8, 4], 0.04, -3)
    made = moved(b, kind, conv(b, x, 12, SHAPE))
    path = b.save(tmp_path / "m.tflite", [x], [conv(b, made[-1], 5, [*b.tensors[made[-1]]["shape"][:3], 5])] if
                  len(b.tensors[made[-1]]["shape"]) == 4 else made)  # fmt: skip
    artifact: Any = assert_equal(path, config="pynq-z2", count=1)
    assert places(artifact)[kind.split()[0]] == "accelerator"


@both
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axes", [[1], [2], [3], [1, 2], [2, 3], [1, 3], [1, 2, 3], [-1], [0, 1, 2]])
@pytest.mark.parametrize("kind", ["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"])
def test_reductions(kind: str, axes: list[int], keep: int, dtype: str, tmp_path: Path) -> None:
    extreme = kind.startswith("REDUCE")
    for seed in range(DRAWS // 8):
        b = TfliteBuilder(seed)
        shape = [1, *(int(b.rng.integers(1, 9)) for _ in range(3))]
        gone = {a % 4 for a in axes}
        left = [1 if a in gone else s for a, s in enumerate(shape) if keep or a not in gone]
        x = tensor(b, shape, dtype)
        y = tensor(b, left, dtype, like=x if extreme or b.rng.integers(3) == 0 else None)
        b.op(kind, [x, b.constant(np.array(axes, np.int32))], y, "ReducerOptions", KeepDims=keep)
        value = b.rng.choice(every(dtype), shape)
        if kind == "SUM" and dtype == "int8":
            assert import_model(b.save(tmp_path / "m.tflite", [x], [y])).host_ops
        else:
            assert differing(b, [x], y, [value], tmp_path / "m.tflite") == 0


@pytest.mark.parametrize("shape", [[13], [1, 13], [1, 4, 13]])
@pytest.mark.parametrize("kind", ["MEAN", "REDUCE_MAX"])
def test_reductions_of_the_last_of_fewer_axes(kind: str, shape: list[int], tmp_path: Path) -> None:
    b = TfliteBuilder(seed=len(shape))
    x = tensor(b, shape, "int8")
    y = tensor(b, [*shape[:-1], 1], "int8", like=x)
    b.op(kind, [x, ints(b, -1)], y, "ReducerOptions", KeepDims=1)
    path = b.save(tmp_path / "m.tflite", [x], [y])
    assert not import_model(path).host_ops
    assert differing(b, [x], y, [b.rng.choice(every("int8"), shape)], path) == 0


@both
@pytest.mark.parametrize("channels", [2, 3, 15, 16, 17, 37, 100])
@pytest.mark.parametrize("kind", ["REDUCE_MAX", "REDUCE_MIN"])
def test_extremes_of_channels(kind: str, channels: int, dtype: str, tmp_path: Path) -> None:
    """As attention by place has them: the greatest stands in each channel once, among values that are all less."""
    b = TfliteBuilder(channels)
    x = tensor(b, [1, channels, 3, channels], dtype)
    y = b.op(kind, [x, ints(b, 3)], tensor(b, [1, channels, 3, 1], dtype, like=x), "ReducerOptions", KeepDims=1)
    value = b.rng.integers(30, 90, b.tensors[x]["shape"])
    value[0, np.arange(channels), :, np.arange(channels)] = 100 if kind == "REDUCE_MAX" else 20
    assert differing(b, [x], y, [value.astype(dtype)], tmp_path / "m.tflite") == 0


def test_the_greatest_of_channels_is_one_program(tmp_path: Path) -> None:
    """Attention by place: each pixel times a number that its mean and its greatest channel give."""
    net = TfliteNet(seed=4)
    x = net.conv(net.input((1, 8, 8, 3)), 40, kernel=3)
    mean = net.mean(x, axes=(3,), keep_dims=True, scale=x.scale, zero_point=x.zero_point)
    both = net.concatenation(mean, net.reduce_max(x, axes=(3,), keep_dims=True))
    y = net.mul(x, net.logistic(net.conv(both, 1, kernel=7)))
    artifact: Any = assert_equal(net.save(tmp_path / "m.tflite", [y]), config="pynq-z2")
    assert set(places(artifact).values()) == {"accelerator"}
    assert len(artifact.programs) == 1


def test_means_of_a_transposed_image_stay_where_they_are(tmp_path: Path) -> None:
    """As networks made in PyTorch end: channels in front, then the mean over each axis."""
    b = TfliteBuilder(seed=4)
    x = b.tensor([1, 6, 8, 4], 0.04, -3)
    y = conv(b, x, 12, SHAPE)
    z = b.op("TRANSPOSE", [y, ints(b, 0, 3, 1, 2)], tensor(b, [1, 12, 6, 8], "int8", y), "TransposeOptions")
    rows = b.op("MEAN", [z, ints(b, 3)], b.tensor([1, 12, 6], 0.05, 3), "ReducerOptions", KeepDims=0)
    out = b.op("MEAN", [rows, ints(b, 2)], b.tensor([1, 12], 0.04, 5), "ReducerOptions", KeepDims=0)
    artifact: Any = assert_equal(b.save(tmp_path / "m.tflite", [x], [out]))
    assert set(places(artifact).values()) <= {"accelerator", "none"}
    assert len(artifact.programs) == 1


def test_a_transposed_image_that_is_wanted_comes_from_the_host(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=5)
    x = b.tensor([1, 6, 8, 4], 0.04, -3)
    y = conv(b, x, 12, SHAPE)
    z = b.op("TRANSPOSE", [y, ints(b, 0, 2, 1, 3)], tensor(b, [1, 8, 6, 12], "int8", y), "TransposeOptions")
    artifact: Any = assert_equal(b.save(tmp_path / "m.tflite", [x], [conv(b, z, 5, [1, 8, 6]), z]))
    assert "interpreter" not in places(artifact).values()


def test_means_over_more_columns_than_a_window_has(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=6)
    x = b.tensor([1, 3, 70, 9], 0.04, -3)
    y = b.op("MEAN", [x, ints(b, 2)], b.tensor([1, 3, 1, 9], 0.03, 5), "ReducerOptions", KeepDims=1)
    assert places(assert_equal(b.save(tmp_path / "m.tflite", [x], [y])))["MEAN"] == "accelerator"


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_joins_of_uint8_with_scales_of_their_own(axis: int, tmp_path: Path) -> None:
    for seed in range(4):
        b = TfliteBuilder(seed)
        shapes = [[size if a == axis else s for a, s in enumerate(SHAPE)] for size in (2, 3, 5)]
        parts = [tensor(b, shape, "uint8") for shape in shapes]
        y = tensor(b, [10 if a == axis else s for a, s in enumerate(SHAPE)], "uint8")
        b.op("CONCATENATION", parts, y, "ConcatenationOptions", Axis=axis, FusedActivationFunction=NONE)
        values = [b.rng.choice(every("uint8"), shape) for shape in shapes]
        assert differing(b, parts, y, values, tmp_path / "m.tflite") == 0


@both
def test_a_shuffle_of_channels(dtype: str, tmp_path: Path) -> None:
    """RESHAPE to five axes, TRANSPOSE, RESHAPE back: a choice of channels; in between the host makes what is wanted."""
    b = TfliteBuilder(seed=7)
    x = tensor(b, SHAPE, dtype)

    def like(shape: list[int]) -> int:
        return tensor(b, shape, dtype, x)

    split = b.op("RESHAPE", [x, ints(b, 1, 6, 8, 3, 4)], like([1, 6, 8, 3, 4]))
    turned = b.op("TRANSPOSE", [split, ints(b, 0, 1, 2, 4, 3)], like([1, 6, 8, 4, 3]), "TransposeOptions")
    y = b.op("RESHAPE", [turned, ints(b, *SHAPE)], like(SHAPE))
    z = b.op("RESHAPE", [turned, ints(b, 1, 48, 12)], like([1, 48, 12]))
    moved_rows = b.op("TRANSPOSE", [split, ints(b, 0, 3, 1, 2, 4)], like([1, 3, 6, 8, 4]), "TransposeOptions")
    w = b.op("RESHAPE", [moved_rows, ints(b, 1, 18, 8, 4)], like([1, 18, 8, 4]))
    for outputs in ([y], [y, z], [turned, y], [w], [split, w, z]):
        artifact: Any = assert_equal(b.save(tmp_path / "m.tflite", [x], outputs), count=1)
        assert "interpreter" not in places(artifact).values()
    assert len(assert_equal(b.save(tmp_path / "m.tflite", [x], [y]), count=1).programs) == 1


GRAY: dict[str, Callable[[TfliteNet, Tensor], Tensor]] = {
    "SLICE": lambda net, x: net.slice(x, [0, 1, 2, 0], [1, 94, 93, 1]),
    "MIRROR_PAD": lambda net, x: net.mirror_pad(x, ((0, 0), (2, 1), (0, 3), (0, 0))),
    "REVERSE_V2": lambda net, x: net.reverse(x, 2),
    "TILE": lambda net, x: net.tile(x, (1, 1, 2, 1)),
    "GATHER": lambda net, x: net.gather(x, [5, 95, 3], 1),
}


@pytest.mark.parametrize("kind", GRAY)
def test_images_of_one_channel(kind: str, tmp_path: Path) -> None:
    """Of more than 8,192 elements: their places are not asked of NumPy with an axis of one at the end."""
    net = TfliteNet(seed=3)
    x = net.input((1, 96, 96, 1), scale=0.02)
    path = net.save(tmp_path / "m.tflite", [GRAY[kind](net, x)])
    assert places(assert_equal(path, count=2)) == {kind: "accelerator"}


@pytest.mark.parametrize("shape", [(96, 96, 1), (1, 9001, 1), (9001, 1, 1), (31, 17, 19)])
def test_coordinates(shape: tuple[int, int, int]) -> None:
    flat = np.random.default_rng(0).permutation(np.prod(shape)).reshape(shape)
    wanted = flat // (shape[1] * shape[2]), flat // shape[2] % shape[1], flat % shape[2]
    assert all((a == b).all() for a, b in zip(coordinates(flat, shape), wanted, strict=True))
