"""QLinearSoftmax that ONNX Runtime takes over other axes once it has moved a Transpose past it.

Before opset 13 a softmax is over all axes from its own on, since then over its own alone. QLinearSoftmax says in an
attribute which it is; ONNX Runtime's kernel follows that, its optimiser of transposes the opset of the model. Where
the two are not of one kind, a moved Transpose leaves another softmax behind. Which it moves depends on the whole model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.jit.errors import ModelError
from tilewright.jit.source.onnx.prepared import optimised, positions

_SINGLE_AXIS = 13  #: first opset whose softmax is over one axis


def refuse_turned(path: Path, before: Any, given: Any) -> None:
    """Raises ModelError where ONNX Runtime's last optimisations of a model change what a softmax is over.

    ``before``: the model as it is ahead of them, ``given``: as ONNX Runtime gets it. Softmaxes that were moved give
    results of other names.
    """
    doubtful = [node for node in before.graph.node if _is_doubtful(node, _opset(before))]
    if not doubtful:
        return
    made = optimised(path, given, "all")
    kept = {node.output[0] for node in made.graph.node if node.op_type == "QLinearSoftmax"}
    for node in doubtful:
        if node.output[0] not in kept:
            raise ModelError(
                f"{path}: op{min(positions(node.name), default=0):03d} QLinearSoftmax and the model are of opsets "
                f"before and since {_SINGLE_AXIS}: ONNX Runtime moves a Transpose past it, and takes it over other "
                "axes; export it again with the softmax of the model's opset"
            )


def _opset(model: Any) -> int:
    return next((int(o.version) for o in model.opset_import if o.domain in ("", "ai.onnx")), _SINGLE_AXIS)


def _is_doubtful(node: Any, opset: int) -> bool:
    """Whether it is a softmax over one axis in a model of those over several, or the other way round."""
    own = [int(a.i) for a in node.attribute if a.name == "opset" and node.op_type == "QLinearSoftmax"]
    return any((version >= _SINGLE_AXIS) != (opset >= _SINGLE_AXIS) for version in own)
