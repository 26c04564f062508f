"""Gemm as ONNX Runtime quantises it: a product, and at most a constant of one axis added to it.

Its quantised Gemm adds an int32 bias, one number to a column, as it is: a ``beta`` is lost on the way, so that the
network computes something else, constants of other shapes make the quantiser fail, and what adds another tensor (as
ONNX Runtime's preparation makes of ``x W + y`` in cells of recurrent layers) stays in float32 between Q/DQ pairs. So
factors go into constants where there are any, and what is no such bias becomes an operator of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.source.onnx.constants import stored

_MASK = 1e3  #: the least number that hides what it is added to
_LEFT, _RIGHT, _ADDEND = range(3)  #: inputs of a Gemm


def plain_gemms(model: Any) -> bool:
    """Rewrites the Gemms of a float model to be such products and sums; whether any was not. Computes the same."""
    rewriter = _Rewriter(model.graph)
    nodes = [new for node in model.graph.node for new in rewriter.rewritten(node)]
    if rewriter.changed:
        del model.graph.node[:]
        model.graph.node.extend(nodes)
    return rewriter.changed


class _Rewriter:
    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._values = stored(graph)
        self._names = {name for node in graph.node for name in (*node.input, *node.output)} | set(self._values)
        self.changed = False

    def rewritten(self, node: Any) -> Iterator[Any]:
        """The operators that stand for ``node``, which is changed."""
        if node.op_type != "Gemm":
            yield node
            return
        alpha, beta = (next((a.f for a in node.attribute if a.name == name), 1.0) for name in ("alpha", "beta"))
        addend = node.input[_ADDEND] if len(node.input) > _ADDEND else ""
        columns = self._columns(node) if node.input[_RIGHT] in self._values else None
        if alpha == beta == 1 and (not addend or self._is_bias(addend, columns)):
            yield node
            return
        self.changed = True
        result, base = node.output[0], node.name or node.output[0]
        kept = [a for a in node.attribute if a.name not in ("alpha", "beta")]
        del node.input[_ADDEND:], node.attribute[:]
        node.attribute.extend(kept)
        after = []  # (kind, operand): what is done with the product
        if alpha != 1 and not self._scale(node, alpha):
            after.append(("Mul", self._constant(np.array(alpha, np.float32), base)))
        value = self._values.get(addend)
        if addend and beta != 0 and value is None:  # with a beta of 0, ONNX Runtime does not read it
            if beta != 1:
                read, addend = addend, self._new(f"{base}@addend")
                yield _node("Mul", [read, self._constant(np.array(beta, np.float32), base)], addend)
            after.append(("Add", addend))
        elif value is not None and beta != 0:
            scaled = value * value.dtype.type(beta)
            row = columns is not None and (value.size == 1 or value.size == columns == value.shape[-1])
            if columns is not None and row and _is_small(scaled):
                node.input.append(self._constant(np.broadcast_to(scaled.reshape(-1), (columns,)), base))
            else:
                after.append(("Add", self._constant(scaled, base)))
        outputs = [*(self._new(f"{base}@product") for _ in after), result]
        node.output[0] = outputs[0]
        yield node
        for (kind, operand), read, made in zip(after, outputs, outputs[1:], strict=False):
            yield _node(kind, [read, operand], made)

    def _scale(self, node: Any, alpha: float) -> bool:
        """Multiply a constant operand with a factor, the right one if there is a choice; False where there is none."""
        for position in (_RIGHT, _LEFT):
            value = self._values.get(node.input[position])
            if value is not None:
                node.input[position] = self._constant(value * value.dtype.type(alpha), node.name or node.output[0])
                return True
        return False

    def _columns(self, node: Any) -> int:
        value = self._values[node.input[_RIGHT]]
        turned = any(a.name == "transB" and a.i for a in node.attribute)
        return int(value.shape[0 if turned else 1])

    def _is_bias(self, name: str, columns: int | None) -> bool:
        """Whether it is a constant with one number for each column, in one row."""
        value = self._values.get(name)
        return (
            value is not None and columns is not None and value.shape in ((columns,), (1, columns)) and _is_small(value)
        )

    def _constant(self, value: NDArray[Any], base: str) -> str:
        from onnx import numpy_helper

        name = self._new(f"{base}@constant")
        self._graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def _new(self, name: str) -> str:
        """A name that nothing has: this one, or with a number behind."""
        free = next(n for k in itertools.count() if (n := f"{name}{k or ''}") not in self._names)
        self._names.add(free)
        return free


def _is_small(value: NDArray[Any]) -> bool:
    """Whether none of it is a mask's, beside which a product is nothing."""
    return bool((np.abs(value) < _MASK).all())


def _node(kind: str, inputs: list[str], result: str) -> Any:
    from onnx import helper

    return helper.make_node(kind, inputs, [result], result)
