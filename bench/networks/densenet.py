"""DenseNet-121's topology: Huang et al., "Densely Connected Convolutional Networks" (2017), table 1.

Each convolution is followed by its activation, so that normalisation folds into it; the paper's comes ahead of the
convolution, where the same channel has other factors in every layer that reads it.
"""

from __future__ import annotations

from bench.networks.calibrated import Calibrated, Value

BLOCKS = (6, 12, 24, 16)
GROWTH = 32
CLASSES = 1000


def densenet(net: Calibrated, size: int = 112, narrow: int = 1) -> list[Value]:
    """Logits and probabilities; ``narrow`` divides all channels and the layers of the blocks."""
    growth = GROWTH // narrow
    x = net.conv(net.input((size, size, 3)), 2 * growth, 7, 2)
    x = net.max_pool(x)
    for block, layers in enumerate(BLOCKS):
        if block:
            x = net.average_pool(net.conv(x, x.channels // 2, 1), 2, 2)
        for _ in range(layers // narrow):
            y = net.conv(net.conv(x, 4 * growth, 1), growth, 3, like=x)
            x = net.concatenation(x, y)
    logits = net.dense(net.mean(x), CLASSES // narrow)
    return [logits, net.softmax(logits)]
