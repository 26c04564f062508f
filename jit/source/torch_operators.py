"""PT2E's operators in ONNX, where PyTorch's exporter writes something else than they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def translations() -> dict[Any, Callable[..., Any]]:
    """For ``custom_translation_table`` of ``torch.onnx.export``.

    ``quantize_per_tensor`` clamps to a range of its own, which the exporter leaves out (not so per channel): 0 to 127
    of uint8 in quantisers that spare CPUs a saturation (``reduce_range``), fewer bits in a wider type.
    """
    import torch
    from onnxscript.function_libs.torch_lib.ops import quantized_decomposed as known

    def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: int) -> Any:
        from onnxscript.function_libs.torch_lib.ops import common
        from onnxscript.onnx_opset import opset18 as op

        made = known.quantized_decomposed_quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype)
        if not isinstance(quant_min, int) or not isinstance(quant_max, int) or (quant_min, quant_max) == _range(dtype):
            return made
        return op.Clip(made, common.constant(quant_min, dtype=dtype), common.constant(quant_max, dtype=dtype))

    operator = torch.ops.quantized_decomposed.quantize_per_tensor
    return {getattr(operator, name): quantize_per_tensor for name in ("default", "tensor", "tensor2")}


def _range(dtype: int) -> tuple[int, int]:
    import numpy as np
    from onnx import helper

    info = np.iinfo(helper.tensor_dtype_to_np_dtype(dtype))
    return int(info.min), int(info.max)
