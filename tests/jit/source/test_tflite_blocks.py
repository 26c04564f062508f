"""Tensors with scales for blocks and one scale beside them, which LiteRT does not take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.fuzz import TfliteNet
from tests.fuzz.tensors import Tensor
from tests.jit.source.test_tflite_source import assert_equal
from tilewright.jit.errors import ModelError
from tilewright.jit.source.tflite.file import File
from tilewright.runtime.litert.schema import read_model, schema, written

pytest.importorskip("ai_edge_litert")

Layer = Callable[[TfliteNet, Tensor], Tensor]
LAYERS: dict[str, Layer] = {
    "MUL": lambda net, x: net.mul(x, x),
    "MEAN": lambda net, x: net.mean(x),
    "QUANTIZE": lambda net, x: net.requantize(x),
    "RELU": lambda net, x: net.relu(x),
    "BATCH_MATMUL": lambda net, x: net.batch_matmul(x, x),
    "DEQUANTIZE": lambda net, x: net.dequantize(x),
    "LOGISTIC": lambda net, x: net.logistic(x),
}


def with_blocks(path: Path, layer: Layer) -> Path:
    """A file with one operator, and scales for blocks of eight on its input beside the one that it has."""
    net = TfliteNet(seed=3)
    x = net.input((1, 4, 8, 8))
    net.save(path, [layer(net, x)])
    model, s = read_model(path.read_bytes()), schema()
    main = model.subgraphs[0]
    scales = s.TensorT()
    scales.name, scales.shape, scales.type, scales.buffer = b"scales", [32, 1], s.TensorType.FLOAT16, len(model.buffers)
    model.buffers.append(s.BufferT())
    model.buffers[-1].data = np.full(32, 0.02, np.float16).view(np.uint8)
    main.tensors.append(scales)
    stored = main.tensors[int(x.key)].quantization
    stored.details, stored.detailsType = s.BlockwiseQuantizationT(), s.QuantizationDetails.BlockwiseQuantization
    stored.details.scales = stored.details.zeroPoints = len(main.tensors) - 1
    stored.details.blockSize = 8
    path.write_bytes(written(model))
    return path


@pytest.mark.parametrize("kind", LAYERS)
def test_the_scale_beside_those_of_blocks_is_none(kind: str, tmp_path: Path) -> None:
    path = with_blocks(tmp_path / "m.tflite", LAYERS[kind])
    assert File(path).tensors[0].scales.size == 0
    (operator,) = assert_equal(path).options["operators"]
    assert (operator["op"], operator["place"]) == (kind, "interpreter")


def test_a_sum_of_no_scale_ends_litert_and_is_refused(tmp_path: Path) -> None:
    path = with_blocks(tmp_path / "m.tflite", lambda net, x: net.sub(x, x))
    with pytest.raises(ModelError, match=r"m\.tflite: LiteRT cannot run it: .* by SIGABRT"):
        tw.compile(path, config="tiny", cache=False)
