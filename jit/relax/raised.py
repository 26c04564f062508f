"""A stretch of Relax as an ONNX model, which the compiler then reads like a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.jit.relax import compat
from tilewright.jit.relax.compat import Expr, Var
from tilewright.jit.relax.model import Model
from tilewright.jit.relax.operators import ROWS
from tilewright.jit.source.operators import relax_row

_OPSET, _IR = 20, 10


def biases(bound: Mapping[Var, Expr], users: Mapping[Var, int]) -> dict[Var, tuple[Var, Expr]]:
    """The sums of a product that nothing else reads and a constant per channel: what ONNX has as one operator."""
    model = Model(ROWS, bound)
    found: dict[Var, tuple[Var, Expr]] = {}
    for var, value in bound.items():
        if compat.op_name(value) != "relax.add":
            continue
        first, second = compat.arguments(value)
        for product, other in ((first, second), (second, first)):
            alone = users.get(product) == 1 and _is_bias(model, product, other)
            if alone and compat.shape(var) == compat.shape(product):
                found[var] = product, other
    return found


def _is_bias(model: Model, product: Var, other: Expr) -> bool:
    call: Expr = model.bound.get(product)
    name = compat.op_name(call)
    if not relax_row(name).is_weighted:
        return False
    constant, plain = model.quantised(other), model.plain(other)
    value = plain if constant is None else constant.values
    if value is None or (constant is not None and constant.reshaped((value.size,)) is None):
        return False
    rank = len(compat.shape(product))
    if name == "relax.matmul":
        x, weights = compat.arguments(call)
        known = model.quantised(weights) is not None
        if not known or len(compat.shape(x)) != 2:
            return False
        axis = rank - 1
    else:
        axis = str(call.attrs.data_layout).index("C")
    along = (1,) * (rank - value.ndim) + value.shape
    channels = compat.shape(product)[axis]
    return along == tuple(channels if a == axis else 1 for a in range(rank))


def raised(inputs: Sequence[Var], model: Model, outputs: Sequence[Var], members: Sequence[Var]) -> Any:
    """The model that takes ``inputs`` and gives ``outputs``, ``members`` written in order."""
    from onnx import helper

    model.names |= {var: f"input{n}" for n, var in enumerate(inputs)}
    absorbed = {product for product, _ in model.added.values()}
    for var in members:
        if var not in absorbed:
            model.write_once(var)
    results: list[str] = []
    taken = {model.names[var] for var in inputs}
    for var in outputs:
        name = model.name(var)
        if name in taken:  # the same tensor twice, or one that is given
            (name,) = model.node("Identity", [name], 1, {var}, {})
        taken.add(name)
        results.append(name)

    def typed(names: Sequence[str], variables: Sequence[Var]) -> list[Any]:
        return [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(compat.dtype(var))), compat.shape(var)
            )
            for name, var in zip(names, variables, strict=True)
        ]

    graph = helper.make_graph(
        model.nodes, "main", typed([model.names[var] for var in inputs], inputs), typed(results, outputs),
        initializer=model.initializers,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
