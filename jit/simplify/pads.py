"""Explicit pads that become the padding of what reads them.

Exporters that know no asymmetric or larger padding write a PAD before a convolution. As an operator of its own it
copies the whole tensor through ALU; a convolution's padding costs nothing, for a ring's padding columns are written
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.jit import graph as g

_LOWEST = -128  #: what a max pool's padding is, which never wins


def without_pads(graph: g.Graph) -> tuple[g.Graph, Mapping[str, list[str]]]:
    """The graph without the pads that all their readers can do themselves, and the names of those by reader.

    A reader can if its own padding, if any, has the same value, and every window still reaches an element.
    """
    absorbed: dict[str, list[str]] = {}
    for op in graph.ops:
        if not isinstance(op, g.Pad) or op.output in graph.outputs:
            continue
        # as they are now: they may have taken an earlier pad's part already
        pad = next(known for known in graph.ops if known.name == op.name)
        readers = graph.consumers(op.output)
        taken = {reader.name: made for reader in readers if (made := _padded(reader, pad)) is not None}
        if not readers or len(taken) < len(readers):
            continue
        for name in taken:
            absorbed.setdefault(name, []).extend([*absorbed.get(op.name, []), op.name])
        graph = replace(graph, ops=[taken.get(known.name, known) for known in graph.ops if known is not pad])
    left = {op.name for op in graph.ops}
    return graph, {name: pads for name, pads in absorbed.items() if name in left}


def _padded(reader: g.Op, pad: g.Op) -> g.Op | None:
    """The reader of a pad, reading what that reads; None if it cannot."""
    assert isinstance(pad, g.Pad)
    if not isinstance(reader, (g.Conv2D, g.PartialSums, g.DepthwiseConv2D, g.MaxPool2D, g.Pad)):
        return None
    if isinstance(reader, g.Conv2D) and reader.transposed:
        return None
    value = _LOWEST if isinstance(reader, g.MaxPool2D) else reader.pad_value
    top, left, bottom, right = (own + more for own, more in zip(reader.padding, pad.padding, strict=True))
    padding = (top, left, bottom, right)
    if pad.pad_value != value and (any(reader.padding) or isinstance(reader, g.MaxPool2D)):
        return None
    if isinstance(reader, g.Pad):
        return replace(reader, inputs=pad.inputs, padding=padding, pad_value=pad.pad_value)
    rows, columns = _reach(reader)
    if max(top, bottom) >= rows or max(left, right) >= columns:
        return None
    if isinstance(reader, g.MaxPool2D):
        return replace(reader, inputs=pad.inputs, padding=padding)
    return replace(reader, inputs=pad.inputs, padding=padding, pad_value=pad.pad_value)


def _reach(op: g.Conv2D | g.PartialSums | g.DepthwiseConv2D | g.MaxPool2D) -> tuple[int, int]:
    """Rows and columns that a window spans."""
    if isinstance(op, g.MaxPool2D):
        return op.kernel
    height, width = op.weight.shape[1:3] if isinstance(op, (g.Conv2D, g.PartialSums)) else op.weight.shape[:2]
    return (height - 1) * op.dilation[0] + 1, (width - 1) * op.dilation[1] + 1
