"""Inception v1 (GoogLeNet): Szegedy et al., "Going Deeper with Convolutions" (2015), table 1.

Batch normalisation takes the place of local response normalisation, as in later versions; no auxiliary classifiers.
"""

from __future__ import annotations

from bench.networks.calibrated import Calibrated, Value

#: channels: 1x1; reduction and 3x3; reduction and "5x5"; projection of the pool. None: a pool between.
MODULES = (
    (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None,
    (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), None,
    (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
)  # fmt: skip
CLASSES = 1000


def module(net: Calibrated, x: Value, channels: tuple[int, ...]) -> Value:
    """Four branches that are joined: their results share a scale."""
    one, three_in, three, five_in, five, pooled = channels
    a = net.conv(x, one, 1)
    b = net.conv(net.conv(x, three_in, 1), three, 3, like=a)
    c = net.conv(net.conv(x, five_in, 1), five, 5, like=a)
    d = net.conv(net.max_pool(x, 3, 1), pooled, 1, like=a)
    return net.concatenation(a, b, c, d)


def inception(net: Calibrated, size: int = 224, narrow: int = 1) -> list[Value]:
    """Logits and probabilities; ``narrow`` divides all channels."""
    x = net.conv(net.input((size, size, 3)), 64 // narrow, 7, 2)
    x = net.max_pool(x)
    x = net.conv(net.conv(x, 64 // narrow, 1), 192 // narrow, 3)
    x = net.max_pool(x)
    for channels in MODULES:
        x = net.max_pool(x) if channels is None else module(net, x, tuple(max(1, c // narrow) for c in channels))
    logits = net.dense(net.mean(x), CLASSES // narrow)
    return [logits, net.softmax(logits)]
