"""``OnnxNet``: quantised ``.onnx`` networks written operator by operator."""

from __future__ import annotations

from tests.fuzz.onnx_layers import Layers
from tests.fuzz.onnx_ops import Operators


class OnnxNet(Layers, Operators):
    """A QDQ ``.onnx`` network with random weights. Layers are called in order, on tensors NCHW::

        net = OnnxNet(seed=1)
        x = net.input((1, 3, 32, 32), dtype="float32", scale=1 / 128)
        y = net.conv(x, 16, kernel=3, stride=2, padding=(1, 1, 1, 1), activation="relu")
        y = net.add(y, net.conv(y, 16), activation="relu")
        y = net.gemm(net.flatten(net.global_average_pool(y)), 10)
        net.save("small.onnx", [y])

    Every method adds an operator and returns its result; ``save`` writes the file with the outputs given.
    """
