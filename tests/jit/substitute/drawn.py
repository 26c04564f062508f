"""Random graphs in which each rule of :mod:`tilewright.jit.substitute` has something to say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.jit.builder import GraphBuilder
from tilewright.jit import graph as g
from tilewright.jit.numbers.scales import IDENTITY_SCALE, identity_requant


def drawn_for(rule: str, seed: int) -> g.Graph:
    """A random graph for one rule, that it may refuse for one reason or another; its input is x."""
    rng = np.random.default_rng(seed)
    b = GraphBuilder(seed, (int(rng.integers(3, 9)), int(rng.integers(3, 9)), int(rng.integers(1, 20))))
    made = globals()[f"_{rule}"](b, rng)
    if rng.random() < 0.3:  # somebody behind it
        made = b.conv(made, int(rng.integers(1, 20)))
    outputs = [made]
    if rng.random() < 0.1:  # what was to go is an output
        outputs.append(b.ops[int(rng.integers(0, len(b.ops)))].output)
    return b.graph(*dict.fromkeys(outputs))


def side_by_side() -> g.Graph:
    """Two layers whose results lie next to each other: as one they fill the array's channels."""
    b = GraphBuilder(3, (9, 9, 16))
    both = [b.conv("x", 8) for _ in range(2)]
    first: Any = b.ops[0]
    b.ops[1] = _changed(b.ops[1], requant=replace(first.requant, bias=first.requant.bias - 5))
    return b.graph(b.conv(b.concat(*both, same=True), 16))


def _clamp_in_layer(b: GraphBuilder, rng: np.random.Generator) -> str:
    kind = int(rng.integers(0, 6))
    if kind == 0:
        made = b.conv("x", int(rng.integers(1, 20)))
    elif kind == 1:
        made = b.depthwise("x")
    elif kind == 2:
        made = b.add("x", "x")
    elif kind == 3:
        made = b.average_pool("x", (2, 2), padding=(0, 0, 1, 1))
    elif kind == 4:
        height, width = b.shape("x")[1:3]
        made = b.resample("x", np.eye(height, dtype=np.int32), np.eye(width, dtype=np.int32))
    else:
        made = b.max_pool("x", (2, 2))
    return _function(b, made, rng, clamp=rng.random() < 0.8)


def _table_where_read(b: GraphBuilder, rng: np.random.Generator) -> str:
    f = _function(b, "x", rng)
    other = "x" if rng.random() < 0.5 else b.depthwise("x")
    pair = (f, other) if rng.random() < 0.5 else (other, f)
    pair = (f, f) if rng.random() < 0.15 else pair
    if rng.random() < 0.4:
        return b.concat(*pair, same=bool(rng.random() < 0.5))
    kinds: list[type[g.Pairwise]] = [g.Add, g.Multiply, g.Maximum, g.Minimum]
    return b.pairwise(kinds[int(rng.integers(0, 4))], *pair)


def _function_behind_pool(b: GraphBuilder, rng: np.random.Generator) -> str:
    kernel = tuple(int(k) for k in rng.integers(1, 4, 2))
    padding = tuple(int(rng.integers(0, most + (rng.random() < 0.1))) for most in 2 * kernel)
    return b.max_pool(_function(b, "x", rng, clamp=rng.random() < 0.5), kernel, (1, 2), padding)


def _depthwise_as_dense(b: GraphBuilder, rng: np.random.Generator) -> str:
    return b.depthwise("x", (int(rng.integers(1, 4)), 3), (1, int(rng.integers(1, 3))), padding=(1, 1, 0, 1))


def _pointwise_ahead_of_repetition(b: GraphBuilder, rng: np.random.Generator) -> str:
    height, width, channels = b.shape("x")[1:]
    rows, columns = (np.eye(n, dtype=np.int32)[rng.integers(0, n, int(rng.integers(1, 9)))] for n in (height, width))
    wide = b.resample("x", rows, columns)
    if rng.random() < 0.8:  # as it is, not scaled
        same = identity_requant(channels)
        offset = int(rng.integers(-3, 4))
        b.ops[-1] = _changed(b.ops[-1], offset=offset, requant=replace(same, bias=same.bias + np.int32(offset)))
    return b.conv(wide, int(rng.integers(1, 20)), (1, 1), padding=(0, 0, 0, 0))


def _layers_joined(b: GraphBuilder, rng: np.random.Generator) -> str:
    makers = [b.conv("x", int(rng.integers(1, 20))) for _ in range(int(rng.integers(2, 5)))]
    layers: list[Any] = list(b.ops)
    first = layers[0].requant
    for k, op in enumerate(layers):
        if rng.random() < 0.8:
            alike = replace(op.requant, zero_point=first.zero_point, lo=first.lo, hi=first.hi)
            b.ops[k] = _changed(op, requant=alike)
    order = [makers[k] for k in rng.permutation(len(makers))]
    if rng.random() < 0.2:
        order.append(order[0])
    return b.concat(*order, same=True)


def _changed(op: g.Op, **fields: Any) -> g.Op:
    return replace(op, **fields)


def _function(b: GraphBuilder, x: str, rng: np.random.Generator, clamp: bool = False) -> str:
    """Any function of single elements, or a constant added and a clamp."""
    name = b.requantize(x)
    values = np.arange(-128, 128)
    if clamp:
        lo, hi = sorted(int(k) for k in rng.integers(-128, 128, 2))
        values = np.clip(values + int(rng.integers(-30, 30)), lo, hi)
    else:
        values = rng.integers(-128, 128, 256)
        values = np.sort(values) if rng.random() < 0.5 else values
    table = np.roll(values.astype(np.int8), -128).tobytes()
    b.ops[-1] = _changed(b.ops[-1], scale=replace(IDENTITY_SCALE, table=table), requant=identity_requant(b.shape(x)[3]))
    return name
