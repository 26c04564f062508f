"""Random small graphs over every operator: most weights are zero, some channels constant, some equal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.jit.builder import GraphBuilder
from tilewright.jit import graph as g
from tilewright.jit.reference import evaluate

KINDS = ("Conv2D", "DepthwiseConv2D", "Add", "AvgPool2D", "MaxPool2D", "Requantize", "Pad", "Concat", "Reshape")


def sparse_graph(seed: int) -> g.Graph:
    """A random graph with one input, ``x``, and one or two outputs."""
    rng = np.random.default_rng(seed)
    b = GraphBuilder(seed, (int(rng.integers(2, 8)), int(rng.integers(2, 8)), int(rng.integers(1, 20))))
    made = [_sparse(b, b.conv("x", int(rng.integers(2, 40))), rng)]
    for _ in range(int(rng.integers(2, 8))):
        made.append(_append(b, made[int(rng.integers(max(0, len(made) - 2), len(made)))], made, rng))
    if rng.integers(2):
        _, h, w, c = b.shape(made[-1])
        last = b.reshape(made[-1], (1, 1, 1, h * w * c))
        made.append(_sparse(b, b.dense(last, int(rng.integers(1, 12))), rng))
    else:
        made.append(_sparse(b, b.conv(made[-1], int(rng.integers(1, 12))), rng))
    outputs = [made[-1], made[int(rng.integers(len(made)))]] if rng.integers(4) == 0 else [made[-1]]
    return b.graph(*dict.fromkeys(outputs))


def _append(b: GraphBuilder, x: str, made: list[str], rng: np.random.Generator) -> str:
    _, h, w, c = b.shape(x)
    same = [t for t in made if b.shape(t)[1:3] == (h, w)]
    alike = [t for t in same if b.shape(t)[3] == c]
    choice = int(rng.integers(12))
    if choice <= 2:
        return _sparse(
            b, b.conv(x, int(rng.integers(2, 40)), (1, 1) if choice else (3, 3), padding=(choice == 0,) * 4), rng
        )
    if choice == 3:
        groups = int(rng.choice([k for k in range(1, c + 1) if c % k == 0]))
        return _sparse(b, b.conv(x, groups * int(rng.integers(1, 4)), groups=groups), rng)
    if choice == 4:
        return _sparse(b, b.depthwise(x), rng)
    if choice == 5:
        return b.add(x, alike[int(rng.integers(len(alike)))])
    if choice == 6:
        return b.average_pool(x, (2, 2), (1, 1), (1, 1, 0, 0))
    if choice == 7:
        return b.max_pool(x, (2, 2), (1, 1), (1, 0, 0, 1))
    if choice == 8:
        return b.concat(*(same[int(k)] for k in rng.integers(0, len(same), 2)), same=bool(rng.integers(2)))
    if choice == 10 and max(h, w) < 12:
        kernel, spread = (int(rng.integers(1, 4)), 3), (2, int(rng.integers(1, 3)))
        return _sparse(b, b.transposed(x, int(rng.integers(2, 20)), kernel, spread, (2, 1, 0, 1)), rng)
    if choice == 9:
        return b.pad(x, (1, 0, 0, 1))
    return b.requantize(x) if rng.integers(2) else b.reshape(x, (1, w, h, c))


def _sparse(b: GraphBuilder, tensor: str, rng: np.random.Generator) -> str:
    """The last convolution with dead rows, dead columns, equal rows, and a pad that may equal a constant."""
    op = b.ops[-1]
    assert isinstance(op, g.Conv2D | g.DepthwiseConv2D)
    rows = np.moveaxis(op.weight, -1, 0) if isinstance(op, g.DepthwiseConv2D) else op.weight
    count = len(rows)
    if rng.integers(3) == 0:  # beyond int8, as weights of uint8 files are
        rows = rows.astype(np.int16) * rng.integers(1, 3)
    elif rng.integers(2):
        rows = rows // 8
    rows = rows * (rng.random((count, *[1] * (rows.ndim - 1))) < 0.7)
    if isinstance(op, g.Conv2D):
        rows = rows * (rng.random(rows.shape[-1]) < rng.choice([0.3, 0.8]))
    source = np.where(rng.random(count) < 0.3, rng.integers(0, count, count), np.arange(count))
    rows = rows[source].astype(rows.dtype)
    bias = op.requant.bias.copy()
    bias[rng.random(count) < 0.2] = rng.choice([-(1 << 31), 1 << 22])  # what saturates is constant, too
    op.weight = np.ascontiguousarray(np.moveaxis(rows, 0, -1) if isinstance(op, g.DepthwiseConv2D) else rows)
    op.requant = replace(op.requant, bias=bias).of(source)
    if rng.integers(2):
        op.pad_value = int(rng.choice(_seen(b, op.inputs[0])))
    return tensor


def _seen(b: GraphBuilder, tensor: str) -> np.ndarray:
    """Values of a tensor for one input; its constants are among them."""
    x = np.zeros(b.shape("x"), np.int8)
    return evaluate(b.graph(tensor), {"x": x}, keep=True)[tensor].ravel()


def inputs_of(graph: g.Graph, seed: int) -> list[np.ndarray]:
    """Random inputs, and the extremes."""
    rng, shape = np.random.default_rng(seed), graph.tensors["x"].shape
    drawn = [rng.integers(-128, 128, shape), rng.choice([-128, 127], shape)]
    return [x.astype(np.int8) for x in (*drawn, np.full(shape, -128), np.full(shape, 127))]
