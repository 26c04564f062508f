"""ResNet-50: He et al., "Deep Residual Learning for Image Recognition" (2016), table 1."""

from __future__ import annotations

from bench.networks.calibrated import Calibrated, Value

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
CLASSES = 1000


def bottleneck(net: Calibrated, x: Value, inner: int, stride: int, project: bool) -> Value:
    """1x1, 3x3, 1x1 to four times the channels, beside the identity or a projection."""
    y = net.conv(x, inner, 1)
    y = net.conv(y, inner, 3, stride)
    y = net.conv(y, 4 * inner, 1, activation="none")
    if project:
        x = net.conv(x, 4 * inner, 1, stride, activation="none")
    return net.add(x, y, "relu")


def resnet50(net: Calibrated, size: int = 224, narrow: int = 1) -> list[Value]:
    """Logits and probabilities; ``narrow`` divides all channels."""
    x = net.conv(net.input((size, size, 3)), 64 // narrow, 7, 2)
    x = net.max_pool(x)
    for stage, (channels, blocks) in enumerate(STAGES):
        for block in range(blocks):
            x = bottleneck(net, x, channels // narrow, 2 if stage and not block else 1, not block)
    logits = net.dense(net.mean(x), CLASSES // narrow)
    return [logits, net.softmax(logits)]
