"""BATCH_MATMUL, and FULLY_CONNECTED whose weights are an activation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.isa.functions import Rounding
from tilewright.jit.errors import Unsupported
from tilewright.jit.layers.builder import Weights
from tilewright.jit.layers.matmul import Side, matmul
from tilewright.jit.layers.weighted import dense
from tilewright.jit.source.matrices import beside_channels, heads_in_channels, side
from tilewright.jit.source.tflite.site import Site
from tilewright.jit.source.values import Rearranged, View


def batch_matmul(site: Site) -> str | Sequence[str | View | Rearranged]:
    """BATCH_MATMUL of two activations, either of which may be transposed, or of one and a constant matrix."""
    site.same_kind(0, 1)
    turned = bool(site.option("adjX")), bool(site.option("adjY"))
    if site.is_constant(1):
        return _constant(site, turned)
    if site.is_constant(0) or site.tensor(0).shape[:-2] != site.tensor(1).shape[:-2]:
        raise Unsupported(f"products of stacks of shapes {site.tensor(0).shape} and {site.tensor(1).shape}")
    a, b = _side(site, 0, turned[0]), _side(site, 1, not turned[1])
    merged = _merges(site)
    name = matmul(site, a, b, site.output(), merged=merged, float_product=True)
    if not merged:
        return name
    values, key = site.values, site.result.index
    return [values.arrangement(key, heads_in_channels(values, key, name), beside_channels(len(site.result.shape)))]


def product_of_rows(site: Site) -> str:
    """FULLY_CONNECTED without constants: the rows of both operands."""
    site.same_kind(0, 1)
    shape, weights = site.tensor(0).shape, site.tensor(1).shape
    if site.has(2) or site.option("weightsFormat") != 0 or len(weights) != 2 or shape[-1] != weights[1]:
        raise Unsupported(f"weights of shape {weights} that are no constants, on a tensor of shape {shape}")
    values, out = site.values, site.output(site.option("fusedActivationFunction"))
    tensor, positions = values.places(site.tensor(0).index)
    rows = positions.reshape(1, -1, shape[-1])
    a = Side(site.tensor(0).quantisation(), (tensor, rows), lambda: values.stack(site.tensor(0).index).name)
    return matmul(site, a, _side(site, 1, False), out, merged=False, rounding=Rounding.SINGLE)


def _constant(site: Site, turned: tuple[bool, bool]) -> str:
    """A fully connected layer on every pixel."""
    given, x = site.constant(1), site.pixels(0)
    if turned[0] or given.size != int(np.prod(given.shape[-2:])):
        raise Unsupported(f"a stack of {given.shape} constant matrices, or a transposed operand")
    numbers, moved = site.tensor(1).quantisation(), 128 if given.dtype == np.uint8 else 0
    matrix = given.reshape(given.shape[-2:]).astype(np.int16) - (numbers.zero_point + moved)
    weight = matrix if turned[1] else matrix.T
    weights = Weights(weight, np.full(len(weight), numbers.scale), np.zeros(len(weight), np.int64))
    return dense(site, x, weights, site.output(), rounding=Rounding.DOUBLE, float_product=True)


def _side(site: Site, position: int, turned: bool) -> Side:
    """An operand as matrices whose rows are multiplied; ``turned``: it has them as columns."""
    tensor = site.tensor(position)
    return side(site.values, tensor.index, tensor.quantisation(), turned=turned)


def _merges(site: Site) -> bool:
    """Whether all that read the result, an image, are transposes that bring its heads beside its channels."""
    rank = len(site.result.shape)
    swap = list(beside_channels(rank))
    readers = [op for op in site.file.operators if site.result.index in op.inputs]
    constants = {t.index: t.data for t in site.file.tensors if t.data is not None} | site.folded
    swaps = [
        op.kind == "TRANSPOSE" and op.inputs[1] in constants and constants[op.inputs[1]].reshape(-1).tolist() == swap
        for op in readers
    ]
    unread = site.result.index not in site.file.outputs
    image = site.values.specs[site.result.index].has_image()
    return rank > 2 and image and bool(swaps) and all(swaps) and unread
