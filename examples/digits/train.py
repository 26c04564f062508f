"""Train, quantise and write the demonstration network: digits.onnx and digits_test.npz.

    python examples/digits/train.py [--directory DIR] [--epochs N]

A residual CNN of 6.5 k parameters on scikit-learn's bundled 8x8 digits, trained in plain NumPy (half a
minute on one core) and quantised after training to a QDQ model as ``tilewright quantize`` makes them:
uint8 activations, which ONNX Runtime has integer kernels for on any CPU, int8 weights per channel, int32
biases, each ReLU folded into the clamp of the QuantizeLinear that follows it; and scales for which layers
are proven exact. Input and output of the model are uint8, so that results can be compared bit for bit.

Training runs in float64 with fixed seeds: the arithmetic library's order of summation then stays below
what survives rounding to int8, and the files come out the same again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tilewright.files import write_atomic

Array = NDArray[np.float64]

SEED = 7
TEST_IMAGES = 360
PIXEL_MAX = 16  #: the dataset's pixels are 0..16
INPUT_SCALE = np.float32(1 / 255)  #: x_uint8 = round(255 * pixel / 16)
INPUT_ZERO_POINT = 0


# --- the float network: NHWC, weights (KH, KW, IC, OC), depthwise (KH, KW, C) -----------------------------


def patches(x: Array, kernel: int, stride: int, padding: int) -> Array:
    """The receptive field of every output position: (N, OH, OW, KH, KW, C)."""
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    windows = sliding_window_view(padded, (kernel, kernel), axis=(1, 2))[:, ::stride, ::stride]
    return np.ascontiguousarray(windows.transpose(0, 1, 2, 4, 5, 3))


def scatter_patches(gradient: Array, shape: tuple[int, ...], stride: int, padding: int) -> Array:
    """The transpose of :func:`patches`: adds each patch's gradient back onto the input of ``shape``."""
    n, h, w, c = shape
    out_h, out_w, kernel = gradient.shape[1], gradient.shape[2], gradient.shape[3]
    padded = np.zeros((n, h + 2 * padding, w + 2 * padding, c))
    for row in range(kernel):
        for column in range(kernel):
            padded[:, row : row + stride * out_h : stride, column : column + stride * out_w : stride] += gradient[
                :, :, :, row, column
            ]
    return padded[:, padding : padding + h, padding : padding + w]


class Convolution:
    """A square convolution, dense or depthwise, with bias; keeps what its backward pass needs."""

    def __init__(
        self, rng: np.random.Generator, kernel: int, inputs: int, outputs: int, stride: int = 1, depthwise: bool = False
    ):
        self.kernel, self.stride, self.padding, self.depthwise = kernel, stride, kernel // 2, depthwise
        shape = (kernel, kernel, inputs) if depthwise else (kernel, kernel, inputs, outputs)
        fan_in = kernel * kernel * (1 if depthwise else inputs)
        self.weight = rng.normal(0, np.sqrt(2 / fan_in), shape)
        self.bias = np.zeros(outputs)
        self.equation = "nhwklc,klc->nhwc" if depthwise else "nhwklc,klco->nhwo"

    def forward(self, x: Array) -> Array:
        """(N, H, W, C) -> (N, OH, OW, outputs)."""
        self.input_shape = x.shape
        self.columns = patches(x, self.kernel, self.stride, self.padding)
        return np.einsum(self.equation, self.columns, self.weight, optimize=True) + self.bias

    def backward(self, gradient: Array) -> tuple[Array, list[Array]]:
        """The gradients of the input, and of weight and bias."""
        read, weight, written = self.equation.replace("->", ",").split(",")
        d_weight = np.einsum(f"{read},{written}->{weight}", self.columns, gradient, optimize=True)
        d_columns = np.einsum(f"{written},{weight}->{read}", gradient, self.weight, optimize=True)
        d_input = scatter_patches(d_columns, self.input_shape, self.stride, self.padding)
        return d_input, [d_weight, gradient.sum((0, 1, 2))]


class Network:
    """conv 3x3 -> conv 3x3 / 2 -> residual (depthwise 3x3, 1x1) -> global average pool -> dense."""

    def __init__(self, rng: np.random.Generator):
        self.conv1 = Convolution(rng, 3, 1, 16)
        self.conv2 = Convolution(rng, 3, 16, 32, stride=2)
        self.depthwise = Convolution(rng, 3, 32, 32, depthwise=True)
        self.pointwise = Convolution(rng, 1, 32, 32)
        self.dense = Convolution(rng, 1, 32, 10)
        self.layers = [self.conv1, self.conv2, self.depthwise, self.pointwise, self.dense]

    def forward(self, x: Array) -> dict[str, Array]:
        """Every activation by name, ``logits`` (N, 10) last."""
        a: dict[str, Array] = {"conv1": np.maximum(self.conv1.forward(x), 0)}
        a["conv2"] = np.maximum(self.conv2.forward(a["conv1"]), 0)
        a["depthwise"] = np.maximum(self.depthwise.forward(a["conv2"]), 0)
        a["pointwise"] = self.pointwise.forward(a["depthwise"])
        a["residual"] = np.maximum(a["conv2"] + a["pointwise"], 0)
        a["pool"] = a["residual"].mean((1, 2), keepdims=True)
        a["logits"] = self.dense.forward(a["pool"])[:, 0, 0]
        return a

    def backward(self, a: dict[str, Array], d_logits: Array) -> list[Array]:
        """The gradient of every parameter, in the order of :meth:`parameters`."""
        d, g_dense = self.dense.backward(d_logits[:, None, None])
        d = np.broadcast_to(d / a["residual"][0, :, :, 0].size, a["residual"].shape) * (a["residual"] > 0)
        d_branch, g_pointwise = self.pointwise.backward(d)
        d_branch, g_depthwise = self.depthwise.backward(d_branch * (a["depthwise"] > 0))
        d, g_conv2 = self.conv2.backward((d + d_branch) * (a["conv2"] > 0))
        _, g_conv1 = self.conv1.backward(d * (a["conv1"] > 0))
        return g_conv1 + g_conv2 + g_depthwise + g_pointwise + g_dense

    def parameters(self) -> list[Array]:
        """Weight and bias of each layer; the arrays are updated in place."""
        return [array for layer in self.layers for array in (layer.weight, layer.bias)]


# --- training ---------------------------------------------------------------------------------------------


def load_images() -> tuple[Array, NDArray[np.int64], Array, NDArray[np.int64]]:
    """Training and held-out images (N, 8, 8, 1) in [0, 1] with labels; a fixed stratified split."""
    digits = load_digits()
    images = digits.images[..., None] / PIXEL_MAX
    x, x_test, y, y_test = train_test_split(
        images, digits.target, test_size=TEST_IMAGES, random_state=SEED, stratify=digits.target
    )
    return x, y, x_test, y_test


def shifted(rng: np.random.Generator, images: Array) -> Array:
    """Each image moved by at most one pixel either way: the augmentation."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    rows, columns = rng.integers(0, 3, (2, len(images)))
    return np.stack([p[r : r + 8, c : c + 8] for p, r, c in zip(padded, rows, columns, strict=True)])


def train(epochs: int, batch: int = 64, peak_rate: float = 1.5e-2) -> Network:
    """Adam with a rate that rises for a tenth of the steps and falls to zero along a cosine."""
    x, y, _, _ = load_images()
    rng = np.random.default_rng(SEED)
    network = Network(rng)
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in network.parameters()]
    steps_per_epoch = len(x) // batch
    step, last_step = 0, epochs * steps_per_epoch
    for _ in track(range(epochs), description="training"):
        order = rng.permutation(len(x))
        for start in range(0, steps_per_epoch * batch, batch):
            chosen = order[start : start + batch]
            activations = network.forward(shifted(rng, x[chosen]))
            logits = activations["logits"]
            probability = np.exp(logits - logits.max(1, keepdims=True))
            probability /= probability.sum(1, keepdims=True)
            probability[np.arange(batch), y[chosen]] -= 1
            gradients = network.backward(activations, probability / batch)
            step += 1
            rate = peak_rate * min(step / (0.1 * last_step), 0.5 + 0.5 * np.cos(np.pi * step / last_step))
            for parameter, gradient, (first, second) in zip(network.parameters(), gradients, moments, strict=True):
                first += 0.1 * (gradient - first)
                second += 0.001 * (gradient**2 - second)
                unbiased = (first / (1 - 0.9**step), second / (1 - 0.999**step))
                parameter -= rate * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
    return network


# --- quantisation to QDQ ONNX: NCHW, weights (OC, IC, KH, KW) ---------------------------------------------


def activation_scale(values: Array) -> tuple[np.float32, int]:
    """Scale and uint8 zero point that cover the range of ``values`` and 0."""
    low, high = min(values.min(), 0.0), max(values.max(), 0.0)
    scale = np.float32((high - low) / 255)
    return scale, round(-low / float(scale))


class QdqGraph:
    """Collects nodes and constants of a QDQ model; tensors are named after the activation they hold."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.scales: dict[str, np.float32] = {}

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """An initializer; returns its name."""
        self.constants.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def node(self, kind: str, name: str, inputs: list[str], **attributes: Any) -> str:
        """A node with one output of the same name; returns it."""
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def quantize(self, value: str, name: str, scale: np.float32, zero_point: int) -> str:
        """QuantizeLinear of a float tensor to the uint8 tensor ``name``."""
        constants = self.scale_constants(name, scale, zero_point)
        return self.node("QuantizeLinear", name, [value, *constants])

    def scale_constants(self, name: str, scale: np.float32, zero_point: int) -> list[str]:
        """The scale and zero point of the uint8 tensor ``name``."""
        self.scales[name] = scale
        return [
            self.constant(f"{name}_scale", np.array(scale, np.float32)),
            self.constant(f"{name}_zero_point", np.array(zero_point, np.uint8)),
        ]

    def dequantize(self, name: str, consumer: str, source: str | None = None) -> str:
        """DequantizeLinear of the uint8 tensor ``name`` (or of ``source``, which shares its scale)."""
        inputs = [source or name, f"{name}_scale", f"{name}_zero_point"]
        return self.node("DequantizeLinear", f"{consumer}_of_{name}", inputs)

    def parameters(self, name: str, layer: Convolution, weight: Array, input_scale: np.float32) -> list[str]:
        """Dequantised int8 weights (output channel first) and int32 bias of one layer."""
        scale = (np.abs(weight).reshape(len(weight), -1).max(1) / 127).astype(np.float32)
        stretch = scale.reshape(-1, *[1] * (weight.ndim - 1)).astype(np.float64)
        integers = np.clip(np.round(weight / stretch), -127, 127).astype(np.int8)
        bias_scale = input_scale * scale
        bias = np.round(layer.bias / bias_scale.astype(np.float64)).astype(np.int32)
        pairs = []
        for kind, values, value_scale in (("weight", integers, scale), ("bias", bias, bias_scale)):
            full = f"{name}_{kind}"
            inputs = [
                self.constant(f"{full}_quantized", values),
                self.constant(f"{full}_scale", value_scale),
                self.constant(f"{full}_zero_point", np.zeros(len(value_scale), values.dtype)),
            ]
            pairs.append(self.node("DequantizeLinear", full, inputs, axis=0))
        return pairs

    def convolution(self, name: str, source: str, layer: Convolution) -> str:
        """A convolution of the uint8 tensor ``source``; returns the float result."""
        weight = layer.weight[:, :, None, :] if layer.depthwise else layer.weight
        parameters = self.parameters(name, layer, weight.transpose(3, 2, 0, 1), self.scales[source])
        return self.node(
            "Conv",
            f"{name}_float",
            [self.dequantize(source, name), *parameters],
            kernel_shape=[layer.kernel] * 2,
            strides=[layer.stride] * 2,
            pads=[layer.padding] * 4,
            group=len(layer.bias) if layer.depthwise else 1,
        )


def quantized_model(network: Network, calibration: Array) -> onnx.ModelProto:
    """The 8-bit model; activation ranges are those of the ``calibration`` images."""
    ranges = {name: activation_scale(values) for name, values in network.forward(calibration).items()}
    graph = QdqGraph()
    graph.scale_constants("image", INPUT_SCALE, INPUT_ZERO_POINT)
    source = "image"
    for name in ("conv1", "conv2", "depthwise", "pointwise"):
        source = graph.quantize(graph.convolution(name, source, getattr(network, name)), name, *ranges[name])
    operands = [graph.dequantize("conv2", "residual"), graph.dequantize("pointwise", "residual")]
    graph.quantize(graph.node("Add", "residual_float", operands), "residual", *ranges["residual"])
    pooled = graph.node("GlobalAveragePool", "pool_float", [graph.dequantize("residual", "pool")])
    graph.quantize(pooled, "pool", *ranges["pool"])
    graph.node("Flatten", "features", ["pool"])
    weight = network.dense.weight[0, 0].T
    parameters = graph.parameters("dense", network.dense, weight, graph.scales["pool"])
    features = graph.dequantize("pool", "dense", "features")
    graph.quantize(graph.node("Gemm", "dense_float", [features, *parameters], transB=1), "logits", *ranges["logits"])
    proto = helper.make_graph(
        graph.nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.UINT8, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.UINT8, [1, 10])],
        graph.constants,
    )
    model = helper.make_model(proto, producer_name="tilewright", opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.checker.check_model(model, full_check=True)
    return model


def quantized_images(images: Array) -> NDArray[np.uint8]:
    """(N, 8, 8, 1) in [0, 1] -> the model's uint8 input, (N, 1, 8, 8)."""
    return (np.round(images * 255) + INPUT_ZERO_POINT).astype(np.uint8).transpose(0, 3, 1, 2)


def main() -> None:
    """Write both files and say what came out."""
    parser = argparse.ArgumentParser(description="Train and quantise the digits network.")
    parser.add_argument("--directory", type=Path, default=Path(__file__).parent, help="where the files go")
    parser.add_argument("--epochs", type=int, default=60)
    arguments = parser.parse_args()
    network = train(arguments.epochs)
    x, _, x_test, y_test = load_images()
    float_accuracy = (network.forward(x_test)["logits"].argmax(1) == y_test).mean()
    model = arguments.directory / "digits.onnx"
    write_atomic(model, quantized_model(network, x).SerializeToString())
    images = arguments.directory / "digits_test.npz"
    np.savez_compressed(images, x=quantized_images(x_test), labels=y_test.astype(np.int8))
    print(f"{model}: {model.stat().st_size} bytes, float accuracy {float_accuracy:.2%}; {images}: {len(x_test)} images")


if __name__ == "__main__":
    main()
