"""Subgraphs of a LiteRT model run, and damaged ones are an error here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.litert_models import Net, tensor
from tilewright.runtime import interpreters
from tilewright.runtime.interpreters import InterpreterError
from tilewright.runtime.litert.schema import schema


def _branches(edit: Any = None) -> bytes:
    """IF with two branches that negate."""

    def add(model: Any, op: Any) -> None:
        import copy

        s = schema()
        branch = s.SubGraphT()
        x = copy.copy(model.subgraphs[0].tensors[1])
        y = copy.copy(x)
        negate = s.OperatorT()
        negate.inputs, negate.outputs, negate.opcodeIndex = [0], [1], 1
        code = s.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = s.BuiltinOperator.NEG
        code.version = 1
        model.operatorCodes.append(code)
        branch.tensors, branch.operators, branch.inputs, branch.outputs = [x, y], [negate], [0], [1]
        model.subgraphs += [branch, copy.deepcopy(branch)]
        if edit is not None:
            edit(model, op)

    net = Net(
        "IF", [tensor([1], "bool"), tensor([2])], [tensor([2])], "IfOptions",
        {"thenSubgraphIndex": 1, "elseSubgraphIndex": 2}, edit=add,
    )  # fmt: skip
    return net.save(Path(_FOLDER) / "if.tflite")


_FOLDER = ""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}._FOLDER", str(tmp_path))


def test_branches_run() -> None:
    run = interpreters.load("litert", _branches(), "if")
    assert run([np.array([True]), np.ones(2, np.float32)])[0].tolist() == [-1, -1]


def _call(index: int) -> Any:
    def edit(_: Any, op: Any) -> None:
        op.builtinOptions.elseSubgraphIndex = index

    return edit


def _no_options(_: Any, op: Any) -> None:
    op.builtinOptions, op.builtinOptionsType = None, 0


@pytest.mark.parametrize("edit", [_call(7), _no_options])
def test_a_subgraph_that_is_not_there_is_an_error(edit: Any) -> None:
    with pytest.raises(InterpreterError, match="if: ."):
        interpreters.load("litert", _branches(edit), "if")([np.array([False]), np.ones(2, np.float32)])


def test_subgraphs_that_run_one_another_in_a_circle_are_an_error() -> None:
    def edit(model: Any, op: Any) -> None:
        import copy

        inner = copy.deepcopy(op)
        inner.inputs, inner.outputs = [2, 0], [1]
        branch = model.subgraphs[1]
        branch.tensors.append(copy.deepcopy(model.subgraphs[0].tensors[0]))
        branch.operators = [inner]

    with pytest.raises(InterpreterError, match="if: ."):
        interpreters.load("litert", _branches(edit), "if")([np.array([True]), np.ones(2, np.float32)])


def _loop(model: Any, _: Any) -> None:
    """While x is less than 10, x becomes x + x."""
    import copy

    s = schema()
    x = copy.copy(model.subgraphs[0].tensors[0])
    limit, less = copy.copy(x), copy.copy(x)
    limit.buffer, less.type = len(model.buffers), s.TensorType.BOOL
    model.buffers.append(s.BufferT())
    model.buffers[-1].data = np.array([10], np.float32).view(np.uint8)
    for name, tensors, inputs in (("LESS", [x, limit, less], [0, 1]), ("ADD", [x, copy.copy(x)], [0, 0])):
        code, op, part = s.OperatorCodeT(), s.OperatorT(), s.SubGraphT()
        code.builtinCode = code.deprecatedBuiltinCode = getattr(s.BuiltinOperator, name)
        code.version, op.opcodeIndex = 1, len(model.operatorCodes)
        options = f"{name.capitalize()}Options"
        op.builtinOptions, op.builtinOptionsType = getattr(s, f"{options}T")(), getattr(s.BuiltinOptions, options)
        op.inputs, op.outputs = inputs, [len(tensors) - 1]
        part.tensors, part.operators, part.inputs, part.outputs = tensors, [op], [0], op.outputs
        model.operatorCodes.append(code)
        model.subgraphs.append(part)


def loop(folder: Path) -> bytes:
    """WHILE x is less than 10, x becomes x + x."""
    options = {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}
    return Net("WHILE", [tensor([1])], [tensor([1])], "WhileOptions", options, edit=_loop).save(folder / "while.tflite")


def test_loops_run(tmp_path: Path) -> None:
    assert interpreters.load("litert", loop(tmp_path), "while")([np.ones(1, np.float32)])[0].tolist() == [16]
