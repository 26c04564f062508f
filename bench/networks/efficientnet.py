"""EfficientNet-B0: Tan and Le, "EfficientNet" (2019), table 1; and its Lite0, which has ReLU6 and no excitation."""

from __future__ import annotations

from bench.networks.calibrated import Calibrated, Value

#: kernel, expansion, outputs, blocks, stride of the first
STAGES = (
    (3, 1, 16, 1, 1), (3, 6, 24, 2, 2), (5, 6, 40, 2, 2), (3, 6, 80, 3, 2), (5, 6, 112, 3, 1), (5, 6, 192, 4, 2),
    (3, 6, 320, 1, 1),
)  # fmt: skip
CLASSES = 1000


def efficientnet_b0(net: Calibrated, size: int = 224, narrow: int = 1) -> list[Value]:
    """Logits and probabilities; ``narrow`` divides all channels. Swish is LOGISTIC and MUL, as converters write it."""
    return _efficientnet(net, size, narrow, lite=False)


def efficientnet_lite0(net: Calibrated, size: int = 224, narrow: int = 1) -> list[Value]:
    """Logits and probabilities; ``narrow`` divides all channels."""
    return _efficientnet(net, size, narrow, lite=True)


def _efficientnet(net: Calibrated, size: int, narrow: int, lite: bool) -> list[Value]:
    fused = "relu6" if lite else "none"

    def swish(x: Value) -> Value:
        return x if lite else net.mul(x, net.logistic(x))

    x = swish(net.conv(net.input((size, size, 3)), 32 // narrow, 3, 2, activation=fused))
    for kernel, expansion, outputs, blocks, first in STAGES:
        for block in range(blocks):
            stride = first if block == 0 else 1
            y = x
            if expansion != 1:
                y = swish(net.conv(x, x.channels * expansion, 1, activation=fused))
            y = swish(net.depthwise(y, kernel, stride, activation=fused))
            if not lite:
                y = _excited(net, y, max(4, x.channels // 4))  # of one channel a scale says nothing
            y = net.conv(y, outputs // narrow, 1, activation="none")
            x = net.add(x, y) if stride == 1 and x.channels == y.channels else y
    x = swish(net.conv(x, 1280 // narrow, 1, activation=fused))
    logits = net.dense(net.mean(x), CLASSES // narrow)
    return [logits, net.softmax(logits)]


def _excited(net: Calibrated, x: Value, inner: int) -> Value:
    """Squeeze-and-excite; the inner width is a quarter of the block's inputs."""
    y = net.conv(net.mean(x, keep_dims=True), inner, 1, activation="none")
    y = net.conv(net.mul(y, net.logistic(y)), x.channels, 1, activation="none")
    return net.mul(x, net.logistic(y))
