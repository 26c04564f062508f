"""Whether ONNX Runtime adds float32 numbers in a part of a model in the order in which it adds them in the whole.

Its last optimisations choose layouts by what stands around an operator: a mean over the rows and columns of NCHW
becomes one of NHWC where a convolution in front of it does. Another order gives another last bit, so the calls of both
are compared.
"""

from __future__ import annotations

from typing import Any

from tilewright.jit.source.onnx.prepared import Prepared, optimised, positions
from tilewright.jit.source.operators import ONNX

#: operators that add in float32; ONNX Runtime puts Fused, Nhwc or Skip in front of some
_SUMS = tuple(name for name, row in ONNX.items() if row.float_sum)
_SHORT = 64  #: elements of a constant that may say what an operator does (axes, scales)


class Sums:
    """What ONNX Runtime calls for the sums of a model; :meth:`moved` says of a part which it calls otherwise there."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._whole: dict[frozenset[int], Any] | None = None

    def moved(self, part: bytes) -> set[int]:
        """Positions in the file of the sums in a part (of :func:`~tilewright.jit.source.onnx.cut.cut`) that are not
        those of the whole. Raises ModelError."""
        import onnx

        model = onnx.load_from_string(part)
        if not any(_adds(node) for node in model.graph.node):
            return set()
        if self._whole is None:
            self._whole = _calls(optimised(self._prepared.path, self._prepared.file, "all"))
        calls = _calls(optimised(self._prepared.path, model, "all"))
        return {at for where, call in calls.items() if self._whole.get(where) != call for at in where}


def _adds(node: Any) -> bool:
    return str(node.op_type).endswith(_SUMS) and not str(node.op_type).startswith("QLinear")


def _calls(model: Any) -> dict[frozenset[int], Any]:
    """Kind, attributes, short constants and which inputs there are, of each node that adds, by place in the file."""
    from onnx import numpy_helper

    constants = {tensor.name: tensor for tensor in model.graph.initializer}

    def operand(name: str) -> Any:
        tensor = constants.get(name)
        if tensor is None or len(tensor.dims) > 1 or sum(tensor.dims) > _SHORT:
            return bool(name)
        return numpy_helper.to_array(tensor).tolist()

    return {
        frozenset(positions(node.name)): (
            node.op_type, node.domain, sorted(a.SerializeToString() for a in node.attribute),
            [operand(name) for name in node.input],
        )
        for node in model.graph.node if _adds(node)
    }  # fmt: skip
