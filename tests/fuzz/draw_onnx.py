"""Random ``.onnx`` networks: QDQ as different exporters write it, and some operators in operator form."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.draw import OTHER, Drawer, Menu, Size, draw_steps
from tests.fuzz.recipe import Recipe

#: of two tensors, by what a step is called
_KINDS = ["add", "sub", "mul", "maximum", "minimum", "sum", "mean"]


class OnnxDrawer(Drawer):
    """Has the exporter's habits: how often a pair is missing behind an operator that only moves values."""

    def __init__(self, rng: np.random.Generator, size: Size, options: dict[str, Any]) -> None:
        super().__init__("onnx", rng, size, options)
        self.bare = self.pick([0.0, 0.15, 0.9], [0.5, 0.3, 0.2])
        self.forms = self.dtype == "uint8" and self.chance(0.25)

    def moved(self) -> dict[str, Any]:
        """Numbers behind an operator that moves values: mostly the input's, else others, or no pair."""
        if self.chance(self.bare):
            return {"pair": False}
        return self.out() | {"gain": 1.0} if self.chance(0.12) else {}

    def form(self) -> str:
        """QDQ or operator form."""
        return "qlinear" if self.forms and self.chance(0.6) else "qdq"


def draw_onnx(rng: np.random.Generator, size: Size, weight_bits: int = 8) -> Recipe:
    """One random network; ``weight_bits`` below 8: with weights of 4 bits."""
    options = {
        "dtype": str(rng.choice(["int8", "uint8"], p=[0.5, 0.5])),
        "power_of_two": bool(rng.random() < 0.25),
        "opset": int(rng.choice([13, 17, 18])),
        "dedicated_pairs": bool(rng.random() < 0.3),
    }
    if weight_bits < 8:
        options |= {"weight_bits": 4, "weight_cast": bool(rng.random() < 0.6), "opset": 21}
    d = OnnxDrawer(rng, size, options)
    for _ in range(d.pick([1, 2, 3], [0.75, 0.2, 0.05])):
        shape = d.input_shape(d.pick([4, 2, 3], [0.88, 0.07, 0.05]), channels_last=False)
        kind = "float32" if d.chance(0.6) else d.dtype
        d.step("input", shape=shape, dtype=kind, scale=d.scale(), zero_point=d.zero_point())
    draw_steps(d, _menu)
    if d.chance(0.3):
        tail = d.pick(["softmax", "sigmoid", "requantise"])
        d.step(tail, d.live[-1], **({"dtype": OTHER[d.dtype]} if tail == "requantise" else {}))
    return d.recipe()


def _menu(d: OnnxDrawer, x: str) -> Menu[OnnxDrawer]:
    common: Menu[OnnxDrawer] = [
        (2.5, _binary_constant), (4, _binary), (4, _activation), (1, _reshape), (1, _transpose), (2, _concat),
        (1, _split), (1, _slice), (0.7, _gather), (1.5, _requantise), (1, _pad), (1, _reduce), (1, _matmul),
        (0.5, _fixed),
    ]  # fmt: skip
    rank = len(d.shape(x))
    if rank < 2:
        return [(1, _activation), (1, _requantise)]
    if rank == 4:
        entries: Menu[OnnxDrawer] = [
            (14, _conv), (6, _depthwise), (2, _conv_transpose), (5, _pool), (2, _global_pool), (2, _resize),
            (3, _residual), (2, _branches), (1, _excite), (2.5, _classify), (0.8, _depth_to_space), *common,
        ]  # fmt: skip
    elif rank == 2:
        entries = [(6, _gemm), (2, _matmul), (1.5, _to_map), *common]
    else:
        entries = [(2, _matmul), (1, _attention), (1.5, _to_map), *common]
    return entries


def _layer(d: OnnxDrawer) -> dict[str, Any]:
    args: dict[str, Any] = {
        "activation": d.pick(["none", "relu", "relu6", "relu_n1_to_1"], [0.5, 0.33, 0.14, 0.03]),
        "per_channel": d.chance(0.65),
        "bias": d.pick(["exact", "none", "other", "float"], [0.72, 0.12, 0.1, 0.06]),
        **d.out(),
    }
    if d.dtype == "uint8" and d.chance(0.3):
        args |= {"weight_dtype": "uint8", "weight_zero_point": d.pick([128, d.between(0, 255)]), "per_channel": False}
    return args


def _conv(d: OnnxDrawer, x: str) -> str:
    args = {"channels": d.channels(), "kernel": d.kernel(), "stride": d.stride(), **_layer(d)}
    if args["stride"] == [1, 1] and d.chance(0.12):
        args["dilation"] = [d.between(1, 4), d.between(1, 4)]
    args["padding"] = _padding(d, args["kernel"])
    if str(args["padding"]).startswith("SAME"):
        args.pop("dilation", None)  # ONNX Runtime takes no dilation with auto_pad
    if d.shape(x)[1] > 1 and d.chance(0.12):
        args |= d.grouped(x, 1, args["channels"])
    return d.step("conv", x, **args, **_form(d))


def _padding(d: OnnxDrawer, kernel: list[int]) -> Any:
    style = d.pick(["half", "same", "valid", "SAME_UPPER", "SAME_LOWER", "free"], [0.4, 0.15, 0.2, 0.08, 0.05, 0.12])
    if style == "half":
        return [kernel[0] // 2, kernel[1] // 2] * 2
    if style == "free":
        return [d.between(0, kernel[a % 2] - 1) for a in range(4)]
    return style


def _form(d: OnnxDrawer) -> dict[str, Any]:
    return {"form": "qlinear"} if d.form() == "qlinear" else {}


def _depthwise(d: OnnxDrawer, x: str) -> str:
    kernel = d.kernel()
    return d.step(
        "depthwise", x, multiplier=d.pick([1, 2, 3], [0.85, 0.1, 0.05]), kernel=kernel, stride=d.stride(),
        padding=_padding(d, kernel), **_layer(d), **_form(d),
    )  # fmt: skip


def _conv_transpose(d: OnnxDrawer, x: str) -> str:
    kernel, stride = d.pick([[2, 2], [3, 3], d.kernel()]), d.pick([[2, 2], [1, 1], d.stride()])
    if d.chance(0.4):
        kernel, stride = [d.between(1, 5), d.between(1, 5)], [d.between(1, 4), d.between(1, 4)]
    args = {k: v for k, v in _layer(d).items() if not k.startswith("weight")}
    most = [k - 1 if d.chance(0.2) else (k - 1) // 2 for k in kernel]
    pads = [d.between(0, most[a % 2]) if d.shape(x)[2 + a % 2] > 2 else 0 for a in range(4)]
    extra = [d.between(0, s - 1) if d.chance(0.3) else 0 for s in stride]
    outputs = {"channels": d.channels(), "groups": 1}
    if d.chance(0.12):
        outputs = d.grouped(x, 1, outputs["channels"], least=1)
    return d.step("conv_transpose", x, kernel=kernel, stride=stride, pads=pads, output_padding=extra, **outputs, **args)


def _gemm(d: OnnxDrawer, x: str) -> str:
    return d.step("gemm", x, channels=d.channels(), trans_b=d.chance(0.7), **_layer(d))


def _matmul(d: OnnxDrawer, x: str) -> str:
    return d.step("matmul", x, channels=d.channels(), **_layer(d), **_form(d))


def _attention(d: OnnxDrawer, x: str) -> str:
    """A tensor times itself; or heads of projections, the softmax of their products, and the products with a third."""
    if d.chance(0.3):
        y = d.step("transpose", x, permutation=[0, 2, 1])
        return d.step("matmul_of", x, y, **d.out())
    (batch, tokens, _), (heads, depth) = d.shape(x), d.heads()

    def part(permutation: list[int]) -> str:
        y = d.step("matmul", x, channels=heads * depth, **d.out())
        if d.chance(0.5):
            y = d.step("add", y, d.constant([heads * depth]), **d.out())
        y = d.step("reshape", y, shape=[batch, tokens, heads, depth], **d.moved())
        return d.step("transpose", y, permutation=permutation, **d.moved())

    y = d.step("matmul_of", part([0, 2, 1, 3]), part([0, 2, 3, 1]), **d.out())
    if d.chance(0.7):
        y = d.step("softmax", y, **d.out())
    y = d.step("matmul_of", y, part([0, 2, 1, 3]), **d.out())
    y = d.step("transpose", y, permutation=[0, 2, 1, 3], **d.moved())
    return d.step("reshape", y, shape=[batch, tokens, heads * depth], **d.moved())


def _pool(d: OnnxDrawer, x: str) -> str:
    kernel = d.kernel()
    if d.chance(0.5):
        kernel, stride, pads = [2, 2], [2, 2], [0, 0, 0, 0]
    else:
        stride = d.stride()
        pads = [d.between(0, kernel[a % 2] // 2) for a in range(4)] if d.chance(0.6) else [0, 0, 0, 0]
    args: dict[str, Any] = {"kernel": kernel, "stride": stride, "pads": pads, "ceil_mode": d.chance(0.15)}
    if d.chance(0.55):
        return d.step("max_pool", x, **args, **d.moved())
    return d.step("average_pool", x, count_include_pad=d.chance(0.35), **args, **_numbers(d))


def _numbers(d: OnnxDrawer) -> dict[str, Any]:
    """Numbers behind an operator that computes: the input's (none given), or some of its own."""
    return {} if d.chance(0.4) else {"gain": 1.0} | d.out()


def _global_pool(d: OnnxDrawer, x: str) -> str:
    if d.chance(0.3):
        return d.step("reduce_mean", x, axes=[2, 3], keep_dims=d.chance(0.5), **d.out())
    if d.chance(0.15):
        return d.step("global_max_pool", x, **d.moved())
    return d.step("global_average_pool", x, **d.out(), **_form(d))


def _reduce(d: OnnxDrawer, x: str) -> str:
    axes = d.axes(x)
    kind = d.pick(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"], [0.4, 0.2, 0.25, 0.15])
    return d.step("reduce_mean", x, axes=axes, keep_dims=d.chance(0.6), operator=kind, **d.out())


def _binary(d: OnnxDrawer, x: str) -> str:
    kind = d.pick(_KINDS, [0.45, 0.15, 0.2, 0.075, 0.075, 0.025, 0.025])
    y = d.partner(x, lambda t: t.shape == d.shape(x)) or x
    if kind in _KINDS[3:] and d.chance(0.3):
        more = [d.partner(x, lambda t: t.shape == d.shape(x)) or x for _ in range(d.between(1, 3))]
        return d.step(kind, x, y, *more, **d.out())
    return _with(d, kind, x, y)


def _with(d: OnnxDrawer, kind: str, x: str, y: str) -> str:
    a, b = (x, y) if d.chance(0.7) else (y, x)
    if kind in ("add", "mul") and d.form() == "qlinear":
        return d.step(kind, a, b, form="qlinear", **d.out())
    return d.step(kind, a, b, activation=d.pick(["none", "relu"], [0.65, 0.35]), **d.out())


def _binary_constant(d: OnnxDrawer, x: str) -> str:
    full = d.shape(x)
    per_channel = [full[1], *(1 for _ in full[2:])]
    shapes = [per_channel, [1, *per_channel], [1], [], list(full), d.across(x)]
    shape = d.pick(shapes, [0.35, 0.2, 0.1, 0.1, 0.1, 0.15])
    kind = d.pick(_KINDS, [0.33, 0.15, 0.33, 0.075, 0.075, 0.02, 0.02])
    return _with(d, kind, x, d.constant(shape))


def _activation(d: OnnxDrawer, x: str) -> str:
    kinds = ["relu", "clip", "leaky_relu", "prelu", "hard_swish", "hard_sigmoid", "where"]
    kind = d.pick(kinds, [3, 3, 2, 1, 2, 1, 0.7])
    if kind == "clip":
        low, high = d.pick([[0.0, 6.0], [-1.0, 1.0], [0.0, 1.0], [0.5, 3.0], [-2.0, 0.7]])
        return d.step(kind, x, low=low, high=high, **d.out())
    if kind == "leaky_relu":
        return d.step(kind, x, alpha=d.pick([0.1, 0.01, 0.3, 0.25]), **d.out())
    if kind == "hard_swish" and d.options["opset"] < 14:
        y = d.step("hard_sigmoid", x)
        return d.step("mul", x, y, **d.out())
    return d.step(kind, x, **d.out())


def _fixed(d: OnnxDrawer, x: str) -> str:
    return d.step(d.pick(["sigmoid", "tanh", "softmax"]), x, **d.out())


def _requantise(d: OnnxDrawer, x: str) -> str:
    args = d.out()
    if d.chance(0.4):
        args |= {"then_scale": d.scale(), "then_zero_point": d.zero_point()}
    return d.step("requantise", x, **args)


def _reshape(d: OnnxDrawer, x: str) -> str:
    shape = d.shape(x)
    if len(shape) > 2 and d.chance(0.4):
        return d.step("flatten", x, axis=1, **d.moved())
    shapes = d.factors(x)
    if 1 in shape[1:] and d.chance(0.3):
        axes = [a for a in range(1, len(shape)) if shape[a] == 1][:2]
        return d.step("squeeze", x, axes=axes, **d.moved())
    if len(shape) < 4 and d.chance(0.3):
        return d.step("unsqueeze", x, axis=d.between(1, len(shape)), **d.moved())
    return d.step("reshape", x, shape=d.pick(shapes), **d.moved())


def _to_map(d: OnnxDrawer, x: str) -> str:
    h, w, c = d.map_sizes(x)
    return d.step("reshape", x, shape=[d.shape(x)[0], c, h, w], **d.moved())


def _transpose(d: OnnxDrawer, x: str) -> str:
    return d.step("transpose", x, permutation=d.permutation(x), **d.moved())


def _pad(d: OnnxDrawer, x: str) -> str:
    shape = d.shape(x)
    pads = [0 if a % len(shape) == 0 or d.chance(0.5) else d.between(0, 3) for a in range(2 * len(shape))]
    mode = d.pick(["constant", "reflect", "edge"], [0.75, 0.15, 0.1])
    if mode != "constant":
        pads = [min(p, shape[a % len(shape)] - 1) for a, p in enumerate(pads)]
    value = float(d.pick([0.0, 0.5, -1.0], [0.8, 0.1, 0.1])) if mode == "constant" else 0.0
    return d.step("pad", x, pads=pads, mode=mode, value=value, **d.moved())


def _concat(d: OnnxDrawer, x: str) -> str:
    shape = d.shape(x)
    axis = d.between(1, len(shape) - 1) if d.chance(0.4) else 1
    return d.step("concat", *d.parts(x, axis), axis=axis, **_numbers(d), **_form(d))


def _split(d: OnnxDrawer, x: str) -> object:
    axis = d.between(1, len(d.shape(x)) - 1)
    return d.rejoined(d.steps_of("split", x, parts=d.split_count(x, axis), axis=axis))


def _slice(d: OnnxDrawer, x: str) -> str:
    count = min(len(d.shape(x)) - 1, 1 if d.chance(0.6) else 2)
    axes = sorted(d.rng.choice(np.arange(1, len(d.shape(x))), size=count, replace=False).tolist())
    begin = [d.between(0, (d.shape(x)[a] - 1) // 2) for a in axes]
    end = [d.between(b + 1, d.shape(x)[a]) for a, b in zip(axes, begin, strict=True)]
    steps = [d.pick([1, 1, 2, 3]) for _ in axes]
    return d.step("slice", x, begin=begin, end=end, axes=axes, steps=steps, **d.moved())


def _resize(d: OnnxDrawer, x: str) -> str:
    _, _, h, w = d.shape(x)
    size = [2 * h, 2 * w] if d.chance(0.6) else [d.between(1, 24), d.between(1, 24)]
    mode = d.pick(["nearest", "linear"])
    coordinates = d.pick(["asymmetric", "half_pixel", "align_corners"])
    return d.step("resize", x, size=size, mode=mode, coordinates=coordinates, **d.moved())


def _gather(d: OnnxDrawer, x: str) -> str:
    shape = d.shape(x)
    axis = d.between(1, len(shape) - 1)
    if d.chance(0.3):
        repeats = [1 if a == 0 or d.chance(0.6) else d.between(1, 3) for a in range(len(shape))]
        return d.step("tile", x, repeats=repeats, **d.moved())
    first, count = d.between(0, shape[axis] - 1), d.between(1, min(shape[axis], 12))
    places = [(first + k * d.pick([1, 1, 5])) % shape[axis] for k in range(count)]
    return d.step("gather", x, places=places, axis=axis, **d.moved())


def _depth_to_space(d: OnnxDrawer, x: str) -> str:
    if d.chance(0.5):
        return d.step("space_to_depth", x, block=2, **d.moved())
    return d.step("depth_to_space", x, block=2, mode=d.pick(["DCR", "CRD"]), **d.moved())


def _residual(d: OnnxDrawer, x: str) -> str:
    depth = d.shape(x)[1]
    y = d.step("conv", x, channels=d.channels(), kernel=d.pick([1, 3]), **_layer(d), **_form(d))
    if d.chance(0.5):
        y = d.step("depthwise", y, kernel=3, **_layer(d), **_form(d))
    if d.chance(d.bare):  # the sum is taken in float
        y = d.step("conv", y, channels=depth, kernel=d.pick([1, 3]), pair=False)
        return d.step("add", x, y, activation=d.pick(["none", "relu"]), **d.out())
    y = d.step("conv", y, channels=depth, kernel=d.pick([1, 3]), **_layer(d), **_form(d))
    return _with(d, "add", x, y)


def _branches(d: OnnxDrawer, x: str) -> str:
    numbers = {"scale": 0.04, "zero_point": d.zero_point()} if d.chance(0.5) else {}
    parts = d.branches(x, _layer(d), numbers)
    return d.step("concat", *parts, axis=1, **_numbers(d))


def _excite(d: OnnxDrawer, x: str) -> str:
    depth = d.shape(x)[1]
    y = d.step("global_average_pool", x)
    y = d.step("conv", y, channels=max(1, depth // 4), kernel=1, activation="relu")
    y = d.step("conv", y, channels=depth, kernel=1)
    y = d.step(d.pick(["sigmoid", "hard_sigmoid"]), y)
    return d.step("mul", x, y, **d.out())


def _classify(d: OnnxDrawer, x: str) -> str:
    y = d.step("global_average_pool", x, **d.out()) if d.chance(0.7) else x
    y = d.step("flatten", y, **d.moved())
    return d.step("gemm", y, channels=d.channels(), **_layer(d))
