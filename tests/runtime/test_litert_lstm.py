"""Operands of LSTMs that LiteRT's kernel takes to be there, and refuses or reads at address 0 where they are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.fuzz import TfliteNet
from tilewright.runtime import interpreters
from tilewright.runtime.interpreters import InterpreterError, UnsafeModel
from tilewright.runtime.litert.check import unsound
from tilewright.runtime.litert.model import Operand, Operator
from tilewright.runtime.litert.rules import biased
from tilewright.runtime.litert.schema import read_model, written

pytest.importorskip("ai_edge_litert")


def without(path: Path, *places: int) -> bytes:
    """An int8 LSTM that has all that LiteRT needs but the inputs at ``places``."""
    net = TfliteNet(seed=5)
    net.save(path, [net.lstm(net.input((1, 4, 6), scale=1 / 64), 5)])
    model = read_model(path.read_bytes())
    op = model.subgraphs[0].operators[0]
    op.inputs = [-1 if k in places else int(t) for k, t in enumerate(op.inputs)]
    return written(model)


@pytest.mark.parametrize("kind", ["LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM"])
def test_an_input_gate_with_weights_has_a_bias(kind: str) -> None:
    gates = [(1, 12), (18, 29)] if kind.startswith("BI") else [(1, 12)]
    scales = np.zeros(0, np.float32)
    operands = [Operand(k, f"t{k}", "float32", (1,), None, scales, 0, None, None, 0, b"") for k in range(48)]
    for weights, bias in gates:
        for left_out, said in (((), ""), ((bias,), f"input {bias}, the bias"), ((weights, bias), "")):
            given = tuple(None if k in left_out else operand for k, operand in enumerate(operands))
            assert biased(Operator(0, kind, given, (), (), None, b"")).startswith(said), left_out
            assert bool(biased(Operator(0, kind, given, (), (), None, b""))) == bool(said)


def test_an_lstm_whose_bias_is_left_out_is_refused_before_litert_reads_it(tmp_path: Path) -> None:
    with pytest.raises(UnsafeModel, match=r"LSTM\): input 12, the bias of the input gate, is left out"):
        interpreters.load("litert", without(tmp_path / "m.tflite", 12), "m.tflite")


@pytest.mark.parametrize("place", [2, 6, 13, 14, 15, 18, 19])
def test_others_are_litert_s_own_to_refuse(place: int, tmp_path: Path) -> None:
    content = without(tmp_path / "m.tflite", place)
    with pytest.raises(InterpreterError):
        interpreters.load("litert", content, "m.tflite")
    assert "bias of the input gate" not in unsound(content)
