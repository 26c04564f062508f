"""Random and hand-written quantised networks, and what becomes of them against the reference interpreters.

:class:`TfliteNet` and :class:`OnnxNet` write networks operator by operator. :func:`draw_network` draws a random one
as a :class:`Recipe`, :func:`check_case` compiles, runs and compares it, :func:`shrink` makes a failing one small.
"""

from __future__ import annotations

from tilewright.fuzz.onnx_net import OnnxNet
from tilewright.fuzz.tensors import BuildError, Tensor
from tilewright.fuzz.tflite_net import TfliteNet

__all__ = ["BuildError", "OnnxNet", "Tensor", "TfliteNet"]
