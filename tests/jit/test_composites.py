"""STABLEHLO_COMPOSITE: layers that a file keeps as subgraphs run where their operators do."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers  # type: ignore[import-untyped]

import tilewright as tw
from tests.fuzz.flatbuffer import StoredOperator, StoredTensor, write_tflite
from tests.quantize.test_quantize import LITERT
from tilewright.checking import reference_outputs
from tilewright.jit.importer import import_model
from tilewright.quantize import quantize_file
from tilewright.runtime.litert.schema import read_model, schema, written

SHAPE = (1, 6, 6, 4)


def network(path: Path, *, real: bool = False, composites: int = 1) -> Path:
    """The sum of x and the RELU of x; each of ``composites`` puts what there is into a subgraph of its own."""
    numbers = () if real else (np.array([0.05], np.float32), np.array([-3], np.int64))
    kind = "float32" if real else "int8"
    tensors = [StoredTensor(name, SHAPE, kind, *numbers) for name in ("x", "r", "y")]
    operators = [StoredOperator("RELU", [0], [1]), StoredOperator("ADD", [0, 1], [2], "AddOptions")]
    write_tflite(path, tensors, operators, [0], [2])
    for _ in range(composites):
        path.write_bytes(hidden(path.read_bytes()))
    return path


def hidden(content: bytes) -> bytes:
    """The main subgraph as the one that a composite in its place names."""
    s, model = schema(), read_model(content)
    inner = model.subgraphs[0]
    main, code, op = s.SubGraphT(), s.OperatorCodeT(), s.OperatorT()
    main.name = b"main"
    main.tensors = [copy.copy(inner.tensors[int(i)]) for i in (*inner.inputs, *inner.outputs)]
    main.inputs, main.outputs = [0], [1]
    code.deprecatedBuiltinCode, code.builtinCode, code.version = 127, s.BuiltinOperator.STABLEHLO_COMPOSITE, 1
    model.operatorCodes.append(code)
    op.opcodeIndex, op.inputs, op.outputs = len(model.operatorCodes) - 1, [0], [1]
    op.builtinOptions2Type = s.BuiltinOptions2.StableHLOCompositeOptions
    op.builtinOptions2 = s.StableHLOCompositeOptionsT()
    op.builtinOptions2.name, op.builtinOptions2.decompositionSubgraphIndex = b"some.layer", len(model.subgraphs)
    op.builtinOptions2.compositeAttributes = np.frombuffer(flexbuffers.Dumps({}), np.uint8)
    main.operators = [op]
    model.subgraphs = [main, *model.subgraphs[1:], inner]
    return written(model)


def changed(path: Path, change: Any) -> Path:
    model = read_model(path.read_bytes())
    change(model)
    path.write_bytes(written(model))
    return path


def assert_equal(path: Path) -> tw.Report:
    x = np.random.default_rng(0).integers(-128, 128, (3, *SHAPE[1:])).astype(np.int8)
    y, report = tw.compile(path, "tiny", cache=False).run(x)
    np.testing.assert_array_equal(y, reference_outputs(path, [x])[0])
    return report


@pytest.mark.parametrize("composites", [1, 2])
def test_the_operators_of_composites_run_on_the_accelerator(composites: int, tmp_path: Path) -> None:
    path = network(tmp_path / "net.tflite", composites=composites)
    assert [op.kind for op in import_model(path).source.operators] == ["RELU", "ADD"]
    report = assert_equal(path)
    assert {op["place"] for op in report.to_dict()["operators"]} == {"accelerator"}


def test_one_that_hands_bytes_over_with_another_scale_stays_with_the_interpreter(tmp_path: Path) -> None:
    def another_scale(model: Any) -> None:
        model.subgraphs[0].tensors[0].quantization = copy.copy(model.subgraphs[0].tensors[0].quantization)
        model.subgraphs[0].tensors[0].quantization.scale = [0.07]

    path = changed(network(tmp_path / "net.tflite"), another_scale)
    assert [op.kind for op in import_model(path).source.operators] == ["STABLEHLO_COMPOSITE"]
    assert_equal(path)


@LITERT
def test_float_ones_are_quantised(tmp_path: Path) -> None:
    path = network(tmp_path / "float.tflite", real=True)
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(size=(4, *SHAPE[1:])).astype(np.float32))
    result = quantize_file(path, tmp_path / "x.npy")
    (tmp_path / "int8.tflite").write_bytes(result.content)
    assert {layer.kind for layer in result.layers} == {"RELU", "ADD"}
    report = assert_equal(tmp_path / "int8.tflite")
    assert "interpreter" not in {op["place"] for op in report.to_dict()["operators"]}


@LITERT
def test_other_signatures_are_left_out_before_it_is_quantised(tmp_path: Path) -> None:
    """Nobody runs them while the ranges are found."""
    path = network(tmp_path / "float.tflite", real=True, composites=0)
    changed(path, lambda model: model.subgraphs.append(copy.deepcopy(model.subgraphs[0])))
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(size=(4, *SHAPE[1:])).astype(np.float32))
    (tmp_path / "int8.tflite").write_bytes(quantize_file(path, tmp_path / "x.npy").content)
    assert_equal(tmp_path / "int8.tflite")
