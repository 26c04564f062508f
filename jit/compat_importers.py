"""TVM's importers for ``.tflite`` and ``.onnx``, with what they lack: the second half of :mod:`tilewright.jit.compat`.

Both bind each operator's result to a variable ``opNNN_NAME``, so that everything after can name its source, and turn
their failures into :class:`Refused`, which says where.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from tvm import relax
from tvm.error import OpNotImplemented
from tvm.ir import GenericConst, IRModule
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter, get_constant
from tvm.relax.frontend.tflite import from_tflite
from tvm.relax.frontend.tflite.tflite_frontend import OperatorConverter, get_tensor_name


class Refused(Exception):
    """An operator the importer cannot take, named."""


def first_line(error: Exception) -> str:
    """What an error says, shortened to one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__


class TfliteConverter(OperatorConverter):
    """TVM's converter, with each operator's result bound to a variable ``opNNN_NAME`` and errors that say where."""

    def check_unsupported_ops(self) -> None:
        missing = []
        for index in range(self.subgraph.OperatorsLength()):
            code = self.get_op_code_str(self.subgraph.Operators(index))
            if code not in self.convert_map:
                missing.append(f"{code} (operator {index})")
        if missing:
            raise Refused(
                f"unsupported operator{'s' if len(missing) > 1 else ''} {', '.join(missing)}: TVM's importer has no "
                "conversion; replace or remove it in the source model"
            )

    def convert_op_to_relax(self) -> None:
        for index in range(self.subgraph.OperatorsLength()):
            op = self.subgraph.Operators(index)
            code = self.get_op_code_str(op)
            outputs = self.get_output_tensors(op)
            try:
                value = self.convert_map[code](op=op)
            except Exception as error:
                shape = [int(d) for d in outputs[0].tensor.ShapeAsNumpy()] if outputs else []
                raise Refused(
                    f"unsupported operator {code} (operator {index}, result shape {shape}): "
                    f"{first_line(error)}; replace it in the source model"
                ) from error
            if value is None:  # folded into its consumers
                continue
            names = [get_tensor_name(self.subgraph, out.tensor_idx) for out in outputs]
            if len(names) == 1:
                self.exp_tab.set_expr(names[0], self.bb.emit(value, name_hint=f"op{index:03d}_{code}"))
            else:
                value = self.bb.normalize(value)
                for position, name in enumerate(names):
                    self.exp_tab.set_expr(name, value[position])


def import_tflite(model: Any) -> IRModule:
    """Relax module of a validated TFLite flatbuffer."""
    converters = []

    def converter(*arguments: Any) -> TfliteConverter:
        converters.append(TfliteConverter(*arguments))
        return converters[-1]

    try:
        return from_tflite(model, op_converter=converter)
    except Exception:
        for made in converters:
            _abandon(made.bb)
        raise


def _abandon(builder: Any) -> None:
    """Closes the block that a failed import leaves open, about which TVM would complain on standard error."""
    builder._end_block()


class OnnxImporter(ONNXGraphImporter):
    """TVM's importer, with named results, and Clip, Pad and ``auto_pad`` kept as Relax operators."""

    def __init__(self) -> None:
        super().__init__(None, "float32", sanitize=True)
        self.position = 0

    def _convert_operator(self, op_name: str, inputs: Any, attrs: dict[str, Any], opset: int) -> Any:
        index, self.position = self.position, self.position + 1
        if op_name == "Conv":
            self._explicit_padding(inputs, attrs)
        try:
            value = self._kept(op_name, inputs, attrs)
            if value is None:
                value = super()._convert_operator(op_name, inputs, attrs, opset)
        except Exception as error:
            label = attrs.get("tvm_custom", {}).get("name") or f"node {index}"
            raise Refused(
                f"unsupported operator {op_name} ({label}): {first_line(error)}; replace it in the source model"
            ) from error
        if isinstance(value, relax.Call):
            value = self.bb.emit(value, name_hint=f"op{index:03d}_{op_name}")
        return value

    def _kept(self, op_name: str, inputs: Any, attrs: dict[str, Any]) -> Any:
        """Operators that TVM would lower to loops at import, as Relax operators; None for all others."""
        if op_name == "Clip":
            bounds = [attrs.get("min"), attrs.get("max")]
            for i in (1, 2):
                if len(inputs) > i and inputs[i] is not None:
                    bounds[i - 1] = self._scalar(inputs[i])
                    if bounds[i - 1] is None:
                        return None
            low = -np.inf if bounds[0] is None else float(bounds[0])
            high = np.inf if bounds[1] is None else float(bounds[1])
            return self.bb.normalize(relax.op.clip(inputs[0], low, high))
        mode = attrs.get("mode", b"constant")
        if op_name == "Pad" and mode in (b"constant", "constant") and (len(inputs) < 4 or inputs[3] is None):
            if "pads" in attrs:
                pads, value = list(attrs["pads"]), float(attrs.get("value", 0.0))
            else:
                constant = get_constant(inputs[1], [self._nodes, self._params])
                given = len(inputs) > 2 and inputs[2] is not None
                scalar = self._scalar(inputs[2]) if given else 0.0
                if not isinstance(constant, GenericConst) or scalar is None:
                    return None
                pads, value = constant.value.numpy().tolist(), scalar
            rank = len(pads) // 2
            width = [int(pads[i + side * rank]) for i in range(rank) for side in (0, 1)]
            return self.bb.normalize(relax.op.nn.pad(inputs[0], width, pad_value=value))
        return None

    def _scalar(self, expr: Any) -> float | None:
        constant = get_constant(expr, [self._nodes, self._params])
        return float(constant.value.numpy().reshape(())) if isinstance(constant, GenericConst) else None

    @staticmethod
    def _explicit_padding(inputs: Any, attrs: dict[str, Any]) -> None:
        """Replaces a Conv's ``auto_pad`` by the pads it stands for."""
        auto = attrs.get("auto_pad", b"NOTSET")
        if auto not in (b"SAME_UPPER", b"SAME_LOWER") or len(inputs[0].ty.shape) != 4:
            return
        size = [int(d) for d in inputs[0].ty.shape][2:]
        kernel = [int(d) for d in inputs[1].ty.shape][2:]
        before, after = [], []
        strides, dilations = attrs.get("strides", (1, 1)), attrs.get("dilations", (1, 1))
        for n, k, stride, dilation in zip(size, kernel, strides, dilations, strict=True):
            total = max(0, (-(-n // stride) - 1) * stride + (k - 1) * dilation + 1 - n)
            small, large = total // 2, total - total // 2
            before.append(small if auto == b"SAME_UPPER" else large)
            after.append(large if auto == b"SAME_UPPER" else small)
        attrs["pads"] = tuple(before + after)
        attrs.pop("auto_pad")

    def _check_for_unsupported_ops(self, graph: Any) -> None:
        try:
            super()._check_for_unsupported_ops(graph)
        except OpNotImplemented as error:
            names = str(error).rpartition(":")[2].strip()
            raise Refused(
                f"unsupported operator{'s' if ',' in names else ''} {names}: TVM's importer has no conversion; replace "
                "or remove it in the source model"
            ) from error


def import_onnx(model: Any) -> IRModule:
    """Relax module of a checked ONNX model."""
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importer = OnnxImporter()
        try:
            return importer.from_onnx(model.graph, opset)
        except Exception:
            if importer.position:  # only then had it begun to build
                _abandon(importer.bb)
            raise
