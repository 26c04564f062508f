"""The table of operators: its names stand once, and what its rows name is there."""

from __future__ import annotations

import inspect
from collections import Counter

import pytest

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
    row = OperatorRow(tflite="A(x w*2)", onnx="B C(w x)", family="sum/product", elementwise=1, batch="first/-")
    (a,), (b, c) = row.named("tflite"), row.named("onnx")
    assert (a.name, a.operands, a.family, a.batch, a.layout) == ("A", ("x", "w", "w"), "sum", "first", "alike")
    assert (b.name, b.operands, b.family, b.batch) == ("B", ("x",), "product", "")
    assert (c.name, c.operands, c.at("x"), c.at("b")) == ("C", ("w", "x"), 1, None)
