"""Transformers as PyTorch exports them and ONNX Runtime's quantiser leaves them: int8 QDQ, scales per tensor.

A block is that of Vaswani et al., "Attention Is All You Need" (normalised behind the residual sums); the keyword
transformer is that of Berg et al., "Keyword Transformer", with the mean over all steps in place of a class token. The
scores' scale is a Mul, as exporters write it; scales of activations come from a few seeded inputs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FEATURES, CLASSES = 40, 12
_CALIBRATION = 4  #: inputs
_OPSET = 17


class Drawing:
    """An ONNX graph under construction, with seeded weights; methods return the name of their result."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.macs = 0

    def constant(self, values: NDArray[Any]) -> str:
        from onnx import numpy_helper

        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def normal(self, *shape: int, spread: float = 1.0, middle: float = 0.0) -> str:
        return self.constant(self.rng.normal(middle, spread, shape).astype(np.float32))

    def dense(self, x: str, tokens: int, before: int, after: int) -> str:
        self.macs += tokens * before * after
        product = self.node("MatMul", x, self.normal(before, after, spread=before**-0.5))
        return self.node("Add", product, self.normal(after, spread=0.1))

    def normalised(self, x: str, width: int) -> str:
        gain, bias = self.normal(width, spread=0.1, middle=1.0), self.normal(width, spread=0.1)
        return self.node("LayerNormalization", x, gain, bias, axis=-1)

    def attention(self, x: str, tokens: int, width: int, heads: int) -> str:
        depth = width // heads
        split = self.constant(np.array([1, tokens, heads, depth]))

        def part(perm: list[int]) -> str:
            return self.node("Transpose", self.node("Reshape", self.dense(x, tokens, width, width), split), perm=perm)

        q, k, v = part([0, 2, 1, 3]), part([0, 2, 3, 1]), part([0, 2, 1, 3])
        self.macs += 2 * tokens * tokens * width
        scores = self.node("Mul", self.node("MatMul", q, k), self.constant(np.array(depth**-0.5, np.float32)))
        values = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        merged = self.constant(np.array([1, tokens, width]))
        together = self.node("Reshape", self.node("Transpose", values, perm=[0, 2, 1, 3]), merged)
        return self.dense(together, tokens, width, width)

    def block(self, x: str, tokens: int, width: int, heads: int, hidden: int) -> str:
        x = self.normalised(self.node("Add", x, self.attention(x, tokens, width, heads)), width)
        inner = self.node("Relu", self.dense(x, tokens, width, hidden))
        return self.normalised(self.node("Add", x, self.dense(inner, tokens, hidden, width)), width)

    def save(self, path: Path, shape: tuple[int, ...], output: str, result: tuple[int, ...], symmetric: bool) -> None:
        """Quantise and write; the input is ``x``."""
        import onnx
        from onnx import TensorProto, helper
        from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, extent)
            for name, extent in (("x", shape), (output, result))
        ]
        graph = helper.make_graph(self.nodes, path.stem, ends[:1], ends[1:], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            onnx.save(model, Path(folder) / "float.onnx")
            quantize_static(
                str(Path(folder) / "float.onnx"), str(path), _Inputs(shape, self.rng), quant_format=QuantFormat.QDQ,
                activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
                extra_options={"ActivationSymmetric": symmetric},
            )  # fmt: skip


class _Inputs:
    """What the quantiser calibrates with."""

    def __init__(self, shape: tuple[int, ...], rng: np.random.Generator) -> None:
        self._left: Iterator[dict[str, NDArray[Any]]] = iter(
            [{"x": rng.normal(size=shape).astype(np.float32)} for _ in range(_CALIBRATION)]
        )

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        return next(self._left, None)


def block_model(
    path: Path, tokens: int, width: int, heads: int, hidden: int, blocks: int = 1, seed: int = 0,
    symmetric: bool = False,
) -> int:  # fmt: skip
    """Write ``blocks`` transformer blocks; the multiply-accumulates. ``symmetric``: activations' zero points are 0."""
    net, x = Drawing(seed), "x"
    for _ in range(blocks):
        x = net.block(x, tokens, width, heads, hidden)
    net.save(path, (1, tokens, width), x, (1, tokens, width), symmetric)
    return net.macs


def transformer_block(path: Path, size: int, narrow: int, seed: int) -> tuple[int, tuple[int, ...]]:
    """One block: 4 heads, 64 wide, 128 tokens (``size``); MACs and the shape of the input."""
    width = 64 // narrow
    return block_model(path, size, width, 4 // narrow, 2 * width, seed=seed), (1, size, width)


def keyword_transformer(path: Path, size: int, narrow: int, seed: int) -> tuple[int, tuple[int, ...]]:
    """KWT-1's proportions: spectrogram rows, places, blocks of one head of 64, classes. ``size``: rows."""
    net, width, blocks = Drawing(seed), 64 // narrow, 12 // narrow
    x = net.node("Add", net.dense("x", size, FEATURES, width), net.normal(1, size, width, spread=0.3))
    for _ in range(blocks):
        x = net.block(x, size, width, 1, 4 * width)
    x = net.dense(net.node("ReduceMean", x, axes=[1], keepdims=0), 1, width, CLASSES)
    net.save(path, (1, size, FEATURES), x, (1, CLASSES), symmetric=False)
    return net.macs, (1, size, FEATURES)
