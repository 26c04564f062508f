"""Operators that LiteRT's reference kernels lack run with the kernel there is, and their neighbours with theirs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.jit.source.test_tflite_source import assert_equal, conv, places
from tests.jit.tflite_models import TfliteBuilder
from tests.jit.variables import around
from tilewright.checking import reference_outputs
from tilewright.runtime import interpreters
from tilewright.runtime.litert.beyond import BEYOND, has_beyond, parts

SHAPE = [1, 6, 6, 4]


def network(kind: str = "ELU") -> tuple[TfliteBuilder, list[int]]:
    """A convolution, ``kind``, a convolution: the tensors between them."""
    b = TfliteBuilder(seed=3)
    x = b.tensor(SHAPE, 0.04, -3)
    y = conv(b, x, 6, SHAPE)
    z = b.op(kind, [y], b.tensor([1, 6, 6, 6], 0.06, -20))
    return b, [x, y, z, conv(b, z, 5, SHAPE)]


def alone(b: TfliteBuilder, path: Path, number: int, tensors: list[int], value: np.ndarray, kernels: str) -> np.ndarray:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    one = copy.copy(b)
    one.operators = [b.operators[number]]
    run = Interpreter(
        str(one.save(path, [tensors[number]], [tensors[number + 1]])),
        experimental_op_resolver_type=OpResolverType[kernels],
    )
    run.allocate_tensors()
    run.set_tensor(run.get_input_details()[0]["index"], value)
    run.invoke()
    return run.get_tensor(run.get_output_details()[0]["index"])


def test_each_part_has_its_own_kernels(tmp_path: Path) -> None:
    b, tensors = network()
    path = b.save(tmp_path / "m.tflite", tensors[:1], tensors[-1:])
    value = np.random.default_rng(0).integers(-128, 128, SHAPE).astype(np.int8)
    wanted = value
    for number, kernels in enumerate(("BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "BUILTIN_REF")):
        wanted = alone(b, tmp_path / "one.tflite", number, tensors, wanted, kernels)
    (got,) = interpreters.load("litert", path.read_bytes(), "m")([value])
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(reference_outputs(path, [value[None]])[0], wanted[0][None])
    assert [part.beyond for part in parts(path.read_bytes())[0]] == [False, True, False]
    with pytest.raises(interpreters.InterpreterError, match="takes 1 inputs, 2 given"):
        interpreters.load("litert", path.read_bytes(), "m")([value, value])


def test_a_model_of_them_compiles(tmp_path: Path) -> None:
    b, tensors = network()
    artifact = assert_equal(b.save(tmp_path / "m.tflite", tensors[:1], tensors[-1:]))
    assert places(artifact) == {"CONV_2D": "accelerator", "ELU": "accelerator"}


def test_others_stay_whole(tmp_path: Path) -> None:
    b, tensors = network("TANH")
    b.tensors[tensors[2]] |= {"scale": np.float32(1 / 128), "zero_point": 0}
    content = b.save(tmp_path / "m.tflite", tensors[:1], tensors[-1:]).read_bytes()
    assert not has_beyond(content)
    assert [(part.content, part.beyond) for part in parts(content)[0]] == [(content, False)]


def test_the_reference_kernels_still_lack_them(tmp_path: Path) -> None:
    """Where LiteRT brings one, it is no longer to be cut out."""
    assert "ELU" in BEYOND
    b, tensors = network()
    value = np.zeros([1, 6, 6, 6], np.int8)
    with pytest.raises(ValueError, match="Didn't find op for builtin opcode 'ELU'"):
        alone(b, tmp_path / "one.tflite", 1, tensors, value, "BUILTIN_REF")


@pytest.mark.parametrize("handles", [1, 2])
def test_a_variable_is_not_handed_from_part_to_part(handles: int, tmp_path: Path) -> None:
    """Each part has variables of its own: where several use them, they are one part."""
    path = around(tmp_path / "m.tflite", "ELU", handles)
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3, 4)).astype(np.float32)
    inputs: list[np.ndarray[Any, Any]] = [rng.integers(-128, 128, (3, 4)).astype(np.int8), x]
    wanted = np.where(x < 0, np.expm1(x), x) + x
    np.testing.assert_allclose(reference_outputs(path, inputs)[1], wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tw.compile(path, "tiny", cache=False)(inputs)[1], wanted, rtol=1e-5, atol=1e-6)
