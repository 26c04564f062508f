"""Well-known networks as int8 ``.tflite`` files (transformers: QDQ ``.onnx``), seeded weights and calibrated scales.

Topologies are those of the papers that each module names; what departs from them is said there. The weights are
random: these networks classify nothing, they load a compiler with the shapes and values of real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.networks.calibrated import Calibrated, Value, example
from bench.networks.densenet import densenet
from bench.networks.efficientnet import efficientnet_b0, efficientnet_lite0
from bench.networks.inception import inception
from bench.networks.lstm import lstm
from bench.networks.mobilenet_v3 import mobilenet_v3
from bench.networks.resnet50 import resnet50
from bench.networks.shufflenet import shufflenet
from bench.networks.squeezenet import squeezenet
from bench.networks.transformer import keyword_transformer, transformer_block
from bench.networks.unet import unet

__all__ = ["NETWORKS", "SIZES", "Built", "Network", "build", "example"]


@dataclass(frozen=True)
class Network:
    """How to draw a network, and its sizes: pixels (or steps) and divisor of the channels.

    ``medium`` has all channels on a smaller image: what a Config with 16 multipliers compiles in minutes. ``write``
    draws one as ``.onnx``.
    """

    draw: Callable[[Calibrated, int, int], list[Value]] | None
    full: tuple[int, int]
    medium: tuple[int, int]
    small: tuple[int, int]
    write: Callable[[Path, int, int, int], tuple[int, tuple[int, ...]]] | None = None

    @property
    def suffix(self) -> str:
        """Of its files."""
        return ".tflite" if self.write is None else ".onnx"

    def size(self, name: str) -> tuple[int, int]:
        """One of :data:`SIZES`."""
        return {"full": self.full, "medium": self.medium, "small": self.small}[name]


SIZES = ("small", "medium", "full")
NETWORKS = {
    "resnet50": Network(resnet50, (224, 1), (64, 1), (32, 8)),
    "inception_v1": Network(inception, (224, 1), (64, 1), (48, 8)),
    "squeezenet": Network(squeezenet, (224, 1), (64, 1), (48, 4)),
    "shufflenet": Network(shufflenet, (224, 1), (64, 1), (48, 4)),
    "densenet121": Network(densenet, (112, 1), (64, 1), (32, 4)),
    "mobilenet_v3": Network(mobilenet_v3, (224, 1), (64, 1), (48, 4)),
    "efficientnet_b0": Network(efficientnet_b0, (224, 1), (64, 1), (48, 4)),
    "efficientnet_lite0": Network(efficientnet_lite0, (224, 1), (64, 1), (48, 4)),
    "unet": Network(unet, (128, 1), (32, 1), (16, 8)),
    "lstm": Network(lstm, (49, 1), (12, 1), (6, 4)),
    "transformer_block": Network(None, (128, 1), (48, 1), (16, 2), transformer_block),
    "keyword_transformer": Network(None, (98, 1), (48, 4), (16, 4), keyword_transformer),
}


@dataclass(frozen=True)
class Built:
    """What is known of a written network: multiply-accumulates, and the shape of one input."""

    macs: int
    input_shape: tuple[int, ...]


def build(path: Path, name: str, size: str = "full", seed: int = 0) -> Built:
    """Write a network."""
    network = NETWORKS[name]
    if network.write is not None:
        return Built(*network.write(path, *network.size(size), seed))
    assert network.draw is not None
    net = Calibrated(seed)
    net.save(path, network.draw(net, *network.size(size)))
    return Built(net.macs, net.input_shape)
