"""Subgraphs of a LiteRT model, what they run and hold, are looked at as operators are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.litert_models import Net, tensor
from tilewright.runtime import interpreters
from tilewright.runtime.litert.check import unsound
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


def _set(subgraph: int, position: int, kind: str) -> Any:
    def edit(model: Any, _: Any) -> None:
        model.subgraphs[subgraph].tensors[position].type = getattr(schema().TensorType, kind)

    return edit


def _call(index: int) -> Any:
    def edit(_: Any, op: Any) -> None:
        op.builtinOptions.elseSubgraphIndex = index

    return edit


def _no_options(_: Any, op: Any) -> None:
    op.builtinOptions, op.builtinOptionsType = None, 0


def _fake_quant(model: Any, _: Any) -> None:
    s = schema()
    model.operatorCodes[1].builtinCode = model.operatorCodes[1].deprecatedBuiltinCode = s.BuiltinOperator.FAKE_QUANT
    for t in (*model.subgraphs[0].tensors[1:], *(t for g in model.subgraphs[1:] for t in g.tensors)):
        t.type = s.TensorType.INT8


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (_set(2, 1, "INT8"), "output 0 is float32, and int8 in subgraph 2"),
        (_set(1, 0, "INT8"), "input 0 is float32, and int8 in subgraph 1"),
        (_call(0), "it runs subgraph 0 of 3"),
        (_call(7), "it runs subgraph 7 of 3"),
        (_no_options, "it runs subgraph 0 of 3"),
        (_fake_quant, "subgraph 1, operator 0 (FAKE_QUANT): input 0 (t1) is int8"),
    ],
)
def test_subgraphs_are_looked_at(edit: Any, said: str) -> None:
    assert said in unsound(_branches(edit))


def test_subgraphs_that_run_one_another_in_a_circle_are_refused() -> None:
    def edit(model: Any, op: Any) -> None:
        import copy

        inner = copy.deepcopy(op)
        inner.inputs, inner.outputs = [2, 0], [1]
        branch = model.subgraphs[1]
        branch.tensors.append(copy.deepcopy(model.subgraphs[0].tensors[0]))
        branch.operators = [inner]

    assert "run one another in a circle" in unsound(_branches(edit))


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


def test_loops_run_whose_condition_is_a_bool() -> None:
    net = Net(
        "WHILE", [tensor([1])], [tensor([1])], "WhileOptions", {"condSubgraphIndex": 1, "bodySubgraphIndex": 2},
        edit=_loop,
    )  # fmt: skip
    content = net.save(Path(_FOLDER) / "while.tflite")
    assert unsound(content) == ""
    assert interpreters.load("litert", content, "while")([np.ones(1, np.float32)])[0].tolist() == [16]
    swapped = net.change(condSubgraphIndex=2, bodySubgraphIndex=1).save(Path(_FOLDER) / "swapped.tflite")
    assert "output 0 is bool, and float32 in subgraph 2" in unsound(swapped)


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("subgraph", [0, 1])
def test_what_is_given_or_computed_holds_no_data(subgraph: int, position: int) -> None:
    """LiteRT maps constants from the file, and writes to where it maps them."""

    def edit(model: Any, _: Any) -> None:
        model.buffers.append(schema().BufferT())
        tensors = model.subgraphs[subgraph].tensors
        chosen = tensors[min(position, len(tensors) - 1)]
        model.buffers[-1].data = np.zeros(1 if chosen.type == schema().TensorType.BOOL else 8, np.uint8)
        chosen.buffer = len(model.buffers) - 1

    assert "it is given or computed, and holds data" in unsound(_branches(edit))
