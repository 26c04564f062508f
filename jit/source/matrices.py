"""Tensors of a file as stacks of matrices: the last two axes are theirs, the third last counts the heads."""

from __future__ import annotations

from dataclasses import replace

from tilewright.jit.errors import Unsupported
from tilewright.jit.layers.builder import Quantisation
from tilewright.jit.layers.matmul import Side
from tilewright.jit.source.values import FileTensor, Values


def beside_channels(rank: int) -> tuple[int, ...]:
    """The order of axes that brings the heads beside the channels, and the one that brings them back."""
    return (*range(rank - 3), rank - 2, rank - 3, rank - 1)


def side(values: Values, key: object, numbers: Quantisation, *, turned: bool) -> Side:
    """A tensor with these numbers as an operand of a product; ``turned``: its columns are multiplied, not its rows."""
    spec, (tensor, positions) = values.specs[key], values.places(key)
    rank = positions.ndim
    if rank < 2:
        raise Unsupported(f"a matrix of shape {spec.shape}")
    axes = (*range(rank - 2), rank - 1, rank - 2)

    def made() -> str:
        own = (key, "transposed")
        if turned and own not in values.specs:
            shape = tuple(spec.shape[axis] for axis in axes)
            values.specs[own] = FileTensor(f"{spec.name}_transposed", shape, spec.dtype, numbers)
            values.rearrange(own, key, axes)
        return values.stack(own if turned else key).name

    rows = positions.transpose(axes) if turned else positions
    return Side(numbers, (tensor, rows.reshape(-1, *rows.shape[-2:])), made)


def heads_in_channels(values: Values, key: object, tensor: str) -> object:
    """The key of ``key`` with its heads beside its channels, which is what an NHWC ``tensor`` holds."""
    spec, own = values.specs[key], (key, "merged")
    shape = tuple(spec.shape[axis] for axis in beside_channels(len(spec.shape)))
    values.specs[own] = replace(spec, name=f"{spec.name}_heads", shape=shape, order=None)
    values.chips[own] = tensor
    return own
