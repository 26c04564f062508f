"""A U-Net: Ronneberger et al., "U-Net: Convolutional Networks for Biomedical Image Segmentation" (2015).

Half the paper's channels, "same" padding, TRANSPOSE_CONV on the way up.
"""

from __future__ import annotations

from bench.networks.calibrated import Calibrated, Value

CHANNELS = (32, 64, 128, 256)
BOTTOM = 512
CLASSES = 4


def unet(net: Calibrated, size: int = 128, narrow: int = 1) -> list[Value]:
    """Scores of each pixel; ``narrow`` divides all channels."""
    x = net.input((size, size, 3))
    skipped = []
    for channels in CHANNELS:
        x = net.conv(net.conv(x, channels // narrow, 3), channels // narrow, 3)
        skipped.append(x)
        x = net.max_pool(x, 2, 2)
    x = net.conv(net.conv(x, BOTTOM // narrow, 3), BOTTOM // narrow, 3)
    for channels, skip in zip(reversed(CHANNELS), reversed(skipped), strict=True):
        up = net.transpose_conv(x, channels // narrow)
        x = net.concatenation(net.requantize(skip, up), up)
        x = net.conv(net.conv(x, channels // narrow, 3), channels // narrow, 3)
    return [net.conv(x, CLASSES, 1, activation="none")]
