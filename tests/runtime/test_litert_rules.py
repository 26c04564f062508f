"""Rules of operators that no model of the tests has, on operands made by hand: what each takes to the last number."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright.runtime.litert import rules, scale_rules
from tilewright.runtime.litert.model import Operand, Operator, Shape


def operator(*shapes: Shape | None, **options: Any) -> Operator:
    """Inputs of these shapes; None for one that only LiteRT's preparation tells."""
    inputs = tuple(
        Operand(k, f"t{k}", "float32", shape, None, np.zeros(0, np.float32), 0, None, None, 0, b"")
        for k, shape in enumerate(shapes)
    )
    return Operator(0, "ANY", inputs, (), (), SimpleNamespace(**options), b"")


#: input 1 and 5: (units, 4); 2 and 6 recurrent; 9 beside the input (3, 2, 4); 10 and 11 its weights
RECURRENT: tuple[Shape, ...] = (
    (3, 2, 4), (5, 4), (5, 5), (5,), (2, 5), (6, 4), (6, 6), (6,), (2, 6), (3, 2, 7), (5, 7), (6, 7),
)  # fmt: skip


def test_recurrent_weights_are_square() -> None:
    assert rules.recurrent(operator(*RECURRENT)) == ""
    assert rules.recurrent(operator(*RECURRENT[:9])) == ""
    for k, units in ((2, 5), (6, 6)):
        for wrong in ((units, units - 1), (units - 1, units), (units,)):
            changed = (*RECURRENT[:k], wrong, *RECURRENT[k + 1 :])
            assert rules.recurrent(operator(*changed)).endswith(f"LiteRT's kernel reads {units} x {units} elements")
        assert rules.recurrent(operator(*RECURRENT[:k], None, *RECURRENT[k + 1 :])) == ""


@pytest.mark.parametrize(
    ("k", "wrong"),
    [
        (9, (3, 2)),
        (9, (3, 3, 7)),
        (9, (2, 2, 7)),
        (9, (3, 2, 8)),
        (10, (5, 6)),
        (10, (4, 7)),
        (11, (6, 8)),
        (11, (5, 7)),
    ],
)
def test_operands_beside_fit_the_cells(k: int, wrong: Shape) -> None:
    said = rules.recurrent(operator(*RECURRENT[:k], wrong, *RECURRENT[k + 1 :]))
    assert "does not fit the other inputs" in said


def test_each_box_has_an_anchor() -> None:
    assert rules.anchored(operator((1, 9, 4), (1, 9, 3), (9, 4))) == ""
    assert rules.anchored(operator(None, (1, 9, 3), (9, 4))) == ""
    assert rules.anchored(operator((1, 9, 4), (1, 9, 3), None)) == ""
    for boxes, anchors in (((1, 9, 4), (8, 4)), ((1, 9, 4), (9, 5)), ((9, 4), (4, 4)), ((9, 4), (9, 4))):
        assert "four numbers for each box" in rules.anchored(operator(boxes, (1, 9, 3), anchors))


GATHER = {
    "indexVectorDim": 1, "sliceSizes": [1, 3], "offsetDims": [1], "collapsedSliceDims": [0], "startIndexMap": [0],
}  # fmt: skip
SCATTER = {
    "updateWindowDims": [1], "insertedWindowDims": [0], "scatterDimsToOperandDims": [0], "indexVectorDim": 1,
}  # fmt: skip


def test_axes_of_a_gather_are_there_and_named_once() -> None:
    shapes = ((5, 3), (4, 1))
    assert rules.gathers(operator(*shapes, **GATHER)) == ""
    assert rules.gathers(operator(None, (4, 1), **GATHER)) == ""
    for name, wrong in (
        ("collapsedSliceDims", [2]), ("collapsedSliceDims", [-1]), ("collapsedSliceDims", []), ("startIndexMap", [2]),
        ("startIndexMap", [0, 0]), ("startIndexMap", [0, 1]), ("offsetDims", [2]), ("offsetDims", [1, 1]),
        ("indexVectorDim", 3), ("indexVectorDim", -1), ("sliceSizes", [1]), ("sliceSizes", [6, 3]),
        ("sliceSizes", [1, -1]),
    ):  # fmt: skip
        said = rules.gathers(operator(*shapes, **{**GATHER, name: wrong}))
        assert "which LiteRT does not check" in said, (name, wrong)


def test_axes_of_a_scatter_are_there_and_its_updates_as_many_as_its_indices() -> None:
    shapes = ((5, 3), (4, 1), (4, 3))
    assert rules.scatters(operator(*shapes, **SCATTER)) == ""
    assert rules.scatters(operator((5, 3), (4, 1), None, **SCATTER)) == ""
    assert rules.scatters(operator((5, 3), (4,), (4, 3), **SCATTER)) == "", "a last axis of one is left out"
    for name, wrong in (
        ("updateWindowDims", [2]), ("updateWindowDims", [1, 1]), ("updateWindowDims", []), ("insertedWindowDims", [2]),
        ("insertedWindowDims", [0, 0]), ("scatterDimsToOperandDims", [2]), ("scatterDimsToOperandDims", [0, 1]),
        ("scatterDimsToOperandDims", []), ("indexVectorDim", 3), ("indexVectorDim", -1), ("indexVectorDim", 0),
    ):  # fmt: skip
        said = rules.scatters(operator(*shapes, **{**SCATTER, name: wrong}))
        assert "which LiteRT does not check" in said, (name, wrong)
    for updates in ((3, 3), (5, 3), (4, 1, 3)):
        assert rules.scatters(operator((5, 3), (4, 1), updates, **SCATTER))


def test_a_diagonal_is_as_long_as_the_shorter_side() -> None:
    for given, fits in (((2, 3), True), ((6,), True), ((2, 2), False), ((5,), False)):
        said = rules.diagonal(operator((2, 3, 4), given))
        assert (said == "") is fits
        assert fits or "LiteRT's kernel reads 6 elements" in said
    assert rules.diagonal(operator((3,), (1,))) == rules.diagonal(operator(None, (1,))) == ""


def test_weights_that_only_litert_knows_leave_the_others_to_be_looked_at() -> None:
    """The recurrent weights of the second cell are computed; its weights beside are not those of five units."""
    shapes: list[Shape | None] = list(RECURRENT)
    shapes[6], shapes[11] = None, (5, 7)
    assert "does not fit the other inputs" in rules.recurrent(operator(*shapes))


@pytest.mark.parametrize(
    ("dtype", "given", "sound"),
    [("int8", (0, 1, 2), True), ("int8", (1, -1, 2), False), ("int8", (), False), ("float32", (), True),
     ("float32", (-1,), True)],
)  # fmt: skip
def test_an_integer_lstm_has_all_intermediates(dtype: str, given: tuple[int, ...], sound: bool) -> None:
    op = operator((1, 2))
    (x,) = op.inputs
    assert x is not None
    op = replace(op, inputs=(replace(x, type=dtype),), intermediates=given)
    assert (rules.intermediates(op) == "") is sound


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("kind", "beta", "sound"), [("SOFTMAX", 0.5, 2.1), ("SOFTMAX", 1.0, 1.1), ("LOG_SOFTMAX", 0.0, 1.1)]
)
def test_scales_of_exponents_are_more_than_the_least_of_fixed_point(
    kind: str, beta: float, sound: float, dtype: str
) -> None:
    """Times the option beta, which LOG_SOFTMAX has not."""
    (x,) = operator((1, 2)).inputs
    assert x is not None
    for scale, taken in ((sound * 2.0**-26, True), (sound * 2.0**-26 * 0.8, False)):
        small = replace(x, type=dtype, scales=np.array([scale], np.float32))
        op = replace(operator((1, 2), beta=beta), kind=kind, inputs=(small,))
        assert (scale_rules.exponents(op) == "") is taken
    assert scale_rules.exponents(replace(operator((1, 2), beta=beta), kind=kind)) == "", "float32 has no such limit"
