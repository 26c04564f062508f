"""The table of operators: its names stand once, and what its rows name is there."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tilewright.jit.relax import operators as relax
from tilewright.jit.source import macs
from tilewright.jit.source.operator_row import OperatorRow
from tilewright.jit.source.operators import ONNX, OPERATORS, RELAX, TFLITE
from tilewright.runtime.litert.schema import schema

NAMED = [*TFLITE.values(), *ONNX.values()]


@pytest.mark.parametrize("format", ["tflite", "onnx"])
def test_each_name_stands_once(format: str) -> None:
    count = Counter(row.name for each in OPERATORS for row in each.named(format))
    assert [name for name, n in count.items() if n > 1] == []
    assert count.keys() == {"tflite": TFLITE, "onnx": ONNX}[format].keys()


def test_each_name_is_one_of_its_format() -> None:
    from onnx import defs
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    assert TFLITE.keys() <= vars(schema().BuiltinOperator).keys()
    known = {s.name for s in get_all_operator_schema()} | {s.name for s in defs.get_all_schemas_with_history()}
    assert ONNX.keys() - known == set()


def test_what_rows_name_is_there() -> None:
    for row in NAMED:
        for rule in (row.rule,) if row.format == "tflite" else (row.int8, row.real, row.sums):
            assert not rule or callable(row.find(rule)), row
        assert not row.batch or list(inspect.signature(row.find(f"batch:{row.batch}")).parameters)[1] in ("op", "node")
        assert not row.macs or list(inspect.signature(getattr(macs, row.macs)).parameters)[1] == "w", row
        assert row.layout in ("", "alike", "image", "matrix"), row
        assert row.masks in ("", "meets", "passes"), row


def test_rules_that_need_an_activation_have_one() -> None:
    for row in NAMED:
        if row.rule or row.macs or row.batch == "first" or row.by_image:
            assert "x" in row.operands, row
        if row.macs:
            assert "w" in row.operands, row


def test_every_operator_of_relax_that_is_written_stands_in_the_table_and_the_other_way_round() -> None:
    assert relax.ROWS.keys() == RELAX.keys()
    assert sum(len(row.relax.split()) for row in OPERATORS) == len(RELAX)


def test_texts_of_both_formats_are_taken_apart() -> None:
    row = OperatorRow(tflite="A(x w*2)", onnx="B C(w x)", family="sum/product", elementwise=1, batch="first/axis")
    (a,), (b, c) = row.named("tflite"), row.named("onnx")
    assert (a.name, a.operands, a.family, a.batch, a.layout) == ("A", ("x", "w", "w"), "sum", "first", "alike")
    assert (b.name, b.operands, b.family, b.batch) == ("B", ("x",), "product", "axis")
    assert (c.name, c.operands, c.at("x"), c.at("b")) == ("C", ("w", "x"), 1, None)


def named_together(path: Path) -> Iterator[list[str]]:
    """The names of operators in each list, set and dict of a module."""
    names = {*TFLITE, *ONNX, *RELAX, *(f"relax.{name}" for name in RELAX)}
    for node in ast.walk(ast.parse(path.read_text())):
        items: list[Any] = [*getattr(node, "keys", ()), *getattr(node, "elts", ())]
        yield [item.value for item in items if isinstance(item, ast.Constant) and item.value in names]


def test_no_other_module_has_a_table_by_names_of_operators() -> None:
    """What knows three operators and more by their names asks the table instead.

    But for names of another kind: of a PyTorch program's functions, and of a recurrent layer's, whose forms differ.
    """
    parts = [REPOSITORY / part for part in ("jit/source", "jit/relax", "tilewright/quantize")]
    found = {p.name for part in parts for p in part.rglob("*.py") if any(len(names) > 2 for names in named_together(p))}
    assert found == {"torch_names.py", "unrolled.py", "integer.py"}
