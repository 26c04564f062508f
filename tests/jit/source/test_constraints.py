"""What the page of operators says that rules reject is what they raise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.jit.source import constraints as module
from tilewright.jit.source.constraints import constraints
from tilewright.jit.source.operators import ONNX, TFLITE
from tilewright.jit.source.tflite import rules


def rejected(name: str) -> tuple[str, ...]:
    row = TFLITE[name]
    return constraints(row.find(row.rule))


def test_a_rule_s_own_messages_and_those_of_what_it_calls_are_found() -> None:
    own = rejected("FULLY_CONNECTED")
    assert "no operand POSITION" in own  # of the operator's context
    assert any("weight scales" in message for message in own)  # of what reads weights
    assert "a pack of tensors with scales of their own" in rejected("PACK")  # of a rule made by a function
    assert "a pack of tensors with scales of their own" not in own


def test_every_message_is_one_in_the_source() -> None:
    sources = "".join(path.read_text() for path in Path(rules.__file__).parents[2].rglob("*.py"))
    for row in (*TFLITE.values(), *ONNX.values()):
        for rule in filter(None, (row.rule if row.format == "tflite" else "", row.int8, row.real, row.sums)):
            if row.format == "tflite" and rule != row.rule:
                continue
            for message in constraints(row.find(rule)):
                words = [word for word in message.split() if word.islower() and word.isalpha()]
                assert any(word in sources for word in words), message


def test_values_of_a_message_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PARTS", (f"{__name__}.",))

    def rule(shape: tuple[int, ...]) -> None:
        if shape:
            raise Unsupported(f"a tensor of shape {shape} and {len(shape)} axes")

    assert constraints(rule) == ("a tensor of shape SHAPE and ... axes",)


class Unsupported(Exception):
    """As that of the front ends."""
