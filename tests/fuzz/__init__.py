"""Random and hand-written quantised networks, and what becomes of them against the reference interpreters.

:class:`TfliteNet` and :class:`OnnxNet` write networks operator by operator. :func:`draw_network` draws a random one
as a :class:`Recipe`, :func:`check_case` compiles, runs and compares it, :func:`shrink` makes a failing one small.
"""

from __future__ import annotations

from tests.fuzz.cases import Outcome, case_inputs, check_case
from tests.fuzz.onnx_net import OnnxNet
from tests.fuzz.recipe import Recipe, build
from tests.fuzz.seeds import check_recipe, draw_network, seed_config
from tests.fuzz.shrink import Shrunk, shrink
from tests.fuzz.tensors import BuildError, Tensor
from tests.fuzz.tflite_net import TfliteNet

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
