"""Options in the table of another kind of operator, which LiteRT does not read whatever their fields are called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.fuzz import TfliteNet
from tests.jit.tflite_models import litert
from tests.runtime.litert_models import SOUND, Net
from tilewright.jit.source.tflite.file import File
from tilewright.runtime.litert.options import options_of
from tilewright.runtime.litert.schema import kinds, read_model, schema, written

pytest.importorskip("ai_edge_litert")


@pytest.mark.parametrize("table", ["SubOptions", "Conv2DOptions", "LSTMOptions"])
@pytest.mark.parametrize("kind", ["add", "mul"])
def test_an_activation_in_the_table_of_another_kind_is_none(kind: str, table: str, tmp_path: Path) -> None:
    path, s = tmp_path / "m.tflite", schema()
    net = TfliteNet(seed=3)
    a, b = net.input((1, 4, 4, 8)), net.input((1, 4, 4, 8), scale=0.03)
    net.save(path, [getattr(net, kind)(a, b)])
    model = read_model(path.read_bytes())
    op = model.subgraphs[0].operators[0]
    op.builtinOptions, op.builtinOptionsType = getattr(s, f"{table}T")(), getattr(s.BuiltinOptions, table)
    op.builtinOptions.fusedActivationFunction = s.ActivationFunctionType.RELU
    path.write_bytes(written(model))
    assert File(path).operators[0].options is None
    inputs = [np.random.default_rng(k).integers(-128, 128, (1, 4, 4, 8)).astype(np.int8) for k in range(2)]
    found = tw.compile(path, config="tiny", cache=False)(inputs)
    np.testing.assert_array_equal(found, litert(path, inputs)[0])
    zero = net.tensors[2].zero_points
    assert zero is not None
    assert (found < zero[0]).any()  # which the activation would have clamped


@pytest.mark.parametrize("net", [net for net in SOUND if net.options], ids=lambda net: net.kind)
def test_an_operator_has_the_options_of_its_kind(net: Net, tmp_path: Path) -> None:
    model = read_model(net.save(tmp_path / "m.tflite"))
    op = model.subgraphs[0].operators[0]
    assert options_of(kinds(model)[op.opcodeIndex], op) is op.builtinOptions is not None
