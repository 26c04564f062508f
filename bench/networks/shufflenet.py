"""ShuffleNet v1 with three groups: Zhang et al., "ShuffleNet: An Extremely Efficient CNN" (2018), table 1.

The channel shuffle is a RESHAPE, a TRANSPOSE and a RESHAPE. The first 1x1 convolution of stage 2 is not grouped, as in
the paper.
"""

from __future__ import annotations

from bench.networks.calibrated import Calibrated, Value

GROUPS = 3
STAGES = ((240, 4), (480, 8), (960, 4))
CLASSES = 1000


def shuffle(net: Calibrated, x: Value) -> Value:
    """Channels of the groups, dealt out in turn."""
    _, h, w, c = x.shape
    y = net.reshape(x, 1, h, w, GROUPS, c // GROUPS)
    return net.reshape(net.transpose(y, 0, 1, 2, 4, 3), 1, h, w, c)


def unit(net: Calibrated, x: Value, channels: int, stride: int, groups: int) -> Value:
    """Grouped 1x1, shuffle, depthwise, grouped 1x1; added to the input, or joined with its pool."""
    outputs = channels - x.channels if stride > 1 else channels
    inner = channels // 4 // GROUPS * GROUPS
    y = shuffle(net, net.conv(x, inner, 1, groups=groups))
    y = net.depthwise(y, 3, stride, activation="none")
    if stride == 1:
        return net.add(x, net.conv(y, outputs, 1, activation="none", groups=GROUPS), "relu")
    y = net.conv(y, outputs, 1, groups=GROUPS)
    # a converter brings what is joined to one scale with a QUANTIZE where its producer has another
    return net.concatenation(net.requantize(net.average_pool(x), y), y)


def shufflenet(net: Calibrated, size: int = 224, narrow: int = 1) -> list[Value]:
    """Logits and probabilities; ``narrow`` divides all channels."""
    x = net.conv(net.input((size, size, 3)), 24 // narrow, 3, 2)
    x = net.max_pool(x)
    for stage, (channels, blocks) in enumerate(STAGES):
        for block in range(blocks):
            x = unit(net, x, channels // narrow, 1 if block else 2, GROUPS if stage or block else 1)
    logits = net.dense(net.mean(x), CLASSES // narrow)
    return [logits, net.softmax(logits)]
