"""Random and hand-written quantised networks, and what becomes of them against the reference interpreters.

:class:`TfliteNet` and :class:`OnnxNet` write networks operator by operator. :func:`draw_network` draws a random one
as a :class:`Recipe`, :func:`check_case` compiles, runs and compares it, :func:`shrink` makes a failing one small.
"""

from __future__ import annotations

from tilewright.fuzz.cases import Outcome, case_inputs, check_case
from tilewright.fuzz.onnx_net import OnnxNet
from tilewright.fuzz.recipe import Recipe, build
from tilewright.fuzz.seeds import check_recipe, draw_network, seed_config
from tilewright.fuzz.shrink import Shrunk, shrink
from tilewright.fuzz.tensors import BuildError, Tensor
from tilewright.fuzz.tflite_net import TfliteNet

__all__ = [
    "BuildError",
    "OnnxNet",
    "Outcome",
    "Recipe",
    "Shrunk",
    "Tensor",
    "TfliteNet",
    "build",
    "case_inputs",
    "check_case",
    "check_recipe",
    "draw_network",
    "seed_config",
    "shrink",
]
