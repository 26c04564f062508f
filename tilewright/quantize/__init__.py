"""Post-training quantisation: a float model and example inputs in, a model of integers that the compiler takes out.

The quantisers are ONNX Runtime's and LiteRT's own; what is added is one way to call both, and what quantising cost,
layer by layer.
"""

from tilewright.quantize.files import QuantizeError, quantize_file
from tilewright.quantize.loss import LayerLoss
from tilewright.quantize.result import Quantised

__all__ = ["LayerLoss", "Quantised", "QuantizeError", "quantize_file"]
