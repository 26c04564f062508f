"""QDQ ``.onnx`` files: validation ahead of TVM's importer, and operator names kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.jit.compat import label_main
from tilewright.jit.compat_importers import Refused, first_line, import_onnx
from tilewright.jit.errors import ModelError
from tilewright.jit.frontend.site import ONNX_RUNTIME, SEMANTICS_ATTRIBUTE

_FLOAT_HINT = (
    "quantise it with onnxruntime.quantization.quantize_static(..., quant_format=QuantFormat.QDQ, "
    "activation_type=QuantType.QInt8, weight_type=QuantType.QInt8, per_channel=True)"
)


def read(path: Path) -> Any:
    """The protobuf of an ``.onnx`` file, checked, with shapes inferred."""
    import onnx

    try:
        model = onnx.load(str(path))
        onnx.checker.check_model(model)
        return onnx.shape_inference.infer_shapes(model)
    except Exception as error:  # protobuf, the checker and shape inference each raise kinds of their own
        raise ModelError(
            f"{path}: corrupt or truncated .onnx file: {first_line(error)}; download or export it again"
        ) from error


def _refuse_unusable(path: Path, model: Any) -> None:
    kinds = {node.op_type for node in model.graph.node}
    operators = sorted(k for k in kinds if k.startswith("QLinear") or k.endswith("Integer"))
    if operators:
        hint = _FLOAT_HINT.replace("quantise it", "quantise the float model")
        raise ModelError(f"{path}: quantised in operator format ({operators[0]}), not QDQ; {hint}")
    if "QuantizeLinear" not in kinds and "DequantizeLinear" not in kinds:
        raise ModelError(f"{path}: not quantised: no QuantizeLinear or DequantizeLinear in it; {_FLOAT_HINT}")
    constants = {init.name for init in model.graph.initializer}
    for value in model.graph.input:
        if value.name in constants:
            continue
        dims = value.type.tensor_type.shape.dim
        shape = tuple(d.dim_value if d.HasField("dim_value") else (d.dim_param or "?") for d in dims)
        first_dynamic = len(shape) > 1 and not isinstance(shape[0], int) and all(isinstance(d, int) for d in shape[1:])
        if any(not isinstance(d, int) or d <= 0 for d in shape):
            what = "batch" if first_dynamic else "shape"
            fixed = tuple(1 if i == 0 else d for i, d in enumerate(shape)) if first_dynamic else shape
            raise ModelError(
                f"{path}: input {value.name!r} has the dynamic {what} {shape}; fix it, for instance with "
                f"onnxruntime.tools.make_dynamic_shape_fixed --input_name {value.name} --input_shape "
                + ",".join(str(d) for d in fixed)
            )
        if len(shape) > 1 and shape[0] != 1:
            raise ModelError(
                f"{path}: input {value.name!r} has batch {shape[0]} (shape {shape}); export the model with batch 1, "
                "several inputs are launched together at run time"
            )


def load(path: Path) -> Any:
    """The Relax module of a QDQ ``.onnx`` file; raises ModelError for any that cannot be imported."""
    model = read(path)
    _refuse_unusable(path, model)
    try:
        mod = import_onnx(model)
    except Refused as error:
        raise ModelError(f"{path}: {error}") from error
    except Exception as error:  # anything the importer trips over is the file's fault to the user
        raise ModelError(f"{path}: TVM cannot import it: {first_line(error)}; check it with onnxruntime") from error
    return label_main(mod, {SEMANTICS_ATTRIBUTE: ONNX_RUNTIME}, [value.name for value in model.graph.output])
