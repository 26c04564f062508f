"""Attention blocks as exporters write and ONNX Runtime's quantiser leaves them: all products on the accelerator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from bench.networks.transformer import block_model
from tests.jit.source.onnx_run import compared
from tilewright.checking import reference_outputs
from tilewright.jit.graph import Conv2D, Interpreted, MatMul
from tilewright.jit.source.onnx.quantised import exponentials
from tilewright.runtime import host


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_transformer_block_is_exact(tmp_path: Path, symmetric: bool) -> None:
    path = tmp_path / "block.onnx"
    block_model(path, tokens=12, width=32, heads=2, hidden=40, seed=3, symmetric=symmetric)
    _, built = compared(path)
    left = [op.source.split()[-1] for op in built.graph.ops if isinstance(op, Interpreted)]
    assert set(left) <= {"LayerNormalization", "Softmax"}
    assert sum(isinstance(op, MatMul) for op in built.graph.ops) == 2
    assert sum(isinstance(op, Conv2D) for op in built.graph.ops) == 6


def test_a_transformer_block_compiled(tmp_path: Path) -> None:
    path = tmp_path / "block.onnx"
    block_model(path, tokens=12, width=32, heads=2, hidden=40, seed=4)
    executable = tw.compile(path, "pynq-z2", cache=False)
    assert len(executable.artifact.programs) == 3
    x = np.random.default_rng(1).normal(size=(3, 12, 32)).astype(np.float32)
    y, _ = executable.run(x)
    assert isinstance(y, np.ndarray)
    assert np.array_equal(y, reference_outputs(path, [x[:, None]])[0].reshape(y.shape))


def test_softmax_by_table_against_the_definition() -> None:
    """Element after element, as ONNX Runtime's kernel is written."""
    rng, f = np.random.default_rng(2), np.float32
    table = exponentials(f(0.07), 9)
    x = rng.integers(-128, 128, (5, 9)).astype(np.int8)
    for row, got in zip(x.tolist(), host.softmax_by_table(x, table, 256.0, 3).tolist(), strict=True):
        places = [255 - max(row) + value for value in row]
        total = f(0)
        for place in places:
            total = f(total + table[place])
        wanted = [min(255, round(float(f(f(table[place] * f(256)) / total))) + 3) - 128 for place in places]
        assert got == wanted
