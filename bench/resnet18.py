"""ResNet-18 as an int8 QDQ ONNX file with seeded weights, and its integers on the accelerator against ONNX Runtime.

``python bench/resnet18.py --out FILE [--size 224] [--seed 0] [--activations uint8]`` writes the file;
``--check [--images 1] [--config pynq-z2]`` compiles it, runs it on the cycle-exact simulator and compares every
output. Shapes are those of He et al., "Deep Residual Learning for Image Recognition" (2016), table 1, batch
normalisation folded. Weights are drawn as in He et al., "Delving Deep into Rectifiers" (2015): the variance of every
tensor is then known in advance, so scales cover four standard deviations without a calibration run, and the file
depends on its arguments alone.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

import tilewright as tw
from tests.jit.onnx_models import QdqBuilder, onnx_runtime
from tilewright.checking import compare, reference_outputs
from tilewright.errors import TilewrightError
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.graph import Graph
from tilewright.jit.importer import ImportedModel, import_model
from tilewright.jit.reference import evaluate
from tilewright.terminal import ProgressReporter

STAGES = (64, 128, 256, 512)
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
        if stride > 1:
            x = self.convolution(x, outputs, inputs, 1, stride, rectified=False)
        return self.activated(self.node("Add", [x, y]), math.hypot(self.deviation[x], self.deviation[y]))

    def network(self, size: int) -> str:
        """The whole network on integer images (1, 3, size, size); returns its logits."""
        numbers = self.range(1.0, rectified=False)
        x = self.note(self.input([1, 3, size, size], str(self.activations), *numbers), 1.0, *numbers)
        x = self.convolution(x, STAGES[0], 3, 7, 2)
        x = self.moved("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        inputs = STAGES[0]
        for stage, channels in enumerate(STAGES):
            for step in range(2):
                x = self.block(x, inputs, channels, 2 if stage and not step else 1)
                inputs = channels
        x = self.moved("Flatten", self.moved("GlobalAveragePool", x), axis=1)
        self.gain = 1.0
        w, scales = self.weight((CLASSES, inputs))
        logits = self.node("Gemm", [x, w, self.bias(x, scales, CLASSES)], transB=1)
        return self.activated(logits, self.deviation[x], rectified=False)


def build(path: Path, size: int = 224, seed: int = 0, activations: str = "int8") -> Path:
    """Write the model. Raises ``ValueError`` for a size that leaves nothing of the last stage."""
    if size < 32:
        raise ValueError(f"size {size}: the network halves the image five times; at least 32")
    builder = ResNet18(seed, activations)
    return builder.save(path, builder.network(size), [1, CLASSES], activations)


def images(count: int, size: int, seed: int, activations: str) -> NDArray[Any]:
    """``count`` images of normal noise, (count, 3, size, size), as the network's input stores them."""
    low = np.iinfo(activations).min
    noise = np.random.default_rng([seed, 1]).normal(0, 127 / RANGE, (count, 3, size, size))
    return (np.rint(noise).clip(-128, 127) + 128 + low).astype(activations)


@dataclass(frozen=True)
class LayerDifference:
    """One layer on the inputs that ONNX Runtime gave it: outputs that differ, by how much, what was promised."""

    promise: LayerExactness
    outputs: int
    different: int
    largest: int

    @property
    def kept(self) -> bool:
        """Whether the compiler's statement about the layer holds."""
        return self.largest <= self.promise.bound and (self.different == 0 or not self.promise.proven)


def layer_differences(path: Path, model: ImportedModel, x: NDArray[Any]) -> list[LayerDifference]:
    """Every layer's integers against ONNX Runtime's, each on ONNX Runtime's own inputs; ``x``: (1, 3, H, W)."""
    file = onnx.load(str(path))
    results = {
        operator.name: next(n.output[0] for n in file.graph.node[operator.index :] if n.op_type == "QuantizeLinear")
        for operator in model.source.operators
        if any(n.op_type == "QuantizeLinear" for n in file.graph.node[operator.index :])
    }
    shown = path.with_name(f"{path.stem}.layers.onnx")
    kind = file.graph.input[0].type.tensor_type.elem_type
    file.graph.output.extend(onnx.helper.make_tensor_value_info(t, kind, None) for t in dict.fromkeys(results.values()))
    onnx.save(file, str(shown))
    try:
        outputs = dict(
            zip([o.name for o in file.graph.output], onnx_runtime(shown, {model.inputs[0].name: x}), strict=True)
        )
    finally:
        shown.unlink()
    low = int(np.iinfo(x.dtype).min) + 128  # by how much the file's integers are more than the graph's int8
    graph = model.graph
    values, found = {model.inputs[0].name: x}, []
    promises = {layer.name: layer for layer in model.exactness}
    for op in graph.ops:
        single = Graph(op.name, list(dict.fromkeys(op.inputs)), [op.output], graph.tensors, [op])
        ours = evaluate(single, {t: values[t] for t in single.inputs})[op.output]
        values[op.output] = ours
        promise = promises.get(op.name)
        if promise is None:  # a change of shape or type
            continue
        stored = outputs[results[op.name]].astype(np.int16) - low
        values[op.output] = (np.moveaxis(stored, 1, -1) if stored.ndim == 4 else stored).reshape(ours.shape)
        values[op.output] = values[op.output].astype(np.int8)
        distance = np.abs(ours.astype(np.int16) - values[op.output])
        found.append(LayerDifference(promise, ours.size, int((distance > 0).sum()), int(distance.max())))
    return found


def unsigned_differences(
    path: Path, model: ImportedModel, x: NDArray[Any], options: argparse.Namespace
) -> list[LayerDifference]:
    """:func:`layer_differences` of the network with unsigned activations, which holds the same integers plus 128.

    ONNX Runtime runs convolutions of unsigned activations on exact integer sums; those of signed ones in float32
    (docs/numbers.md), where it is no oracle for single accumulators.
    """
    if x.dtype == np.uint8:
        return layer_differences(path, model, x)
    unsigned = build(path.with_name(f"{path.stem}.uint8.onnx"), options.size, options.seed, "uint8")
    try:
        return layer_differences(unsigned, import_model(unsigned), (x.astype(np.int16) + 128).astype(np.uint8))
    finally:
        unsigned.unlink()


def check(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Compile, run on the simulator, compare with the integer reference and with ONNX Runtime."""
    x = images(options.images, options.size, options.seed, options.activations)
    with ProgressReporter() as progress:
        model = import_model(path)
        assert not model.host_ops
        executable = tw.compile(path, config=options.config, progress=progress.update)
        y, report = executable.run(x)
        progress.update("integer reference", 0, 0)
        given, name = model.inputs[0].name, model.outputs[0].name
        integers = [evaluate(model.graph, {given: image[None]})[name] for image in x]
        progress.update("ONNX Runtime", 0, 0)
        expected = reference_outputs(path, [x])[0]
        layers = unsigned_differences(path, model, x[:1], options)
    y = y.reshape(expected.shape)
    reference = np.stack(integers).reshape(expected.shape)
    row = report.to_dict()
    return {
        "config": row["config"], "cycles": row["cycles"], "floor_cycles": row["floor_cycles"],
        "compile_s": row["compile_s"], "simulate_s": row["simulate_s"], "images": len(x),
        "integers": compare([y], [reference], [1.0]), "logits": compare([y], [expected], [1.0]),
        "same_class": int((y.argmax(1) == expected.argmax(1)).sum()), "layers": layers,
    }  # fmt: skip


def report_check(found: dict[str, Any]) -> bool:
    """Print the comparison; returns whether simulator and promises hold."""
    ratio = found["cycles"] / found["floor_cycles"]
    print(f"{found['config']}: {found['cycles']:,} cycles, lower bound {found['floor_cycles']:,}, ratio {ratio:.3f}")
    print(f"compiled in {found['compile_s']:.1f} s, simulated in {found['simulate_s']:.2f} s")
    print(f"simulator against the integer reference: {found['integers']}")
    print(f"simulator against ONNX Runtime: {found['logits']}; {found['same_class']} of {found['images']} same class")
    print("each layer on ONNX Runtime's own inputs (unsigned activations):")
    print(f"  {'layer':<26}{'outputs':>10}{'differ':>8}{'LSB':>5}{'channels proven':>17}{'promise':>9}")
    for layer in found["layers"]:
        p, kept = layer.promise, "kept" if layer.kept else "BROKEN"
        print(
            f"  {p.name:<26}{layer.outputs:>10,}{layer.different:>8,}{layer.largest:>5}{p.exact:>8} of {p.channels:<5}"
            f"{kept:>9}"
        )
    return found["integers"].exact and all(layer.kept for layer in found["layers"])


def main() -> int:
    """Write the file and, with ``--check``, compare; exit code 1 if simulator or a promise is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--activations", choices=("int8", "uint8"), default="int8")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--images", type=int, default=1)
    parser.add_argument("--config", default="pynq-z2")
    options = parser.parse_args()
    try:
        build(options.out, options.size, options.seed, options.activations)
        print(f"{options.out}: {options.out.stat().st_size:,} bytes")
        return int(options.check and not report_check(check(options.out, options)))
    except (TilewrightError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
