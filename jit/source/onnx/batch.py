"""A model of a batch as the same model of one image, where no operator looks across the batch.

Every operator that reads what depends on the inputs must be known to treat the elements of the leading axis alike and
apart, and to give a result that has them on its leading axis again. Otherwise the model stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.jit.errors import Unsupported
from tilewright.jit.source.onnx.constants import stored
from tilewright.jit.source.onnx.prepared import tensor_types
from tilewright.jit.source.onnx.validate import input_shapes
from tilewright.jit.source.operators import onnx_row


def one_image(path: Any, model: Any) -> tuple[Any, int]:
    """(model of one image, size of the batch); the model itself and 1 where it is no batch, or does not come apart."""
    sizes = {shape[0] if len(shape) > 1 else 1 for shape in input_shapes(model).values()}
    if len(sizes) != 1 or sizes == {1}:
        return model, 1
    shapes = {name: shape for name, (_, shape) in tensor_types(path, model).items()}
    if not any(_sees_image(node, shapes) for node in model.graph.node):
        return model, 1
    (batch,) = sizes
    made = type(model)()
    made.CopyFrom(model)
    try:
        _Taken(made, batch, shapes).take()
    except Unsupported:
        return model, 1
    return made, batch


def _sees_image(node: Any, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether a node is on images, or of a kind that the accelerator has no form of for a tensor of several.

    Of transposed convolutions it has one for several signals, of three axes.
    """
    row = onnx_row(node.op_type)
    if row.by_image and row.layout == "image" and row.family != "transposed":
        return True
    several = row.is_function or row.family in ("concatenation", "transposed")
    several |= row.by_image and row.layout == "alike"
    return several and any(len(shapes.get(name, ())) > 3 for name in node.output)


@dataclass
class _Taken:
    """One image of a batch; ``batched`` are the tensors that hold one element for each."""

    model: Any
    batch: int
    shapes: dict[str, tuple[int, ...]]
    batched: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.constants = stored(self.model.graph)
        self.shapes |= {name: value.shape for name, value in self.constants.items()}

    def take(self) -> None:
        """Changes the model; raises Unsupported where that would change what it computes."""
        graph = self.model.graph
        self.batched |= {v.name for v in graph.input if v.name not in self.constants}
        for node in graph.node:
            if any(name in self.batched for name in node.input):
                self._node(node)
            elif any(a.HasField("g") or a.graphs for a in node.attribute):
                raise Unsupported(f"{node.op_type} with a graph of its own")
        for value in (*graph.input, *graph.output):
            if value.name in self.constants:
                continue
            if value.name not in self.batched:
                raise Unsupported(f"{value.name} has no batch")
            for leading in value.type.tensor_type.shape.dim[:1]:  # an output may come without a shape
                leading.dim_value = 1
        del graph.value_info[:]

    def _node(self, node: Any) -> None:
        row = onnx_row(node.op_type)
        if not row.batch or any(a.HasField("g") or a.graphs for a in node.attribute):
            raise Unsupported(f"{node.op_type} may look across the batch")
        # further results tell of the whole batch: places in it (MaxPool), its statistics (BatchNormalization)
        self.require(node.op_type == "Split" or not any(node.output[1:]))
        row.find(f"batch:{row.batch}")(self, node)
        for name in node.output:
            if name:
                if self.shapes[name][:1] != (self.batch,):
                    raise Unsupported(f"{name} of shape {self.shapes[name]}")
                self.batched.add(name)

    # -- what rules ask --------------------------------------------------------------------------------

    def require(self, condition: bool) -> None:
        if not condition:
            raise Unsupported("an operator that may look across the batch")

    def attribute(self, node: Any, name: str, default: Any = None) -> Any:
        from onnx import helper

        return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)

    def values(self, node: Any, name: str, position: int) -> list[int] | None:
        """Whole numbers that are an attribute or, from some opset on, a constant operand; None where left out."""
        given = self.attribute(node, name)
        if given is not None:
            return [int(v) for v in np.atleast_1d(given)]
        if position >= len(node.input) or not node.input[position]:
            return None
        self.require(node.input[position] in self.constants)
        return [int(v) for v in self.constants[node.input[position]].reshape(-1)]

    def away_from_batch(self, axes: Sequence[int], rank: int) -> None:
        self.require(all(axis % rank != 0 for axis in axes))

    def rank(self, name: str) -> int:
        return len(self.shapes[name])


# -- what the table of operators names -----------------------------------------------------------------


def first(own: _Taken, node: Any) -> None:
    """The other operands are constants that hold for every element."""
    own.require(node.input[0] in own.batched and not any(name in own.batched for name in node.input[1:]))


def joined(own: _Taken, node: Any) -> None:
    """Element by element, of several operands that broadcast."""
    rank, row = own.rank(node.output[0]), onnx_row(node.op_type)
    operands = [node.input[k] for k in row.activations] if "o" in row.operands else list(node.input)
    own.require({name for name in node.input if name in own.batched} <= set(operands))
    for name in operands:
        shape = own.shapes[name]
        if name in own.batched:
            own.require(len(shape) == rank)
        else:
            own.require(len(shape) < rank or shape[0] == 1)


def quantisation(own: _Taken, node: Any) -> None:
    """With scales that may be along an axis."""
    first(own, node)
    if max(own.constants[name].size for name in node.input[1:] if name in own.constants) > 1:
        own.away_from_batch([own.attribute(node, "axis", 1)], own.rank(node.output[0]))


def product(own: _Taken, node: Any) -> None:
    """Rows of the first operand with a constant matrix; a bias is added to every row."""
    first(own, node)
    row = onnx_row(node.op_type)
    own.require(not own.attribute(node, "transA", 0) and own.rank(node.input[0]) >= 2)
    own.require(own.rank(node.input[row.operands.index("w")]) == 2)
    bias = row.at("b")
    if bias is not None and len(node.input) > bias and node.input[bias]:
        shape = own.shapes[node.input[bias]]
        own.require(len(shape) < 2 or shape[0] == 1)


def concatenation(own: _Taken, node: Any) -> None:
    """Of all that it reads, each with a scale and a zero point behind it or not."""
    row = onnx_row(node.op_type)
    x = row.operands.index("x")
    own.away_from_batch([own.attribute(node, "axis")], own.rank(node.output[0]))
    own.require(all(name in own.batched for name in node.input[x :: len(row.operands) - x]))


def axis(own: _Taken, node: Any) -> None:
    """Along one axis, an attribute: softmax and the like."""
    first(own, node)
    along = own.attribute(node, "axis", onnx_row(node.op_type).axis)
    own.away_from_batch([along], own.rank(node.input[0]))


def axes(own: _Taken, node: Any) -> None:
    """Over axes that are listed: means, slices, squeezes of the input's axes."""
    first(own, node)
    axes = own.values(node, "axes", 3 if node.op_type == "Slice" else 1)
    own.require(axes is not None)
    rank = own.rank(node.output[0] if node.op_type == "Unsqueeze" else node.input[0])
    own.away_from_batch(axes or [], rank)


def reshape(own: _Taken, node: Any) -> None:
    """To a shape that starts with the batch."""
    first(own, node)
    shape = own.shapes[node.output[0]]
    name = f"{node.output[0]}@one"
    from onnx import numpy_helper

    own.model.graph.initializer.append(numpy_helper.from_array(np.array([1, *shape[1:]], np.int64), name))
    node.input[1] = name


def flatten(own: _Taken, node: Any) -> None:
    """To rows, one for each element."""
    own.require(own.attribute(node, "axis", 1) == 1)


def transpose(own: _Taken, node: Any) -> None:
    """With the other axes in another order."""
    own.require(next(iter(own.attribute(node, "perm", [1]))) == 0)


def pad(own: _Taken, node: Any) -> None:
    """With constants around it."""
    first(own, node)
    pads = own.values(node, "pads", 1) or [1]
    own.require(pads[0] == pads[len(pads) // 2] == 0 and len(node.input) < 4)


def resize(own: _Taken, node: Any) -> None:
    """With scales, that of the batch 1."""
    first(own, node)
    scales = own.constants.get(node.input[2]) if len(node.input) > 2 else None
    own.require(scales is not None and len(node.input) == 3 and scales.size > 0 and float(scales[0]) == 1.0)
    own.require(own.attribute(node, "axes") is None)


def tile(own: _Taken, node: Any) -> None:
    """With copies along the other axes."""
    first(own, node)
    own.require((own.values(node, "repeats", 1) or [0])[0] == 1)
