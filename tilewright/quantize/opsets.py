"""Float ONNX models of an opset before that of weights with scales per channel, converted by the onnx package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.jit.source.onnx.constants import stored
from tilewright.quantize.base import QuantizeError
from tilewright.runtime import interpreters

#: bits of a weight -> the first opset that has them by channel, and the one that files of an earlier are converted to
OPSETS = {8: (13, 17), 4: (21, 21)}
_COORDINATES = 11  #: the opset since which Resize says where between the pixels it reads
_ROWS = 13  #: the opset since which Hardmax is over one axis; before, over all from its axis on


def with_channel_scales(path: Path, model: Any, bits: int) -> Any:
    """A float model of fixed shapes, of an opset that has weights of ``bits`` by channel. Raises QuantizeError."""
    from onnx import version_converter

    least, target = OPSETS[bits]
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), target)
    if opset >= least:
        return model
    if opset < _ROWS:
        _hardmax_of_rows(model)
    try:
        converted = version_converter.convert_version(model, target)
    except Exception as error:  # the converter raises kinds of its own
        raise QuantizeError(
            f"{path}: of opset {opset}, which has no weights of {bits} bits with scales per channel, and does not "
            f"convert to {target} ({interpreters.first_line(error)}); export it again with opset {least} or newer"
        ) from error
    if opset < _COORDINATES:
        _resize_as_before(converted)
    return converted


def _resize_as_before(model: Any) -> None:
    """Resize and Upsample had no choice of coordinates, and the converter leaves the choice at what is usual now."""
    from onnx import helper

    constants = stored(model.graph)
    for node in model.graph.node:
        if node.op_type != "Resize":
            continue
        scales = constants.get(node.input[2])
        smaller = scales is not None and bool((scales < 1).any())
        node.attribute.append(helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
        node.attribute.append(helper.make_attribute("nearest_mode", "ceil" if smaller else "floor"))


def _hardmax_of_rows(model: Any) -> None:
    """Hardmax over several axes, which the converter does not know, becomes one over the rows of a matrix, which all
    opsets have alike."""
    from onnx import helper

    nodes: list[Any] = []
    for node in model.graph.node:
        nodes.append(node)
        if node.op_type != "Hardmax":
            continue
        nodes.pop()
        x, y = node.input[0], node.output[0]
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        nodes += [
            helper.make_node("Shape", [x], [f"{y}@shape"]),
            helper.make_node("Flatten", [x], [f"{y}@rows"], axis=axis),
            helper.make_node("Hardmax", [f"{y}@rows"], [f"{y}@chosen"], node.name, axis=1),
            helper.make_node("Reshape", [f"{y}@chosen", f"{y}@shape"], [y]),
        ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
