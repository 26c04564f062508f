"""``TfliteNet``: ``.tflite`` networks written operator by operator."""

from __future__ import annotations

from tests.fuzz.tflite_layers import Layers
from tests.fuzz.tflite_layout import Layout
from tests.fuzz.tflite_pointwise import Pointwise
from tests.fuzz.tflite_recurrent import Recurrent


class TfliteNet(Layers, Pointwise, Layout, Recurrent):
    """A quantised ``.tflite`` network with random weights. Layers are called in order, on tensors NHWC::

        net = TfliteNet(seed=1)
        x = net.input((1, 32, 32, 3), scale=1 / 128)
        y = net.conv(x, 16, kernel=3, stride=2, padding="same", activation="relu6")
        y = net.add(y, net.conv(y, 16))
        y = net.fully_connected(net.mean(y), 10)
        net.save("small.tflite", [net.softmax(y)])

    Every method adds an operator and returns its result; ``save`` writes the file with the outputs given.
    """
