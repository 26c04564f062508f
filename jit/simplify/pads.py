"""Explicit pads that become the padding of what reads them.

Exporters that know no asymmetric or larger padding write a PAD before a convolution. As an operator of its own it
copies the whole tensor through ALU; a convolution's padding costs nothing, for a ring's padding columns are written
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.jit import graph as g
from tilewright.jit.ir.base import Padding


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
        assert isinstance(pad, g.Pad)
        padding = Padding(pad.inputs, pad.padding, pad.pad_value)
        readers = graph.consumers(op.output)
        taken = {reader.name: made for reader in readers if (made := reader.with_pad(padding)) is not None}
        if not readers or len(taken) < len(readers):
            continue
        for name in taken:
            absorbed.setdefault(name, []).extend([*absorbed.get(op.name, []), op.name])
        graph = replace(graph, ops=[taken.get(known.name, known) for known in graph.ops if known is not pad])
    left = {op.name for op in graph.ops}
    return graph, {name: pads for name, pads in absorbed.items() if name in left}
