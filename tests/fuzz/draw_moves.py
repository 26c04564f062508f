"""Random operators of ``.tflite`` that move elements: parts, joins, arrangements and paddings."""

from __future__ import annotations

from tests.fuzz.draw import Drawer


def reshape(d: Drawer, x: str) -> str:
    """The same elements under another shape, by one of three operators."""
    shape = d.shape(x)
    if len(shape) == 4 and d.chance(0.3):
        return d.step("flatten_by_shape", x)
    wanted = d.pick(d.factors(x))
    if 1 in shape[1:] and d.chance(0.3):
        return d.step("squeeze", x, axes=[a for a in range(1, len(shape)) if shape[a] == 1][:2])
    if len(shape) < 4 and d.chance(0.3):
        return d.step("expand_dims", x, axis=d.between(1, len(shape)))
    return d.step("reshape", x, shape=wanted)


def to_map(d: Drawer, x: str) -> str:
    """An image of what is none."""
    return d.step("reshape", x, shape=[d.shape(x)[0], *d.map_sizes(x)])


def crops(d: Drawer, x: str) -> str:
    """Several images, or one, of the rows of what there is."""
    batch, height, width, channels = d.shape(x)
    count = d.pick([n for n in range(1, 7) if batch * height % n == 0])
    return d.step("reshape", x, shape=[count, batch * height // count, width, channels])


def transpose(d: Drawer, x: str) -> str:
    """Axes in another order, seldom the batch's too."""
    if d.chance(0.1):
        return d.step("transpose", x, permutation=d.rng.permutation(len(d.shape(x))).tolist())
    return d.step("transpose", x, permutation=d.permutation(x))


def pad(d: Drawer, x: str) -> str:
    """Zeros, a value of its own, or a mirror around."""
    shape = d.shape(x)
    spread = [[0, 0], *([d.between(0, 3), d.between(0, 3)] if d.chance(0.6) else [0, 0] for _ in shape[1:])]
    kind = d.pick(["pad", "pad_value", "mirror_pad"], [0.6, 0.2, 0.2])
    if kind == "mirror_pad":
        spread = [[min(b, n - 1), min(a, n - 1)] for (b, a), n in zip(spread, shape, strict=True)]
        return d.step(kind, x, paddings=spread, symmetric=d.chance(0.5))
    return d.step(kind, x, paddings=spread, **({"value": d.zero_point()} if kind == "pad_value" else {}))


def concat(d: Drawer, x: str) -> str:
    """A join of tensors that agree but along one axis."""
    shape = d.shape(x)
    axis = d.axis(x) if d.chance(0.5) else len(shape) - 1
    parts = d.parts(x, axis, lambda: d.same(x) if d.dtype == "int8" else {})
    if d.dtype == "int8":
        parts = [p if d.same(p) == d.same(x) else d.step("requantize", p, **d.same(x)) for p in parts]
        return d.step("concatenation", *parts, axis=axis)
    return d.step("concatenation", *parts, axis=axis, gain=1.0)


def split(d: Drawer, x: str) -> object:
    """Parts along an axis, some of them joined again."""
    shape = d.shape(x)
    axis = d.axis(x)
    if d.chance(0.25) and shape[axis] <= 8:
        parts = d.steps_of("unpack", x, axis=axis)
    else:
        parts = d.steps_of("split", x, parts=d.split_count(x, axis), axis=axis)
    return d.rejoined(parts)


def slices(d: Drawer, x: str) -> str:
    """A part, with or without steps."""
    shape = d.shape(x)
    begin = [d.between(0, (n - 1) // 2) for n in shape]
    end = [d.between(b + 1, n) for b, n in zip(begin, shape, strict=True)]
    if d.chance(0.7):
        begin[0], end[0] = 0, shape[0]
    if d.chance(0.4):
        return d.step("slice", x, begin=begin, size=[e - b for b, e in zip(begin, end, strict=True)])
    strides = [d.pick([1, 1, 2]) if end[0] - begin[0] < shape[0] else 1, *(d.pick([1, 1, 2, 3]) for _ in shape[1:])]
    shrink = 0
    if d.chance(0.25):
        axis = d.axis(x)
        end[axis], strides[axis], shrink = begin[axis] + 1, 1, 1 << axis
    return d.step("strided_slice", x, begin=begin, end=end, strides=strides, shrink=shrink)


def packing(d: Drawer, x: str) -> str:
    """Two tensors along an axis of their own."""
    y = d.partner(x, lambda t: t.shape == d.shape(x)) or x
    if d.chance(0.2):
        y = d.constant(d.shape(x), **d.same(x))
    if d.same(y) != d.same(x):
        y = d.step("requantize", y, **d.same(x))
    return d.step("pack", x, y, axis=d.between(0 if d.chance(0.1) else 1, len(d.shape(x))))


def arranged(d: Drawer, x: str) -> str:
    """Backwards, or several times."""
    if d.chance(0.4):
        return d.step("reverse", x, axis=d.axis(x))
    return d.step(
        "tile", x, times=[d.pick([1, 2], [0.9, 0.1]), *(d.pick([1, 2, 3], [0.6, 0.3, 0.1]) for _ in d.shape(x)[1:])]
    )


def gather(d: Drawer, x: str) -> str:
    """Places along an axis, in any order."""
    axis = d.axis(x)
    count = d.shape(x)[axis]
    return d.step("gather", x, indices=[d.between(0, count - 1) for _ in range(d.between(1, 6))], axis=axis)


def blocks(d: Drawer, x: str) -> str:
    """Pixels that become channels, or come of them."""
    return d.step(d.pick(["space_to_depth", "depth_to_space"]), x, block=d.pick([2, 3, 4], [0.8, 0.1, 0.1]))
