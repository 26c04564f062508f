"""Functions of single elements by what they give for each of the 256 values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.jit import graph as g
from tilewright.jit.numbers.scales import IDENTITY_SCALE, identity_requant
from tilewright.jit.reference import result_of

Table = NDArray[np.int8]  #: of a function, at the values of its argument modulo 256
VALUES: Table = np.arange(256).astype(np.uint8).view(np.int8)  #: the table of x itself


def is_function(graph: g.Graph, op: g.Requantize | g.Pairwise) -> bool:
    """Whether an operator of single elements is alike in all channels and places."""
    shapes = {graph.tensors[name].shape for name in (*op.inputs, op.output)}
    return len(shapes) == 1 and op.requant.uniform


def table_of(op: g.Requantize | g.Pairwise, inputs: list[Table]) -> Table:
    """The results of an operator that is alike in all channels, for these values of what it reads."""
    return result_of(replace(op, requant=op.requant.of(slice(0, 1))), *inputs)


def look_up(graph: g.Graph, op: g.Op, source: str, output: str, table: Table) -> g.Requantize:
    """An operator's place taken by a table of ``source``."""
    return g.Requantize(
        name=op.name, inputs=[source], output=output, source=op.source, covers=op.covers,
        scale=replace(IDENTITY_SCALE, table=table.tobytes()),
        requant=identity_requant(graph.tensors[output].shape[-1]),
    )  # fmt: skip
