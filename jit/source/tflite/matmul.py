"""BATCH_MATMUL, and FULLY_CONNECTED whose weights are an activation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.functions import Rounding
from tilewright.jit.errors import Unsupported
from tilewright.jit.frontend.builder import Quantisation
from tilewright.jit.frontend.layers.matmul import Side, matmul
from tilewright.jit.frontend.layers.weighted import dense
from tilewright.jit.source.tflite.site import Site
from tilewright.jit.source.values import FileTensor, Rearranged, Values, View


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
    name = matmul(site, a, b, site.output(), merged=merged)
    return [_split(site, name)] if merged else name


def product_of_rows(site: Site) -> str:
    """FULLY_CONNECTED without constants: the rows of both operands."""
    site.same_kind(0, 1)
    shape, weights = site.tensor(0).shape, site.tensor(1).shape
    if site.has(2) or site.option("weightsFormat") != 0 or len(weights) != 2 or shape[-1] != weights[1]:
        raise Unsupported(f"weights of shape {weights} that are no constants, on a tensor of shape {shape}")
    values, out = site.values, site.output(site.option("fusedActivationFunction"))
    tensor, positions = _places(values, site.tensor(0).index)
    rows = positions.reshape(1, -1, shape[-1])
    a = Side(site.tensor(0).quantisation(), (tensor, rows), lambda: values.chip(site.tensor(0).index).name)
    return matmul(site, a, _side(site, 1, False), out, merged=False, rounding=Rounding.SINGLE)


def _constant(site: Site, turned: tuple[bool, bool]) -> str:
    """A fully connected layer on every pixel."""
    given, x = site.constant(1), site.operand(0)
    if turned[0] or given.size != int(np.prod(given.shape[-2:])):
        raise Unsupported(f"a stack of {given.shape} constant matrices, or a transposed operand")
    numbers, moved = site.tensor(1).quantisation(), 128 if given.dtype == np.uint8 else 0
    matrix = given.reshape(given.shape[-2:]).astype(np.int16) - (numbers.zero_point + moved)
    weight = matrix if turned[1] else matrix.T
    scales, bias = np.full(len(weight), numbers.scale), np.zeros(len(weight), np.int64)
    return dense(site, x, weight, scales, bias, site.output(), rounding=Rounding.DOUBLE)


def _side(site: Site, position: int, turned: bool) -> Side:
    """An operand as matrices whose rows are multiplied; ``turned``: it has them as columns."""
    values, tensor = site.values, site.tensor(position)
    place, positions = _places(values, tensor.index)
    rank = positions.ndim
    if rank < 2 or rank > 4:
        raise Unsupported(f"a matrix of shape {tensor.shape}")
    axes = (*range(rank - 2), rank - 1, rank - 2)

    def made() -> str:
        own = (tensor.index, "transposed")
        if turned and own not in values.specs:
            shape = tuple(tensor.shape[axis] for axis in axes)
            values.specs[own] = FileTensor(f"{tensor.name}_transposed", shape, tensor.dtype, tensor.quantisation())
            values.rearranged[own] = Rearranged(tensor.index, np.zeros(0, np.int64), tensor.index, axes)
        return values.chip(own if turned else tensor.index).name

    matrices = positions.transpose(axes) if turned else positions
    return Side(tensor.quantisation(), (place, matrices.reshape(-1, *matrices.shape[-2:])), made)


def _places(values: Values, key: object) -> tuple[str, NDArray[np.int64]]:
    """A tensor of the accelerator, and where in it each element of ``key`` is, in the file's shape."""
    if key in values.rearranged and key not in values.chips:
        found = values.rearranged[key]
        tensor, positions = _places(values, found.source)
        return tensor, positions.reshape(-1)[found.positions]
    view = values.view(key)
    shape = values.builder.tensors[view.tensor].shape
    positions = np.arange(int(np.prod(shape))).reshape(shape).transpose(view.axes)
    return view.tensor, positions.reshape(values.specs[key].shape)


def _merges(site: Site) -> bool:
    """Whether all that read the result are transposes that bring its heads beside its channels."""
    rank = len(site.result.shape)
    swap = [*range(rank - 3), rank - 2, rank - 3, rank - 1]
    readers = [op for op in site.file.operators if site.result.index in op.inputs]
    constants = {t.index: t.data for t in site.file.tensors if t.data is not None} | site.folded
    swaps = [
        op.kind == "TRANSPOSE" and op.inputs[1] in constants and constants[op.inputs[1]].reshape(-1).tolist() == swap
        for op in readers
    ]
    unread = site.result.index not in site.file.outputs
    return rank > 2 and bool(swaps) and all(swaps) and unread


def _split(site: Site, tensor: str) -> Rearranged:
    """The result out of a ``tensor`` that has its heads in its channels."""
    values, result = site.values, site.result
    numbers: Quantisation = result.quantisation()
    *before, heads, pixels, channels = result.shape
    whole, split = (result.index, "merged"), (result.index, "split")
    shape = (*before, pixels, heads, channels)
    values.specs[whole] = FileTensor(f"{result.name}_merged", (1, 1, pixels, heads * channels), result.dtype, numbers)
    values.chips[whole] = tensor
    values.specs[split] = FileTensor(f"{result.name}_split", shape, result.dtype, numbers)
    positions = np.arange(int(np.prod(shape))).reshape(shape)
    values.rearranged[split] = Rearranged(whole, positions, whole)
    rank = len(shape)
    swap = (*range(rank - 3), rank - 2, rank - 3, rank - 1)
    return Rearranged(whole, positions.transpose(swap), split, swap)
