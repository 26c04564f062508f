"""The first convolution on few channels: the host packs its patches, so that it is a 1x1 convolution on many."""

from __future__ import annotations

from tilewright.jit import graph as g
from tilewright.jit.graph import TensorSpec
from tilewright.jit.layout import units_for
from tilewright.jit.lowering import Lowering, image_shape
from tilewright.runtime.steps import PackStep


def packs_patches(at: Lowering, op: g.Conv2D, kh: int, kw: int, ic: int) -> bool:
    """Whether a convolution's input is packed as patches: a network input of few channels."""
    if op.inputs[0] not in at.graph.inputs or kh * kw == 1:
        return False
    packed = -(-kh * kw * ic // at.config.block_in)
    return packed < kh * kw * -(-ic // at.config.block_in)


def lower_patches(at: Lowering, op: g.Conv2D, kh: int, kw: int, ic: int) -> tuple[str, int]:
    """Declares the packed input: its name, and the units of one of its pixels."""
    shape, out = image_shape(at.spec(op.inputs[0]).shape), image_shape(at.graph.tensors[op.output].shape)
    units = units_for(kh * kw * ic, at.config)
    name = f"{op.inputs[0]}.patches{at.layer}"
    at.specs[name] = TensorSpec(name, (1, out[1], out[2], kh * kw * ic), "int8")
    at.packs[name] = PackStep(
        tensor=op.inputs[0], segment=1, shape=shape, lanes=at.config.lanes, units=units, layout="patches",
        batch=at.config.batch, padding=_cover(op, shape, out), pad_value=op.pad_value,
        kernel=(kh, kw), strides=op.strides, dilation=op.dilation,
    )  # fmt: skip
    return name, units


def _cover(
    op: g.Conv2D, source: tuple[int, int, int, int], out: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    """Padding that gives exactly the output's positions: bottom and right may be less than the operator's."""
    top, left, _, _ = op.padding
    need = [
        (o - 1) * s + (k - 1) * d + 1 - size - before
        for o, s, k, d, size, before in zip(
            out[1:3], op.strides, op.weight.shape[1:3], op.dilation, source[1:3], (top, left), strict=True
        )
    ]
    return top, left, max(0, need[0]), max(0, need[1])
