"""Sparse constants in quantised networks: those that kernels know, and those that they take to be stored whole."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.fuzz import TfliteNet
from tests.jit.source.test_tflite_source import assert_equal
from tilewright.jit.errors import ModelError
from tilewright.runtime.litert.schema import read_model, schema, written

pytest.importorskip("ai_edge_litert")


def convolution(path: Path) -> tuple[Any, int]:
    """A model of one convolution, and which tensor its weights (8, 3, 3, 4) are."""
    net = TfliteNet(seed=1)
    net.save(path, [net.conv(net.input((1, 6, 6, 4)), 8, kernel=3)])
    model = read_model(path.read_bytes())
    return model, int(model.subgraphs[0].operators[0].inputs[1])


def level(size: int) -> Any:
    made = schema().DimensionMetadataT()
    made.denseSize = size
    return made


def make_sparse(model: Any, index: int, stored: int) -> None:
    """Of each row the first ``stored`` numbers are kept, or, where that is all, as a level without indices."""
    s, tensor = schema(), model.subgraphs[0].tensors[index]
    rows = np.asarray(model.buffers[tensor.buffer].data, np.uint8).reshape(-1, tensor.shape[-1])
    tensor.sparsity = s.SparsityParametersT()
    tensor.sparsity.traversalOrder = list(range(4))
    tensor.sparsity.dimMetadata = [level(int(size)) for size in tensor.shape]
    if stored < rows.shape[1]:
        last = tensor.sparsity.dimMetadata[-1]
        last.format = 1
        for name, values in (
            ("Segments", np.arange(len(rows) + 1) * stored), ("Indices", np.tile(np.arange(stored), len(rows))),
        ):  # fmt: skip
            vector = s.Int32VectorT()
            vector.values = values.astype(np.int32)
            setattr(last, f"array{name}Type", s.SparseIndexVector.Int32Vector)
            setattr(last, f"array{name}", vector)
    model.buffers[tensor.buffer].data = rows[:, :stored].reshape(-1)


def test_sparse_weights_that_are_stored_whole_are_the_interpreters(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    model, weights = convolution(path)
    make_sparse(model, weights, 4)
    path.write_bytes(written(model))
    (operator,) = assert_equal(path).options["operators"]
    assert operator["place"] == "interpreter"


def test_a_sparse_constant_that_the_network_gives_is_refused(tmp_path: Path) -> None:
    """LiteRT hands out what is stored as if it was all."""
    path = tmp_path / "m.tflite"
    model, weights = convolution(path)
    make_sparse(model, weights, 4)
    main = model.subgraphs[0]
    main.outputs = [*main.outputs, weights]
    path.write_bytes(written(model))
    with pytest.raises(ModelError, match=r"output 'w\d+' is a constant \(sparse\); remove it from the model's outputs"):
        tw.compile(path, config="tiny", cache=False)


def test_sparse_weights_that_the_file_makes_dense_are_the_accelerators(tmp_path: Path) -> None:
    path, s = tmp_path / "m.tflite", schema()
    model, weights = convolution(path)
    make_sparse(model, weights, 2)
    main = model.subgraphs[0]
    dense = copy.copy(main.tensors[weights])
    dense.sparsity, dense.buffer = None, 0
    main.tensors.append(dense)
    code, op = s.OperatorCodeT(), s.OperatorT()
    code.builtinCode = code.deprecatedBuiltinCode = s.BuiltinOperator.DENSIFY
    code.version, op.opcodeIndex = 1, len(model.operatorCodes)
    model.operatorCodes.append(code)
    op.inputs, op.outputs = [weights], [len(main.tensors) - 1]
    main.operators[0].inputs = [op.outputs[0] if int(t) == weights else int(t) for t in main.operators[0].inputs]
    main.operators.insert(0, op)
    path.write_bytes(written(model))
    places = {o["op"]: o["place"] for o in assert_equal(path).options["operators"]}
    assert places == {"DENSIFY": "none", "CONV_2D": "accelerator"}


def test_a_sparse_operand_of_a_sum_is_the_interpreters(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    net = TfliteNet(seed=3)
    x = net.input((1, 2, 4, 8))
    given = net.constant_tensor((1, 2, 4, 8))
    net.save(path, [net.add(x, given)])
    model = read_model(path.read_bytes())
    make_sparse(model, int(given.key), 8)
    path.write_bytes(written(model))
    (operator,) = assert_equal(path).options["operators"]
    assert (operator["place"], operator["reason"]) == ("interpreter", "operand 1 is sparse")
