"""The graph in the algebra: every operator's meaning, in elements that stand for all inputs at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.jit import graph as g
from tilewright.jit.errors import Unfollowed
from tilewright.jit.ir.domain import Domain, Kind
from tilewright.jit.ir.regions import windows
from tilewright.jit.ir.requant import INT8
from tilewright.jit.proof.algebra import LINEAR, MAXSET, MINSET, PLAIN, SUM_TERMS, table_form
from tilewright.jit.proof.elements import (
    map_elements,
    members,
    multiply_elements,
    product_of_elements,
    reduce_elements,
    requantize_elements,
)
from tilewright.jit.sampling import Sampling

Elements = NDArray[np.float64]

_BLOCK = 1 << 20  #: elements of one matrix of patches
_KINDS: dict[Kind, int] = {"sum": LINEAR, "value": PLAIN, "greatest": MAXSET, "least": MINSET}


def evaluate_elements(
    graph: g.Graph, inputs: Mapping[str, Elements], seed: int, keep: bool = False
) -> dict[str, Elements]:
    """The graph's outputs by name, reduced; with ``keep`` every tensor.

    ``inputs``: elements in the shape of each graph input. Raises :class:`Unfollowed` for an operator without a meaning
    in the algebra.
    """
    values, algebra = dict(inputs), Algebra(seed)
    last = {t: number for number, op in enumerate(graph.ops) for t in op.inputs}
    for number, op in enumerate(graph.ops):
        try:
            result = op.meaning(algebra, *(values[t] for t in op.inputs))
        except Unfollowed as reason:
            raise Unfollowed(f"{op.name} ({op.kind}): {reason}") from reason
        for t, found in zip(op.outputs, result if isinstance(result, tuple) else (result,), strict=True):
            if found.shape != graph.tensors[t].shape:
                raise ValueError(f"{graph.name}: {op.name} gives {found.shape}, not the declared shape")
            values[t] = found
        if not keep:
            for t in op.inputs:
                if last[t] == number and t not in graph.outputs:
                    values.pop(t, None)
    return values if keep else {t: values[t] for t in graph.outputs}


class Algebra(Domain):
    """Elements of :mod:`tilewright.jit.proof.algebra`: tensors are reduced, accumulators need not be."""

    dtype = np.float64

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def convolve(self, view: Elements, weight: NDArray[np.integer]) -> Elements:
        _, oh, ow, *_ = view.shape
        kernel = weight.transpose(1, 2, 3, 0).reshape(-1, len(weight)).astype(np.float64)
        acc = np.empty((1, oh, ow, len(weight)))
        rows = max(1, _BLOCK // (ow * len(kernel)))
        for y in range(0, oh, rows):
            part = view[0, y : y + rows].transpose(0, 1, 3, 4, 2)
            acc[0, y : y + rows] = _products(part.reshape(-1, len(kernel)), kernel).reshape(len(part), ow, -1)
        return acc

    def tap_sums(self, view: Elements, weight: NDArray[np.integer] | None) -> Elements:
        acc = np.zeros(view.shape[:4])
        for tap, (ky, kx) in enumerate(np.ndindex(*view.shape[4:])):
            values = view[..., ky, kx]
            acc += values if weight is None else values * weight[ky, kx].astype(np.float64)
            if tap % SUM_TERMS == SUM_TERMS - 1:
                reduce_elements(acc.reshape(-1))
        return acc

    def products(self, a: Elements, b: Elements, offsets: tuple[int, int]) -> Elements:
        left, right = (np.ascontiguousarray(x) - offset for x, offset in zip((a, b), offsets, strict=True))
        for side in (left, right):
            reduce_elements(side.reshape(-1))
        return np.stack([product_of_elements(x, y) for x, y in zip(left, right, strict=True)])

    def resample(self, x: Elements, rows: Sampling, columns: Sampling, offset: int) -> Elements:
        acc = np.empty((1, len(rows), len(columns), x.shape[3]))
        across = list(zip(columns.places.T, columns.weights.T.astype(np.float64), strict=True))
        for y, taps in enumerate(rows.taps()):
            total = np.zeros(acc.shape[2:])
            for i, by in taps:
                for places, weights in across:
                    total += _times(by * weights, x[0, i, places] - offset)
            acc[0, y] = _reduced(total)
        return acc

    def rescale(self, x: Elements, scale: g.Scale) -> Elements:
        out = np.empty(x.size)
        map_elements(np.ascontiguousarray(x).ravel(), *table_form(self.seed, scale.apply(INT8).astype(np.int64)), out)
        return out.reshape(x.shape)

    def multiply(self, a: Elements, b: Elements) -> Elements:
        out = np.empty(a.size)
        multiply_elements(a.ravel(), b.ravel(), out)
        return out.reshape(a.shape)

    def times(self, acc: Elements, factor: int) -> Elements:
        return _times(np.array([float(factor)]), _reduced(acc).ravel()).reshape(acc.shape)

    def extreme(self, a: Elements, b: Elements, kind: Literal["greatest", "least"], values: bool) -> Elements:
        if not values:
            raise Unfollowed("of other than int8 values as they are")
        return self._members(a, _KINDS[kind]) + self._members(b, _KINDS[kind])

    def window_maximum(self, x: Elements, kernel: tuple[int, int], strides: tuple[int, int]) -> Elements:
        return self.tap_sums(windows(self._members(x, MAXSET), kernel, strides), None)

    def _members(self, x: Elements, kind: int) -> Elements:
        out = np.empty(x.size)
        members(np.ascontiguousarray(x).ravel(), kind, self.seed, out)
        return out.reshape(x.shape)

    def requantize(
        self, acc: Elements, requant: g.Requant, kind: Kind = "sum", values: NDArray[np.bool_] | None = None
    ) -> Elements:
        result = self._requantized(acc, requant, _KINDS[kind])
        if values is not None and values.any():
            result = np.where(values, self._requantized(acc, requant, PLAIN), result)
        return result

    def _requantized(self, acc: Elements, requant: g.Requant, kind: int) -> Elements:
        channels = acc.shape[-1]
        fields = (requant.bias, requant.multiplier, requant.shift, requant.offset)
        prm = np.stack([np.broadcast_to(np.asarray(f, np.int64), channels) for f in fields])
        flat = np.ascontiguousarray(acc, np.float64).reshape(-1, channels)
        out = np.empty_like(flat)
        rounding = int(requant.rounding)
        requantize_elements(flat, kind, prm, rounding, requant.zero_point, requant.lo, requant.hi, self.seed, out)
        return out.reshape(acc.shape)

    def on_host(self, compute: Callable[..., Any], *inputs: Elements, why: str = "no form of the operator") -> Any:
        raise Unfollowed(f"the algebra has {why}")


def _reduced(values: Elements) -> Elements:
    found = np.array(values, np.float64)
    reduce_elements(found.reshape(-1))
    return found


def _products(patches: Elements, kernel: Elements) -> Elements:
    """``patches @ kernel`` over the field, not reduced; (N, K) and (K, M)."""
    total = np.zeros((patches.shape[0], kernel.shape[1]))
    for first in range(0, kernel.shape[0], SUM_TERMS):
        part = patches[:, first : first + SUM_TERMS] @ kernel[first : first + SUM_TERMS]
        if kernel.shape[0] > SUM_TERMS:
            reduce_elements(part.reshape(-1))
        total += part
    return total


def _times(weights: NDArray[np.float64], values: Elements) -> Elements:
    """The products of weights up to 2^24 and elements, (weights, values), reduced; ``values`` may have a row each."""
    high = np.floor(values / 65536.0)
    product = weights[:, None] * high
    reduce_elements(product.reshape(-1))
    product = product * 65536.0 + weights[:, None] * (values - high * 65536.0)
    reduce_elements(product.reshape(-1))
    return product
