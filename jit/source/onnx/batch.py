"""A model of a batch as the same model of one image, where no operator looks across the batch.

Every operator that reads what depends on the inputs must be known to treat the elements of the leading axis alike and
apart, and to give a result that has them on its leading axis again. Otherwise the model stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.jit.errors import Unsupported
from tilewright.jit.source.onnx import functions
from tilewright.jit.source.onnx.constants import stored
from tilewright.jit.source.onnx.prepared import tensor_types
from tilewright.jit.source.onnx.validate import input_shapes

#: operators on images, without which the accelerator has forms for a batch already: rows of matrices
_IMAGES = ("Conv", "QLinearConv", "ConvInteger", "MaxPool", "AveragePool", "GlobalAveragePool")


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
    """Whether a node is on images, or of a kind that the accelerator has no form of for a tensor of several."""
    if node.op_type in _IMAGES:
        return True
    return node.op_type in _POINTWISE and any(len(shapes.get(name, ())) > 3 for name in node.output)


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
        rule = _RULES.get(node.op_type)
        if rule is None or any(a.HasField("g") or a.graphs for a in node.attribute):
            raise Unsupported(f"{node.op_type} may look across the batch")
        # further results tell of the whole batch: places in it (MaxPool), its statistics (BatchNormalization)
        self.require(node.op_type == "Split" or not any(node.output[1:]))
        rule(self, node)
        for name in node.output:
            if name:
                if self.shapes[name][:1] != (self.batch,):
                    raise Unsupported(f"{name} of shape {self.shapes[name]}")
                self.batched.add(name)

    # -- what rules ask --------------------------------------------------------------------------------

    def require(self, condition: bool) -> None:
        if not condition:
            raise Unsupported("an operator that may look across the batch")

    def only_first(self, node: Any) -> None:
        """The other operands are constants that hold for every element."""
        self.require(node.input[0] in self.batched and not any(name in self.batched for name in node.input[1:]))

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


Rule = Callable[[_Taken, Any], None]


def _joined(*positions: int) -> Rule:
    """Element by element, of several operands that broadcast; all operands if no ``positions`` are given."""

    def rule(own: _Taken, node: Any) -> None:
        rank = own.rank(node.output[0])
        operands = [node.input[p] for p in positions] if positions else list(node.input)
        own.require({name for name in node.input if name in own.batched} <= set(operands))
        for name in operands:
            shape = own.shapes[name]
            if name in own.batched:
                own.require(len(shape) == rank)
            else:
                own.require(len(shape) < rank or shape[0] == 1)

    return rule


def _quantisation(own: _Taken, node: Any) -> None:
    own.only_first(node)
    if max(own.constants[name].size for name in node.input[1:] if name in own.constants) > 1:
        own.away_from_batch([own.attribute(node, "axis", 1)], own.rank(node.output[0]))


def _product(other: int, bias: int | None) -> Rule:
    """Rows of the first operand with a constant matrix; ``bias``: position of what is added to every row."""

    def rule(own: _Taken, node: Any) -> None:
        own.only_first(node)
        own.require(not own.attribute(node, "transA", 0) and own.rank(node.input[0]) >= 2)
        own.require(own.rank(node.input[other]) == 2)
        if bias is not None and len(node.input) > bias and node.input[bias]:
            shape = own.shapes[node.input[bias]]
            own.require(len(shape) < 2 or shape[0] == 1)

    return rule


def _concatenation(first: int, step: int) -> Rule:
    def rule(own: _Taken, node: Any) -> None:
        own.away_from_batch([own.attribute(node, "axis")], own.rank(node.output[0]))
        own.require(all(name in own.batched for name in node.input[first::step]))

    return rule


def _along(default: int) -> Rule:
    """Along one axis, an attribute: softmax and the like."""

    def rule(own: _Taken, node: Any) -> None:
        own.only_first(node)
        own.away_from_batch([own.attribute(node, "axis", default)], own.rank(node.input[0]))

    return rule


def _over(own: _Taken, node: Any) -> None:
    """Over axes that are listed: means, slices, squeezes of the input's axes."""
    own.only_first(node)
    axes = own.values(node, "axes", 3 if node.op_type == "Slice" else 1)
    own.require(axes is not None)
    rank = own.rank(node.output[0] if node.op_type == "Unsqueeze" else node.input[0])
    own.away_from_batch(axes or [], rank)


def _reshape(own: _Taken, node: Any) -> None:
    own.only_first(node)
    shape = own.shapes[node.output[0]]
    name = f"{node.output[0]}@one"
    from onnx import numpy_helper

    own.model.graph.initializer.append(numpy_helper.from_array(np.array([1, *shape[1:]], np.int64), name))
    node.input[1] = name


def _flatten(own: _Taken, node: Any) -> None:
    own.require(own.attribute(node, "axis", 1) == 1)


def _transpose(own: _Taken, node: Any) -> None:
    own.require(next(iter(own.attribute(node, "perm", [1]))) == 0)


def _pad(own: _Taken, node: Any) -> None:
    own.only_first(node)
    pads = own.values(node, "pads", 1) or [1]
    own.require(pads[0] == pads[len(pads) // 2] == 0 and len(node.input) < 4)


def _resize(own: _Taken, node: Any) -> None:
    own.only_first(node)
    scales = own.constants.get(node.input[2]) if len(node.input) > 2 else None
    own.require(scales is not None and len(node.input) == 3 and scales.size > 0 and float(scales[0]) == 1.0)
    own.require(own.attribute(node, "axes") is None)


def _tile(own: _Taken, node: Any) -> None:
    own.only_first(node)
    own.require((own.values(node, "repeats", 1) or [0])[0] == 1)


_ALONE = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "BatchNormalization", "Cast", "Ceil",
    "Celu", "Clip", "Conv", "ConvInteger", "ConvTranspose", "Cos", "Cosh", "DepthToSpace", "Elu", "Erf", "Exp", "Floor",
    "Gelu", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "MaxPool",
    "Mish", "Neg", "Not", "QLinearAveragePool", "QLinearConv", "QLinearGlobalAveragePool", "QLinearLeakyRelu",
    "QLinearSigmoid", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus",
    "Softsign", "SpaceToDepth", "Sqrt", "Tan", "Tanh", "ThresholdedRelu",
)  # fmt: skip
_TOGETHER = (
    "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod",
    "Mul", "Or", "Pow", "PRelu", "Sub", "Sum", "Where", "Xor",
)  # fmt: skip
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_ALONE, _Taken.only_first),
    **dict.fromkeys(_TOGETHER, _joined()),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _joined(0, 3)),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantisation),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "Squeeze", "Unsqueeze", "Slice"), _over),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _along(1)),
    "Concat": _concatenation(0, 1),
    "Flatten": _flatten,
    "Gather": _along(0),
    "Gemm": _product(1, 2),
    "MatMul": _product(1, None),
    "MatMulInteger": _product(1, None),
    "Pad": _pad,
    "QGemm": _product(3, 6),
    "QLinearConcat": _concatenation(2, 3),
    "QLinearMatMul": _product(3, None),
    "Reshape": _reshape,
    "Resize": _resize,
    "Split": _along(0),
    "Tile": _tile,
    "Transpose": _transpose,
}
_POINTWISE = {
    kind for kind in _RULES
    if kind in functions.KINDS or kind.startswith("Reduce") or kind in ("GlobalMaxPool", "Resize", "Concat")
}  # fmt: skip
