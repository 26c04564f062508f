"""Random ``.tflite`` networks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.fuzz import draw_moves as moves
from tests.fuzz.draw import OTHER, Drawer, Menu, Size, draw_steps
from tests.fuzz.recipe import Recipe
from tests.fuzz.tensors import limits

ACTIVATIONS = ["none", "relu", "relu6", "relu_n1_to_1"]


def draw_tflite(rng: np.random.Generator, size: Size, weight_bits: int = 8) -> Recipe:
    """One random network; weights of ``weight_bits`` where its kernels take them."""
    options = {
        "dtype": str(rng.choice(["int8", "uint8"], p=[0.75, 0.25])),
        "power_of_two": bool(rng.random() < 0.25),
        **({} if weight_bits == 8 else {"dtype": "int8", "weight_bits": weight_bits}),
    }
    d = Drawer("tflite", rng, size, options)
    for _ in range(d.pick([1, 2, 3], [0.75, 0.2, 0.05])):
        _input(d)
    draw_steps(d, _menu)
    if d.chance(0.3):
        _tail(d)
    options["relabels"] = d.chance(0.2)
    return d.recipe()


def _input(d: Drawer) -> None:
    shape = d.input_shape(d.pick([4, 2, 3], [0.85, 0.08, 0.07]), channels_last=True)
    edge = d.pick(["same", "float", "other"], [0.7, 0.2, 0.1])
    if edge == "float":
        x = d.step("input", shape=shape, dtype="float32")
        d.step("quantize", x, scale=d.scale(), zero_point=d.zero_point())
    elif edge == "other":
        kind = OTHER[d.dtype]
        x = d.step("input", shape=shape, dtype=kind, scale=d.scale(), zero_point=d.zero_point(kind))
        if d.chance(0.5):
            d.step("reinterpret", x, dtype=d.dtype)
        else:
            d.step("quantize", x, dtype=d.dtype, **d.out())
    else:
        d.step("input", shape=shape, scale=d.scale(), zero_point=d.zero_point())


def _tail(d: Drawer) -> None:
    x = d.live[-1]
    style = d.pick(["softmax", "logistic", "dequantize", "reinterpret", "arg_max"])
    if style in ("softmax", "logistic"):
        x = d.step(style, x)
        if d.chance(0.5):
            d.step("dequantize", x)
    elif style == "reinterpret":
        d.step("reinterpret", x, dtype=OTHER[d.dtype])
    else:
        d.step(style, x)


def _menu(d: Drawer, x: str) -> Menu[Drawer]:
    common: Menu[Drawer] = [
        (3, _binary_constant), (4, _binary), (4, _activation), (1, _float_island), (2, _fixed), (1, moves.reshape),
        (1, moves.transpose), (2, moves.concat), (1, moves.split), (1, moves.slices), (1.5, _requantize),
        (1, moves.pad), (0.4, moves.packing), (0.3, moves.gather), (0.5, moves.arranged), (1, _reduce), (3, _dense),
    ]  # fmt: skip
    if len(d.shape(x)) < 2:
        return [(1, _activation), (1, _requantize)]
    if len(d.shape(x)) == 4:
        return [
            (14, _conv), (7, _depthwise), (2, _transpose_conv), (5, _pool), (2, _mean), (2, _resize), (1, moves.blocks),
            (3, _residual), (2, _branches), (1.5, _excite), (1, _classify), (0.7, _by_batches), (0.7, _attention),
            (0.7, moves.crops),
            *common,
        ]  # fmt: skip
    if len(d.shape(x)) == 3:
        return [(1.5, _lstm), (2, moves.to_map), (2, _attention), *common]
    return [
        (6, _dense),
        (2, moves.to_map),
        *([(2, _svdf)] if len(d.shape(x)) == 2 and d.dtype == "int8" else []),
        *common,
    ]


def _layer(d: Drawer) -> dict[str, Any]:
    args: dict[str, Any] = {"activation": d.pick(ACTIVATIONS, [0.5, 0.25, 0.2, 0.05]), **d.out()}
    if d.dtype == "uint8":
        args["weight_zero_point"] = d.pick([128, d.between(0, 255), d.between(100, 156)])
    elif d.chance(0.25):
        args["per_channel"] = False
    return args


def _window(d: Drawer) -> dict[str, Any]:
    args: dict[str, Any] = {
        "kernel": d.kernel(), "stride": d.stride(), "padding": d.pick(["same", "valid"], [0.65, 0.35]),
    }  # fmt: skip
    if args["stride"] == [1, 1] and d.chance(0.12):
        args["dilation"] = [d.between(1, 4), d.between(1, 4)]
    return args


def _conv(d: Drawer, x: str) -> str:
    args = {"channels": d.channels(), **_window(d), **_layer(d)}
    if d.dtype == "int8" and d.shape(x)[3] > 1 and d.chance(0.1):
        args |= d.grouped(x, 3, args["channels"])
    return d.step("conv", x, **args)


def _depthwise(d: Drawer, x: str) -> str:
    return d.step("depthwise", x, multiplier=d.pick([1, 2, 3, 4], [0.75, 0.15, 0.05, 0.05]), **_window(d), **_layer(d))


def _transpose_conv(d: Drawer, x: str) -> str:
    args = _window(d)
    args.pop("dilation", None)
    if d.chance(0.4):
        args |= {"kernel": [d.between(1, 5), d.between(1, 5)], "stride": [d.between(1, 4), d.between(1, 4)]}
    if d.chance(0.2):
        args["more"] = [d.between(-3, 3), d.between(-3, 3)]
    return d.step("transpose_conv", x, channels=d.channels(), bias=d.chance(0.7), **args, **_layer(d))


def _dense(d: Drawer, x: str) -> str:
    flatten = d.chance(0.75)
    keep = not flatten and d.chance(0.6)
    args = _layer(d)
    args["per_channel"] = d.dtype == "int8" and d.chance(0.15)
    return d.step(
        "fully_connected", x, channels=d.channels(), flatten=flatten, keep_num_dims=keep, bias=d.chance(0.85), **args
    )


def _pool(d: Drawer, x: str) -> str:
    args = _window(d)
    args.pop("dilation", None)
    if d.chance(0.5):
        args["kernel"] = args["stride"] = [2, 2]
    activation = d.pick(ACTIVATIONS, [0.85, 0.06, 0.07, 0.02])
    return d.step(d.pick(["average_pool", "max_pool"]), x, **args, activation=activation)


def _mean(d: Drawer, x: str) -> str:
    return d.step("mean", x, axes=[1, 2], keep_dims=d.chance(0.5), **(d.out() if d.chance(0.5) else d.same(x)))


def _reduce(d: Drawer, x: str) -> str:
    axes = d.axes(x)
    kind = d.pick(["mean", "sum", "reduce_max", "reduce_min"], [0.5, 0.2, 0.2, 0.1])
    return d.step(kind, x, axes=axes, keep_dims=d.chance(0.6), **({} if kind.startswith("reduce") else d.out()))


def _binary(d: Drawer, x: str) -> str:
    kind = d.pick(["add", "sub", "mul", "maximum", "minimum"], [0.5, 0.13, 0.17, 0.1, 0.1])
    y = d.partner(x, lambda t: t.shape == d.shape(x)) or x
    axes = [a for a in range(1, len(d.shape(x))) if d.chance(0.5)]
    if axes and d.chance(0.4):  # one operand goes with all rows, columns or channels of the other
        y = d.step("reduce_max", y, axes=axes, keep_dims=True)
    return _with(d, kind, x, y)


def _with(d: Drawer, kind: str, x: str, y: str) -> str:
    a, b = (x, y) if d.chance(0.7) else (y, x)
    if kind in ("maximum", "minimum"):
        if d.tensor(a).scale != d.tensor(b).scale or d.tensor(a).zero_point != d.tensor(b).zero_point:
            b = d.step("requantize", b, **d.same(a))
        return d.step(kind, a, b)
    return d.step(kind, a, b, activation=d.pick(ACTIVATIONS, [0.6, 0.25, 0.12, 0.03]), **d.out())


def _binary_constant(d: Drawer, x: str) -> str:
    kind = d.pick(["add", "sub", "mul", "maximum", "minimum"], [0.3, 0.15, 0.35, 0.1, 0.1])
    full = d.shape(x)
    last = [1] * (len(full) - 1) + [full[-1]]
    shape = d.pick([[full[-1]], last, [1], [], list(full), d.across(x)], [0.35, 0.2, 0.1, 0.1, 0.1, 0.15])
    return _with(d, kind, x, d.constant(shape, **(d.same(x) if kind in ("maximum", "minimum") else {})))


def _activation(d: Drawer, x: str) -> str:
    kind = d.pick(
        ["relu", "relu6", "relu_n1_to_1", "leaky_relu", "prelu", "hard_swish", "abs", "exp", "rsqrt"],
        [3, 3, 1, 2, 1, 3, 0.3, 0.3, 0.2],
    )
    if kind == "rsqrt":
        x = d.step("relu", x, zero_point=limits(d.dtype)[0])  # its kernel takes nothing below zero
    if kind == "leaky_relu":
        return d.step(kind, x, alpha=d.pick([0.1, 0.01, 0.3, 0.25, 0.5]), **d.out())
    return d.step(kind, x, **d.out())


def _fixed(d: Drawer, x: str) -> str:
    return d.step(d.pick(["logistic", "tanh", "softmax", "l2_normalization", "log_softmax"], [4, 3, 3, 1, 0.4]), x)


def _float_island(d: Drawer, x: str) -> str:
    y = d.step("dequantize", x)
    if d.chance(0.6):
        y = d.step(d.pick(["neg", "logistic", "relu", "hard_swish", "abs", "tanh"]), y)
    return d.step("quantize", y, **d.out())


def _requantize(d: Drawer, x: str) -> str:
    if d.chance(0.3):
        y = d.step("reinterpret", x, dtype=OTHER[d.dtype])
        return d.step("quantize", y, dtype=d.dtype, **d.out())
    return d.step("requantize", x, **d.out())


def _resize(d: Drawer, x: str) -> str:
    _, h, w, _ = d.shape(x)
    size = [2 * h, 2 * w] if d.chance(0.5) else [d.between(1, 24), d.between(1, 24)]
    style = d.pick([{}, {"align_corners": True}, {"half_pixel_centers": True}])
    return d.step(d.pick(["resize_bilinear", "resize_nearest"]), x, size=size, **style)


def _by_batches(d: Drawer, x: str) -> str:
    return d.step(
        "dilated_by_batches",
        x,
        dilation=d.between(2, 4),
        channels=d.channels(),
        kernel=d.pick([1, 3, 3, 5]),
        **_layer(d),
    )


def _residual(d: Drawer, x: str) -> str:
    depth = d.shape(x)[3]
    y = d.step("conv", x, channels=d.channels(), kernel=d.pick([1, 3]), **_layer(d))
    if d.chance(0.5):
        y = d.step("depthwise", y, kernel=3, **_layer(d))
    y = d.step("conv", y, channels=depth, kernel=d.pick([1, 3]), **_layer(d))
    return d.step("add", x, y, activation=d.pick(ACTIVATIONS, [0.5, 0.4, 0.08, 0.02]), **d.out())


def _branches(d: Drawer, x: str) -> str:
    numbers = {"scale": 0.04, "zero_point": d.zero_point()} if d.dtype == "int8" else {}
    parts = d.branches(x, _layer(d), numbers)
    return d.step("concatenation", *parts, axis=3, **({} if d.dtype == "int8" else {"gain": 1.0}))


def _excite(d: Drawer, x: str) -> str:
    depth = d.shape(x)[3]
    keep = d.chance(0.7)
    y = d.step("mean", x, axes=[1, 2], keep_dims=keep)
    for channels, activation in ((max(1, depth // 4), "relu"), (depth, "none")):
        if keep:
            y = d.step("conv", y, channels=channels, kernel=1, activation=activation)
        else:
            y = d.step("fully_connected", y, channels=channels, activation=activation)
    if not keep:
        y = d.step("reshape", y, shape=[d.shape(x)[0], 1, 1, depth])
    y = d.step("logistic", y)
    return d.step("mul", x, y, **d.out())


def _classify(d: Drawer, x: str) -> str:
    y = d.step("mean", x, axes=[1, 2], keep_dims=False, **d.out())
    y = d.step("fully_connected", y, channels=d.channels(), **d.out())
    return d.step("softmax", y)


def _attention(d: Drawer, x: str) -> str:
    """Heads of projections multiplied with each other, their softmax with a third; or two of these alone."""
    batch, *_, width = d.shape(x)
    tokens, heads = math.prod(d.shape(x)[1:-1]), d.pick([1, 2, 3, 4])
    if len(d.shape(x)) == 4:
        x = d.step("reshape", x, shape=[batch, tokens, width])
    depth = d.pick([4, 8, 10, 16, d.between(1, 24)])

    def part() -> str:
        y = d.step(
            "fully_connected", x, channels=heads * depth, flatten=False, keep_num_dims=True, bias=d.chance(0.8),
            **d.out(),
        )  # fmt: skip
        y = d.step("reshape", y, shape=[batch, tokens, heads, depth])
        return d.step("transpose", y, permutation=[0, 2, 1, 3])

    scores = d.step("batch_matmul", part(), part(), turned_b=True, **d.out())
    if d.chance(0.3):
        return scores
    y = d.step("batch_matmul", d.step("softmax", scores) if d.chance(0.7) else scores, part(), **d.out())
    if d.chance(0.3):
        return y
    return d.step("reshape", d.step("transpose", y, permutation=[0, 2, 1, 3]), shape=[batch, tokens, heads * depth])


def _lstm(d: Drawer, x: str) -> str:
    numbers = {
        "hidden_scale": 1 / d.pick([128, 100, 16]), "hidden_zero_point": d.between(-128, 127) * d.chance(0.5),
        "cell_clip": d.pick([0.0, 0.5, 10.0]), "cell_bits": d.pick([11, 12]),
    }  # fmt: skip
    return d.step("lstm", x, units=d.between(1, 24), time_major=d.chance(0.2), **numbers)


def _svdf(d: Drawer, x: str) -> str:
    state = d.pick(["int16", "int8"])
    return d.step(
        "svdf", x, units=d.between(1, 24), memory=d.between(1, 10), rank=d.pick([1, 2, 3], [0.6, 0.3, 0.1]),
        state=state, state_zero_point=d.between(-128, 127) * (state == "int8"), bias=d.chance(0.8),
        state_gain=d.pick([0.25, 1.0, 8.0]), **d.out(),
    )  # fmt: skip
