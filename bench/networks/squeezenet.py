"""SqueezeNet 1.1: Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters" (2016).

Padding is "same" throughout.
"""

from __future__ import annotations

from bench.networks.calibrated import Calibrated, Value

#: channels of the squeezing 1x1 and of each of the two that expand. None: a pool between.
FIRES = ((16, 64), (16, 64), None, (32, 128), (32, 128), None, (48, 192), (48, 192), (64, 256), (64, 256))
CLASSES = 1000


def fire(net: Calibrated, x: Value, squeezed: int, expanded: int) -> Value:
    """A 1x1 convolution, then 1x1 and 3x3 side by side."""
    x = net.conv(x, squeezed, 1)
    a = net.conv(x, expanded, 1)
    return net.concatenation(a, net.conv(x, expanded, 3, like=a))


def squeezenet(net: Calibrated, size: int = 224, narrow: int = 1) -> list[Value]:
    """Logits and probabilities; ``narrow`` divides all channels. The classifier is a convolution ahead of the mean."""
    x = net.conv(net.input((size, size, 3)), 64 // narrow, 3, 2)
    x = net.max_pool(x)
    for channels in FIRES:
        x = net.max_pool(x) if channels is None else fire(net, x, *(c // narrow for c in channels))
    logits = net.mean(net.conv(x, CLASSES // narrow, 1))
    return [logits, net.softmax(logits)]
