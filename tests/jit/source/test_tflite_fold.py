"""What is computed once, of constants and shapes, when a ``.tflite`` file is read, and what is not."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz import TfliteNet
from tests.jit.source.test_tflite_source import assert_equal, places
from tests.jit.tflite_models import TfliteBuilder
from tilewright.jit.source.tflite.file import File
from tilewright.jit.source.tflite.fold import fold
from tilewright.runtime.litert.schema import read_model, schema, written


def shape_of(b: TfliteBuilder, x: int, rank: int) -> int:
    return b.op("SHAPE", [x], b.tensor([rank], dtype="int32"), "ShapeOptions", OutType=2)


@pytest.mark.parametrize("more", [0, 1])
def test_as_many_elements_as_are_folded_and_one_more(more: int, tmp_path: Path) -> None:
    b = TfliteBuilder()
    count = (1 << 16) + more
    size, number = b.constant(np.array([count], np.int32)), b.constant(np.int32(7))
    large = b.op("FILL", [size, number], b.tensor([count], dtype="int32"))
    small = b.op("FILL", [b.constant(np.array([3], np.int32)), number], b.tensor([3], dtype="int32"))
    found = fold(File(b.save(tmp_path / "m.tflite", [b.tensor([1, 4], 0.5)], [large, small])))
    assert found.operators == ({1} if more else {0, 1})
    assert found.values[small].tolist() == [7, 7, 7]
    assert (large in found.values) == (not more)


@pytest.mark.parametrize("first", [False, True])
def test_an_operator_is_folded_if_all_its_results_are_small(first: bool, tmp_path: Path) -> None:
    b = TfliteBuilder()
    count = (1 << 16) + 1
    value = b.constant(np.zeros(count + 1, np.int32))
    sizes = [count, 1] if first else [1, count]
    parts = [b.tensor([size], dtype="int32") for size in sizes]
    b.ops("SPLIT_V", [value, b.constant(np.array(sizes, np.int32)), b.constant(np.int32(0))], parts, "SplitVOptions",
          NumSplits=2)  # fmt: skip
    assert not fold(File(b.save(tmp_path / "m.tflite", [b.tensor([1, 4], 0.5)], parts))).operators


def computed_shape(b: TfliteBuilder) -> tuple[int, int]:
    """An input, and its 18 rows of 8 behind a shape that the file computes; it says that there is one."""
    x = b.tensor([1, 6, 3, 8], 0.04, -3)
    rows = b.op("MUL", [shape_of(b, x, 4), b.constant(np.array([0, 3, 0, 0], np.int32))],
                b.tensor([4], dtype="int32"), "MulOptions")  # fmt: skip
    count = b.op("SLICE", [rows, b.constant(np.array([1], np.int32)), b.constant(np.array([1], np.int32))],
                 b.tensor([1], dtype="int32"), "SliceOptions")  # fmt: skip
    eight = b.constant(np.array([8], np.int32))
    wanted = b.op("CONCATENATION", [count, eight], b.tensor([2], dtype="int32"), "ConcatenationOptions", Axis=0)
    return x, b.op("RESHAPE", [x, wanted], b.tensor([1, 8], 0.04, -3))


def test_the_shape_of_what_has_a_computed_shape_is_the_real_one(tmp_path: Path) -> None:
    """Not what the file states of it, which is a guess."""
    b = TfliteBuilder(seed=5)
    x, flat = computed_shape(b)
    wanted, shape = b.operators[-1]["inputs"][1], shape_of(b, flat, 2)
    product = b.op("MUL", [shape, wanted], b.tensor([2], dtype="int32"), "MulOptions")
    path = b.save(tmp_path / "m.tflite", [x], [flat, product])
    found = fold(File(path))
    assert found.values[shape].tolist() == [18, 8]
    assert found.values[product].tolist() == [18 * 18, 8 * 8]
    assert_equal(path)


@pytest.mark.parametrize("guess", [[2, 4], [4, 2], [1, 8], [8]])
def test_the_shape_of_what_has_one_when_it_runs_is_not_folded(guess: list[int], tmp_path: Path) -> None:
    b = TfliteBuilder(seed=5)
    x, wanted = b.tensor([1, 8], 0.04, -3), b.tensor([2], dtype="int32")
    made = b.op("RESHAPE", [x, wanted], b.tensor(guess, 0.04, -3))
    shape = shape_of(b, made, len(guess))
    after = b.op("NEG", [made], b.tensor(guess, 0.04, -3))
    found = fold(File(b.save(tmp_path / "m.tflite", [x, wanted], [shape, shape_of(b, after, len(guess))])))
    assert not found.operators


@pytest.mark.parametrize("dynamic", [[-1, 4, 4, 4], [-1, -1, -1, 4]], ids=str)
def test_a_shape_that_follows_from_the_inputs_is_folded_whatever_the_file_says(
    dynamic: list[int], tmp_path: Path
) -> None:
    """Converters call shapes behind one that the file computes dynamic."""
    b = TfliteBuilder(seed=5)
    x = b.tensor([1, 4, 4, 4], 0.04, -3, signature=[-1, 4, 4, 4])
    y = b.op("NEG", [x], b.tensor([1, 4, 4, 4], 0.04, -3, signature=dynamic))
    path = b.save(tmp_path / "m.tflite", [x], [y, shape_of(b, x, 4), shape_of(b, y, 4)])
    assert places(assert_equal(path))["SHAPE"] == "none"


def test_a_shape_that_is_static_is_folded_beside_one_that_is_not(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=5)
    x, wanted = b.tensor([1, 8], 0.04, -3), b.tensor([2], dtype="int32")
    loose = shape_of(b, b.op("RESHAPE", [x, wanted], b.tensor([2, 4], 0.04, -3)), 2)
    ends = [b.constant(np.array(v, np.int32)) for v in ([0, 2], [1, 3])]
    firm = shape_of(b, b.op("SLICE", [x, *ends], b.tensor([1, 3], 0.04, -3), "SliceOptions"), 2)
    found = fold(File(b.save(tmp_path / "m.tflite", [x, wanted], [loose, firm])))
    assert {t: value.tolist() for t, value in found.values.items()} == {firm: [1, 3]}


def test_shapes_without_elements_or_axes(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=5)
    empty, number = b.tensor([1, 0, 4], 0.04, -3), b.tensor([], 0.04, -3)
    made = [
        shape_of(b, b.op("NEG", [x], b.tensor(b.tensors[x]["shape"], 0.04, -3)), r)
        for x, r in ((empty, 3), (number, 0))
    ]
    rank = shape_of(b, made[1], 1)
    path = b.save(tmp_path / "m.tflite", [empty, number], [made[0], rank])
    found = fold(File(path))
    assert {t: value.tolist() for t, value in found.values.items()} == {made[0]: [1, 0, 4], rank: [0]}


def test_the_shape_of_what_numpy_does_not_hold_is_left_to_litert(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=5)
    x, z = b.tensor([1, 8], 0.04, -3), b.tensor([1, 8], 0.04, -3)
    path = b.save(tmp_path / "m.tflite", [x, z], [shape_of(b, x, 2), b.op("NEG", [z], b.tensor([1, 8], 0.04, -3))])
    model = read_model(path.read_bytes())
    model.subgraphs[0].tensors[x].type = schema().TensorType.STRING
    path.write_bytes(written(model))
    assert not fold(File(path)).operators


def test_what_an_operator_on_constants_writes_is_a_constant_and_be_it_called_a_state(tmp_path: Path) -> None:
    b = TfliteBuilder(seed=5)
    x, c = b.tensor([1, 8], 0.04, -3), b.tensor([1, 8], 0.04, -3, data=np.arange(8, dtype=np.int8)[None])
    kept = b.op("NEG", [c], b.tensor([1, 8], 0.04, -3))
    y = b.op("ADD", [x, kept], b.tensor([1, 8], 0.04, -3), "AddOptions")
    z = b.op("NEG", [kept], b.tensor([1, 8], 0.04, -3))
    path = b.save(tmp_path / "m.tflite", [x], [y, z, shape_of(b, kept, 2)])
    model = read_model(path.read_bytes())
    model.subgraphs[0].tensors[kept].isVariable = True
    path.write_bytes(written(model))
    assert {0, 2} < fold(File(path)).operators
    assert_equal(path)


def test_what_an_operator_goes_on_with_as_its_state_is_not_folded(tmp_path: Path) -> None:
    """Nor is what reads a state."""
    net = TfliteNet(seed=5)
    net.save(tmp_path / "m.tflite", [net.svdf(net.input((1, 6)), 4)])
    model = read_model((tmp_path / "m.tflite").read_bytes())
    main, s = model.subgraphs[0], schema()
    (state,) = (t for t in main.operators[0].inputs if t >= 0 and main.tensors[t].isVariable)
    begun = copy.copy(main.tensors[state])
    begun.isVariable, begun.buffer = False, len(model.buffers)
    model.buffers.append(s.BufferT())
    model.buffers[-1].data = np.arange(np.prod(begun.shape), dtype=np.int16).view(np.uint8)
    main.tensors.append(begun)
    copied, code = s.OperatorT(), s.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = s.BuiltinOperator.ABS
    copied.inputs, copied.outputs, copied.opcodeIndex = [len(main.tensors) - 1], [state], len(model.operatorCodes)
    code.version = 3
    model.operatorCodes.append(code)
    main.operators.insert(0, copied)
    (tmp_path / "m.tflite").write_bytes(written(model))
    assert not fold(File(tmp_path / "m.tflite")).operators
    assert_equal(tmp_path / "m.tflite")


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("stated", [[1], []])
def test_a_constant_of_a_computed_shape_has_as_many_numbers_as_it_really_has(
    stated: list[int], first: bool, tmp_path: Path
) -> None:
    """One for each channel where the file states a single one, of which a table would be made."""
    b = TfliteBuilder(seed=3)
    x, y = b.tensor([1, 1, 1, 4], 0.04, -3), b.tensor([1, 1, 1, 4], 0.5, -128)
    numbers = b.tensor([4], 0.02, 5, data=np.array([-90, 3, 40, 110], np.int8))
    four, none = b.constant(np.array([4], np.int32)), b.constant(np.array([0], np.int32))
    wanted = b.op("MAXIMUM", [four, none], b.tensor([1], dtype="int32"))
    real = b.op("RESHAPE", [numbers, wanted], b.tensor(stated, 0.02, 5), "ReshapeOptions")
    b.op("SQUARED_DIFFERENCE", [real, x] if first else [x, real], y)
    artifact = assert_equal(b.save(tmp_path / "m.tflite", [x], [y]))
    (entry,) = [o for o in artifact.options["operators"] if o["op"] == "SQUARED_DIFFERENCE"]
    assert (entry["place"], entry["reason"]) == ("interpreter", "a constant operand of several numbers")
