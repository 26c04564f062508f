"""MobileNetV3-Small: Howard et al., "Searching for MobileNetV3" (2019), table 2."""

from __future__ import annotations

from bench.networks.calibrated import Calibrated, Value

#: kernel, expansion, outputs, squeeze-and-excite, hard-swish, stride
BLOCKS = (
    (3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1), (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1),
)  # fmt: skip
CLASSES = 1000


def activated(net: Calibrated, x: Value, swish: bool) -> Value:
    """HARD_SWISH, an operator of its own; a ReLU is fused already."""
    return net.hard_swish(x) if swish else x


def excited(net: Calibrated, x: Value) -> Value:
    """Squeeze-and-excite: channels weighted by what two 1x1 convolutions make of their means."""
    inner = max(1, x.channels // 4)
    y = net.conv(net.mean(x, keep_dims=True), inner, 1)
    return net.mul(x, net.hard_sigmoid(net.conv(y, x.channels, 1, activation="none")))


def mobilenet_v3(net: Calibrated, size: int = 224, narrow: int = 1) -> list[Value]:
    """Logits and probabilities; ``narrow`` divides all channels."""
    x = net.hard_swish(net.conv(net.input((size, size, 3)), 16 // narrow, 3, 2, activation="none"))
    for kernel, wide, outputs, excite, swish, stride in BLOCKS:
        fused = "none" if swish else "relu"
        y = x
        if wide != 16:  # the first block does not expand
            y = activated(net, net.conv(x, wide // narrow, 1, activation=fused), swish)
        y = activated(net, net.depthwise(y, kernel, stride, activation=fused), swish)
        y = net.conv(excited(net, y) if excite else y, outputs // narrow, 1, activation="none")
        x = net.add(x, y) if stride == 1 and x.channels == y.channels else y
    x = net.hard_swish(net.conv(x, 576 // narrow, 1, activation="none"))
    x = net.hard_swish(net.conv(net.mean(x, keep_dims=True), 1024 // narrow, 1, activation="none"))
    logits = net.dense(x, CLASSES // narrow)
    return [logits, net.softmax(logits)]
