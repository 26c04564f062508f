"""The exact integer graph: what the importers produce and what the planner schedules.

Every operator here has one meaning, in integers, which its class states (:mod:`tilewright.jit.ops`); scales and zero
points have already become multipliers, shifts and folded biases. Nothing of it knows TVM.

Activations are NHWC with a leading batch axis of 1. A fully connected layer is a 1x1 convolution on a
(1, 1, 1, IC) tensor. All accumulators are int32 and wrap modulo 2^32.
"""

from __future__ import annotations

from typing import Literal

from tilewright.jit.ir.base import Graph, Op, requants_of
from tilewright.jit.ir.convolution import Convolution
from tilewright.jit.ir.requant import Requant, Scale
from tilewright.jit.ops.average_pool2d import AvgPool2D
from tilewright.jit.ops.concat import Concat
from tilewright.jit.ops.conv2d import Conv2D
from tilewright.jit.ops.depthwise_conv2d import DepthwiseConv2D
from tilewright.jit.ops.host import (
    Constant,
    DequantizeFloat,
    HostCast,
    HostOp,
    Interpreted,
    QuantizeFloat,
    Softmax,
    TableSoftmax,
    Transpose,
)
from tilewright.jit.ops.matmul import MatMul
from tilewright.jit.ops.max_pool2d import MaxPool2D
from tilewright.jit.ops.pad import Pad
from tilewright.jit.ops.pairwise import Add, Maximum, Minimum, Multiply, Pairwise
from tilewright.jit.ops.partial_sums import PartialSums
from tilewright.jit.ops.recurrent import Recurrent
from tilewright.jit.ops.requantize import Requantize
from tilewright.jit.ops.resample import Resample
from tilewright.jit.ops.reshape import Reshape
from tilewright.jit.ops.slice import Slice
from tilewright.jit.ops.total import Total
from tilewright.runtime.steps import TensorSpec

__all__ = [
    "Add", "AvgPool2D", "Concat", "Constant", "Conv2D", "Convolution", "DepthwiseConv2D", "DequantizeFloat", "Graph",
    "HostCast", "HostOp", "Interpreted", "MatMul", "MaxPool2D", "Maximum", "Minimum", "Multiply", "Op", "Pad",
    "Pairwise", "PartialSums", "Place", "QuantizeFloat", "Recurrent", "Requant", "Requantize", "Resample", "Reshape",
    "Scale", "Slice", "Softmax", "TableSoftmax", "TensorSpec", "Total", "Transpose", "requants_of",
]  # fmt: skip

Place = Literal["accelerator", "host"]
