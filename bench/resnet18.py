"""ResNet-18, or -50, as a QDQ ONNX file with seeded weights.

``python bench/resnet18.py --out FILE [--depth 50] [--size 224] [--seed 0] [--activations int8]`` writes the file, which
``tilewright run FILE --check`` compares with ONNX Runtime. Shapes are those of He et al., "Deep Residual Learning for
Image Recognition" (2016), table 1, batch normalisation folded. Weights are drawn as in He et al., "Delving Deep into
Rectifiers" (2015): the variance of every tensor is then known in advance, so scales cover four standard deviations
without a calibration run, and the file depends on its arguments alone. Of int8 activations ONNX Runtime takes the sums
in float32: few of those layers are proven.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.jit.onnx_models import QdqBuilder

STAGES = (64, 128, 256, 512)
BLOCKS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}  #: by depth, in each stage
EXPANSION = 4  #: of a bottleneck's last convolution
CLASSES = 1000
RANGE = 4.0  #: standard deviations that a tensor's int8 range covers
BRANCH_GAIN = 0.5  #: of a block's last convolution: training leaves residual branches small


class ResNet18(QdqBuilder):
    """Builds the network. ``deviation``: each tensor's standard deviation, ahead of its ReLU if it has one."""

    def __init__(self, seed: int, activations: str) -> None:
        super().__init__(seed, activations)
        self.deviation: dict[str, float] = {}
        self.quantisation: dict[str, tuple[float, int]] = {}  #: (scale, zero point)
        self.gain = 1.0

    def weight(self, shape: tuple[int, ...], scale: float = 0.0, axis: int | None = 0) -> tuple[str, NDArray[Any]]:
        """He-normal weights times ``gain``, quantised per output channel to their largest magnitude."""
        real = self.rng.normal(0, self.gain * math.sqrt(2 / math.prod(shape[1:])), shape)
        scales = (np.abs(real).reshape(shape[0], -1).max(axis=1) / 127).astype(np.float32)
        values = np.rint(real / scales.reshape(-1, *[1] * (len(shape) - 1))).clip(-127, 127).astype(np.int8)
        zeros = np.zeros(shape[0], np.int8)
        return self.dequantised(self.constant(values), scales, zeros, np.dtype(np.int8), axis=0), scales

    def bias(self, x: str, scales: Any, channels: int, size: int = 0) -> str:
        """What folding batch normalisation leaves: a tenth of the output's deviation, in the accumulator's scale."""
        product = np.float32(self.scales[x]) * np.asarray(scales, np.float32)
        values = np.rint(self.rng.normal(0, 0.1 * self.gain * self.deviation[x], channels) / product).astype(np.int32)
        zeros = np.zeros(channels, np.int32)
        return self.dequantised(self.constant(values), product, zeros, np.dtype(np.int32), axis=0)

    def range(self, deviation: float, rectified: bool) -> tuple[float, int]:
        """(scale to three digits, zero point) that cover ``RANGE`` deviations."""
        low = int(np.iinfo(self.activations).min)
        steps, zero = (255, low) if rectified else (127, low + 128)
        return float(f"{RANGE * deviation / steps:.3g}"), zero

    def quantise(self, tensor: str, deviation: float, scale: float, zero_point: int) -> str:
        """Quantised, with what later layers must know of it."""
        return self.note(self.quantised(tensor, scale, zero_point), deviation, scale, zero_point)

    def note(self, tensor: str, deviation: float, scale: float, zero_point: int) -> str:
        """Remember a tensor's statistics."""
        self.deviation[tensor], self.quantisation[tensor] = deviation, (scale, zero_point)
        return tensor

    def activated(self, tensor: str, deviation: float, rectified: bool = True) -> str:
        """ReLU (or none) and a range of its own."""
        tensor = self.node("Relu", [tensor]) if rectified else tensor
        return self.quantise(tensor, deviation, *self.range(deviation, rectified))

    def moved(self, kind: str, x: str, **attributes: Any) -> str:
        """An operator that keeps the range of its input."""
        return self.quantise(self.node(kind, [x], **attributes), self.deviation[x], *self.quantisation[x])

    def convolution(
        self, x: str, outputs: int, inputs: int, kernel: int, stride: int = 1, gain: float = 1.0, rectified: bool = True
    ) -> str:
        """A square convolution with bias; the output's deviation is ``gain`` times the input's."""
        self.gain = gain
        y = self.conv(x, (outputs, inputs, kernel, kernel), strides=[stride] * 2, pads=[kernel // 2] * 4)
        return self.activated(y, gain * self.deviation[x], rectified)

    def block(self, x: str, inputs: int, outputs: int, stride: int) -> str:
        """Two 3x3 convolutions beside the identity, or beside a 1x1 convolution where the shape changes."""
        y = self.convolution(x, outputs, inputs, 3, stride)
        y = self.convolution(y, outputs, outputs, 3, gain=BRANCH_GAIN, rectified=False)
        return self.joined(x, y, inputs, outputs, stride)

    def bottleneck(self, x: str, inputs: int, outputs: int, stride: int) -> str:
        """A 3x3 convolution on a quarter of the channels, beside the same."""
        y = self.convolution(x, outputs // EXPANSION, inputs, 1)
        y = self.convolution(y, outputs // EXPANSION, outputs // EXPANSION, 3, stride)
        y = self.convolution(y, outputs, outputs // EXPANSION, 1, gain=BRANCH_GAIN, rectified=False)
        return self.joined(x, y, inputs, outputs, stride)

    def joined(self, x: str, y: str, inputs: int, outputs: int, stride: int) -> str:
        """The sum of a block's input, convolved where the shape changes, and of its branch."""
        if stride > 1 or inputs != outputs:
            x = self.convolution(x, outputs, inputs, 1, stride, rectified=False)
        return self.activated(self.node("Add", [x, y]), math.hypot(self.deviation[x], self.deviation[y]))

    def network(self, size: int, depth: int = 18) -> str:
        """The whole network on integer images (1, 3, size, size); returns its logits."""
        numbers = self.range(1.0, rectified=False)
        x = self.note(self.input([1, 3, size, size], str(self.activations), *numbers), 1.0, *numbers)
        x = self.convolution(x, STAGES[0], 3, 7, 2)
        x = self.moved("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        inputs = STAGES[0]
        for stage, channels in enumerate(STAGES):
            block, outputs = (self.bottleneck, EXPANSION * channels) if depth >= 50 else (self.block, channels)
            for step in range(BLOCKS[depth][stage]):
                x = block(x, inputs, outputs, 2 if stage and not step else 1)
                inputs = outputs
        x = self.moved("Flatten", self.moved("GlobalAveragePool", x), axis=1)
        self.gain = 1.0
        w, scales = self.weight((CLASSES, inputs))
        logits = self.node("Gemm", [x, w, self.bias(x, scales, CLASSES)], transB=1)
        return self.activated(logits, self.deviation[x], rectified=False)


def build(path: Path, size: int = 224, seed: int = 0, activations: str = "uint8", depth: int = 18) -> Path:
    """Write the model; ``depth``: 18 or 50. Raises ``ValueError`` for a size that leaves nothing of the last stage."""
    if size < 32:
        raise ValueError(f"size {size}: the network halves the image five times; at least 32")
    builder = ResNet18(seed, activations)
    builder.save(path, builder.network(size, depth), [1, CLASSES], activations)
    return path


def images(count: int, size: int, seed: int, activations: str) -> NDArray[Any]:
    """``count`` images of normal noise, (count, 3, size, size), as the network's input stores them."""
    low = np.iinfo(activations).min
    noise = np.random.default_rng([seed, 1]).normal(0, 127 / RANGE, (count, 3, size, size))
    return (np.rint(noise).clip(-128, 127) + 128 + low).astype(activations)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--depth", type=int, choices=list(BLOCKS), default=18)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--activations", choices=("int8", "uint8"), default="uint8")
    options = parser.parse_args()
    build(options.out, options.size, options.seed, options.activations, options.depth)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
