"""The last value that fits and the first that does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.jit.builder import GraphBuilder
from tests.jit.onnx_models import QdqBuilder
from tests.jit.tflite_models import TfliteBuilder
from tilewright.config import PRESETS, Config
from tilewright.jit import programs
from tilewright.jit.compiler import compile_graph
from tilewright.jit.emit.writer import pack_weights
from tilewright.jit.errors import ModelError, PlaceError, Unsupported
from tilewright.jit.importer import import_model
from tilewright.jit.layers.scaling import _within_int32
from tilewright.jit.lower.lowering import MOST_BYTES, refusals
from tilewright.runtime.step_base import MOST_ELEMENTS


@pytest.mark.parametrize("bits", [2, 4])
def test_weights_of_few_bits(bits: int) -> None:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    fits = np.array([low, high] * 4, np.int8)
    data = pack_weights(fits, bits, "conv")
    codes = [byte >> shift & (1 << bits) - 1 for byte in data for shift in range(0, 8, bits)]
    assert [code - (code > high) * (1 << bits) for code in codes] == fits.tolist()
    for wrong in (low - 1, high + 1):
        with pytest.raises(PlaceError, match=f"do not fit weight_bits = {bits}"):
            pack_weights(np.array([wrong] * 8, np.int8), bits, "conv")


def test_accumulators_of_int32() -> None:
    limits = np.iinfo(np.int32)
    _within_int32(np.array([limits.min]), np.array([limits.max]))
    for low, high in ((limits.min - 1, 0), (0, limits.max + 1)):
        with pytest.raises(Unsupported, match="can leave int32"):
            _within_int32(np.array([low]), np.array([high]))


@pytest.mark.parametrize("more", [0, 1])
def test_tensors_in_dram(more: int) -> None:
    """The lanes that the format pads are counted too: one channel takes a whole vector."""
    config = Config()
    build = GraphBuilder(0, (1, MOST_BYTES // config.lanes + more, 1))
    graph = build.graph(build.requantize("x"))
    found = refusals(graph, config)
    assert len(found) == more
    for refusal in found.values():
        assert f"takes {MOST_BYTES + config.lanes:,} bytes in DRAM; at most {MOST_BYTES:,}" in str(refusal)


@pytest.mark.parametrize("shape", [[1, 2147483647, 1, 5], [1, MOST_ELEMENTS // 2 + 1, 1, 2]])
def test_tensors_of_a_tflite_file(shape: list[int], tmp_path: Path) -> None:
    """Before anything uses the memory: the system would end the process instead of refusing it."""
    builder = TfliteBuilder()
    x = builder.tensor(shape, 0.1, 3)
    y = builder.op("MEAN", [x, builder.constant(np.array([1, 2], np.int32))], builder.tensor([1, 5], 0.1, 3))
    with pytest.raises(ModelError, match=f"elements; at most {MOST_ELEMENTS:,} are read"):
        import_model(builder.save(tmp_path / "model.tflite", [x], [y]))


def test_inputs_of_an_onnx_file(tmp_path: Path) -> None:
    """Before they are filled with zeros to ask what the network makes of them."""
    builder = QdqBuilder()
    y = builder.quantised(builder.node("Relu", [builder.input([2147483647, 64, 3, 11])]), 0.02, 3)
    path = builder.save(tmp_path / "model.onnx", y, [2147483647, 64, 3, 11], "int8")
    with pytest.raises(ModelError, match=f"of shape 2147483647x64x3x11 has .* at most {MOST_ELEMENTS:,} are read"):
        import_model(path)


def test_tensors_that_an_onnx_file_implies(tmp_path: Path) -> None:
    """What its operators compute counts as well as what it states."""
    builder = QdqBuilder()
    x = builder.input([1, 1, 64, 64])
    scales = builder.constant(np.array([1, 1, 512, 512], np.float32))
    y = builder.quantised(builder.node("Resize", [x, "", scales], mode="nearest"), 0.02, 3)
    path = builder.save(tmp_path / "model.onnx", y, [1, 1, 32768, 32768], "int8")
    with pytest.raises(ModelError, match=f"of shape 1x1x32768x32768 has .* at most {MOST_ELEMENTS:,} are read"):
        import_model(path)


@pytest.mark.parametrize("large", [False, True])
def test_a_long_batch_gets_one_schedule(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would take as long as the first, and no network of images has that many rows."""
    build = GraphBuilder(0, (64, 1, 8))
    graph = build.graph(build.conv("x", 8, (1, 1), padding=(0, 0, 0, 0)))
    monkeypatch.setattr(programs, "LARGE", 63 if large else 64)
    assert programs.is_large(graph) == large
    told: list[str] = []
    compile_graph(graph, PRESETS["tiny"], progress=lambda what, *_: told.append(what))
    tried = told.count("schedules")
    assert tried == 1 if large else tried > 1
