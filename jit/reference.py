"""Reference evaluator: the meaning of every operator in integers, in NumPy.

The oracle of the compiler's tests. Accumulations run as float64 matrix products, which are exact here: the
partial sums of int8 x int8 products stay far below 2^53.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import wrap_int32
from tilewright.jit import graph as g
from tilewright.jit.ir.domain import Domain, Kind
from tilewright.jit.ir.regions import windows
from tilewright.jit.sampling import Sampling

Array = NDArray[Any]


class Integers(Domain):
    """Tensors of int8; accumulators are int64, which requantising wraps to int32."""

    dtype = np.int8

    def convolve(self, view: Array, weight: NDArray[np.integer]) -> Array:
        n, oh, ow = view.shape[:3]
        patches = view.reshape(n * oh * ow, -1).astype(np.float64)
        kernel = weight.transpose(3, 1, 2, 0).reshape(patches.shape[1], -1).astype(np.float64)
        return (patches @ kernel).reshape(n, oh, ow, -1).astype(np.int64)

    def tap_sums(self, view: Array, weight: NDArray[np.integer] | None) -> Array:
        if weight is None:
            return view.sum(axis=(-1, -2), dtype=np.int64)
        return np.einsum("nhwcij,ijc->nhwc", view.astype(np.int32), weight.astype(np.int32))

    def products(self, a: Array, b: Array, offsets: tuple[int, int]) -> Array:
        left, right = (x.astype(np.float64) - offset for x, offset in zip((a, b), offsets, strict=True))
        return (left @ right.transpose(0, 2, 1)).astype(np.int64)

    def resample(self, x: Array, rows: Sampling, columns: Sampling, offset: int) -> Array:
        return resampled(x, rows, columns, offset)

    def rescale(self, x: Array, scale: g.Scale) -> Array:
        return scale.apply(x).astype(np.int64)

    def multiply(self, a: Array, b: Array) -> Array:
        return a * b

    def times(self, acc: Array, factor: int) -> Array:
        return wrap_int32(acc).astype(np.int64) * factor

    def extreme(self, a: Array, b: Array, kind: Literal["greatest", "least"], values: bool) -> Array:
        return np.maximum(a, b) if kind == "greatest" else np.minimum(a, b)

    def window_maximum(self, x: Array, kernel: tuple[int, int], strides: tuple[int, int]) -> Array:
        return windows(x, kernel, strides).max(axis=(-1, -2))

    def requantize(
        self, acc: Array, requant: g.Requant, kind: Kind = "sum", values: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int8]:
        return requant.apply(wrap_int32(acc))

    def on_host(self, compute: Callable[..., Any], *inputs: Array, why: str = "") -> Any:
        return compute(*inputs)


INTEGERS = Integers()


def resampled(x: Array, rows: Sampling, columns: Sampling, offset: int) -> NDArray[np.int64]:
    """The sums of :class:`~tilewright.jit.graph.Resample`, (1, OH, OW, C)."""
    return columns.apply(rows.apply(x.astype(np.int64) - offset, 1), 2)


def result_of(op: g.Op, *inputs: Array) -> Any:
    """What an operator that no interpreter runs gives for these inputs."""
    return op.meaning(INTEGERS, *inputs)


def evaluate(graph: g.Graph, inputs: dict[str, Array], keep: bool = False) -> dict[str, Array]:
    """The graph's outputs by name; with ``keep`` every tensor, inputs included.

    ``inputs``: one array per graph input, of the shape and dtype in ``graph.tensors``. Raises ValueError for a
    missing input or a wrong shape or dtype, for an operator that an interpreter runs, and where an operator's result
    contradicts its declared shape.
    """
    values: dict[str, Array] = {}
    for name in graph.inputs:
        spec = graph.tensors[name]
        if name not in inputs:
            raise ValueError(f"{graph.name}: input {name!r} is missing")
        value = np.asarray(inputs[name])
        if value.shape != spec.shape or value.dtype != spec.dtype:
            raise ValueError(
                f"{graph.name}: input {name!r} is {value.dtype}{value.shape}, expected {spec.dtype}{spec.shape}"
            )
        values[name] = value
    for op in graph.ops:
        found = result_of(op, *(values[name] for name in op.inputs))
        for name, result in zip(op.outputs, found if isinstance(found, tuple) else (found,), strict=True):
            spec = graph.tensors[name]
            if result.shape != spec.shape or result.dtype != spec.dtype:
                raise ValueError(
                    f"{graph.name}: {op.name} gives {result.dtype}{result.shape}, declared {spec.dtype}{spec.shape}"
                )
            values[name] = result
    return values if keep else {name: values[name] for name in graph.outputs}
