"""Validation of ``.onnx`` files ahead of every reader that trusts its input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilewright.jit.errors import ModelError

FLOAT_HINT = (
    "quantise it with `tilewright quantize`, or with onnxruntime.quantization.quantize_static(..., "
    "quant_format=QuantFormat.QDQ, weight_type=QuantType.QInt8, per_channel=True)"
)
_QUANTISED = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QGemm")


def read(path: Path, content: bytes | None = None) -> Any:
    """The protobuf of an ``.onnx`` file, or of ``content``, checked by onnx; raises ModelError."""
    import onnx

    try:
        model = onnx.load(str(path)) if content is None else onnx.load_from_string(content)
        onnx.checker.check_model(model)
        if not all(isinstance(name, str) for name in _names(model.graph)):
            raise ValueError("a name that is no text")
    except Exception as error:  # protobuf and the checker each raise kinds of their own
        raise corrupt(path, error) from error
    return model


def _names(graph: Any) -> Iterator[object]:
    """Every name of the main graph; protobuf gives those that are no text as bytes."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    yield from (value.name for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer))


def corrupt(path: Path, error: Exception) -> ModelError:
    """What is said of a file that its own format's reader refuses."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return ModelError(f"{path}: corrupt or truncated .onnx file: {first}; download or export it again")


def operator_form(model: Any) -> list[str]:
    """Operators of the file that compute on integers by themselves, rather than between Q and DQ nodes."""
    kinds = {node.op_type for node in model.graph.node}
    return sorted(k for k in kinds if k.startswith("QLinear") or k.endswith("Integer") or k == "QGemm")


def is_quantised(model: Any) -> bool:
    """Whether anything of the main graph is."""
    kinds = {node.op_type for node in model.graph.node}
    return bool(kinds.intersection(_QUANTISED) or operator_form(model))


def refuse_float(path: Path, model: Any) -> None:
    """Raises ModelError for a model without anything quantised."""
    if not is_quantised(model):
        raise ModelError(f"{path}: not quantised: no QuantizeLinear or DequantizeLinear in it; {FLOAT_HINT}")


def input_shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Of the inputs that the user gives; dimensions that are left open are 0."""
    constants = {init.name for init in model.graph.initializer}
    given = [value for value in model.graph.input if value.name not in constants]
    return {value.name: tuple(int(d.dim_value) for d in value.type.tensor_type.shape.dim) for value in given}


def fix_batch(model: Any) -> None:
    """A leading dimension of the inputs that is left open becomes 1, wherever else its name stands too."""
    names = set()
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if dims and not dims[0].HasField("dim_value") and all(d.HasField("dim_value") for d in dims[1:]):
            names.add(dims[0].dim_param)
            dims[0].dim_value = 1
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_param") and dim.dim_param in names:
                dim.dim_value = 1


def refuse_shapes(path: Path, model: Any) -> None:
    """Raises ModelError for inputs whose shape is not fixed."""
    constants = {init.name for init in model.graph.initializer}
    for value in model.graph.input:
        if value.name in constants:
            continue
        dims = value.type.tensor_type.shape.dim
        shape = tuple(d.dim_value if d.HasField("dim_value") else (d.dim_param or "?") for d in dims)
        if any(not isinstance(d, int) or d <= 0 for d in shape):
            raise ModelError(
                f"{path}: input {value.name!r} has the dynamic shape {shape}; fix it, for instance with "
                f"onnxruntime.tools.make_dynamic_shape_fixed --input_name {value.name} --input_shape "
                + ",".join(str(d) for d in shape)
            )


def unshare_zero_points(model: Any) -> None:
    """Gives every DequantizeLinear of a constant a zero point of its own, which changes nothing that it computes.

    Without saturating products ONNX Runtime turns int8 weights into uint8 ones and their zero points with them; of a
    zero point that several weights share (as PyTorch's exporter writes it) it makes the new one twice, and fails.
    """
    initial = {tensor.name: tensor for tensor in model.graph.initializer}
    widened = {node.output[0] for node in model.graph.node if node.op_type == "Cast" and node.input[0] in initial}
    used: set[str] = set()
    for number, node in enumerate(model.graph.node):
        constant = node.op_type == "DequantizeLinear" and (node.input[0] in initial or node.input[0] in widened)
        if not constant or len(node.input) < 3:
            continue
        name = node.input[2]
        if name in used and name in initial:
            own = model.graph.initializer.add()
            own.CopyFrom(initial[name])
            own.name = node.input[2] = f"{name}@{number}"
        used.add(name)
