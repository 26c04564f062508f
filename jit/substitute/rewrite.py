"""What rewritings of a graph have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tilewright.jit.graph import Graph, Op
from tilewright.runtime.steps import TensorSpec

#: the graph with one operator computed in another way, which gives the same integers; None where a rule says nothing
Rule = Callable[[Graph, Op], Graph | None]


def sole_reader(graph: Graph, tensor: str) -> Op | None:
    """The one operator that reads a tensor; None if there are others, or the tensor is an output."""
    readers = graph.consumers(tensor)
    return readers[0] if len(readers) == 1 and tensor not in graph.outputs else None


def rewritten(graph: Graph, instead: Mapping[str, Sequence[Op]], *tensors: TensorSpec) -> Graph:
    """The graph with other operators in place of some, by name, and with further tensors."""
    ops = [new for old in graph.ops for new in instead.get(old.name, (old,))]
    return replace(graph, ops=ops, tensors=graph.tensors | {tensor.name: tensor for tensor in tensors})
