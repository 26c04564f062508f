"""Constants that a file keeps beside its flatbuffer, in the wrong places too: those that LiteRT takes are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.jit.tflite_models import TfliteBuilder, litert
from tilewright.errors import TilewrightError
from tilewright.jit.source.tflite.file import File
from tilewright.runtime.litert.schema import read_model, schema, vector, written

SIZE = 64  #: bytes of the weights
BEHIND = np.random.default_rng(3).integers(-127, 128, SIZE).astype(np.int8)  #: of the bytes behind the flatbuffer
VALUES = np.random.default_rng(1).integers(-128, 128, (1, 8)).astype(np.int8)
WRAPS = (1 << 64) - 32  #: an offset to which LiteRT adds the size in 64 bits

#: whether the flatbuffer holds the weights, the offset (None: of those behind it) and the size beside them
TAKEN = [
    *((True, offset, size) for offset in (0, 1, 40, None, 1 << 40, WRAPS) for size in (0, 1, SIZE, SIZE + 1)),
    (False, None, SIZE),
    (False, 40, SIZE),
]
REFUSED = [
    *((False, offset, size) for offset in (0, 1) for size in (0, 1, SIZE)),
    *((False, offset, 0) for offset in (40, None)),
    *((False, offset, size) for offset in (1 << 40, 1 << 20) for size in (0, SIZE)),
    (False, None, SIZE + 1),
    (False, None, 1),
]


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    b = TfliteBuilder(5)
    x, (w, _) = b.tensor([1, 8], 0.5), b.weights([8, 8], None)
    y = b.op("FULLY_CONNECTED", [x, w], b.tensor([1, 8], 0.25), "FullyConnectedOptions")
    return b.save(tmp_path_factory.mktemp("edges") / "m.tflite", [x], [y]).read_bytes()


def moved(content: bytes, buffer: int, held: Any, offset: int | None, size: int) -> bytes:
    """The model with other fields in a buffer, and with :data:`BEHIND` at its end."""
    model = read_model(content)
    fields = model.buffers[buffer]
    fields.data = held
    made = b""
    for _ in range(3):  # where the file ends is known when it is written with an offset
        fields.offset, fields.size = len(made) if offset is None else offset, size
        made = written(model)
    return made + BEHIND.tobytes()


def held_by(content: bytes, holds: bool) -> Any:
    return read_model(content).buffers[1].data if holds else None


def outputs(path: Path) -> Any:
    return tw.compile(path, "tiny", cache=False).run([VALUES])[0]


@pytest.mark.parametrize(("holds", "offset", "size"), TAKEN)
def test_weights_are_those_that_litert_takes(
    holds: bool, offset: int | None, size: int, content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(moved(content, 1, held_by(content, holds), offset, size))
    (wanted,) = litert(path, [VALUES])
    np.testing.assert_array_equal(outputs(path), wanted)
    again = tmp_path / "again.tflite"
    again.write_bytes(written(read_model(path.read_bytes())))
    np.testing.assert_array_equal(litert(again, [VALUES])[0], wanted)
    seen = File(path).tensors[1].data
    assert seen is not None
    inside = held_by(content, True).view(np.int8)
    expected = inside if holds else BEHIND if offset is None else np.frombuffer(path.read_bytes(), np.int8, SIZE, 40)
    np.testing.assert_array_equal(seen.reshape(-1), expected)


@pytest.mark.parametrize(("holds", "offset", "size"), REFUSED)
def test_weights_that_litert_does_not_find_are_refused(
    holds: bool, offset: int | None, size: int, content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(moved(content, 1, held_by(content, holds), offset, size))
    with pytest.raises((ValueError, RuntimeError)):
        litert(path, [VALUES])
    with pytest.raises(TilewrightError, match="tensor t1|[Tt]ensor 1|buffer 1"):
        outputs(path)


def test_an_offset_whose_end_wraps_is_refused(content: bytes, tmp_path: Path) -> None:
    """LiteRT reads outside of the file."""
    path = tmp_path / "m.tflite"
    path.write_bytes(moved(content, 1, None, WRAPS, SIZE))
    with pytest.raises(TilewrightError, match="buffer 1 ends behind the file"):
        outputs(path)


@pytest.mark.parametrize("offset", [0, None])
def test_an_empty_vector_is_no_way_to_an_offset(offset: int | None, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(moved(content, 1, np.zeros(0, np.uint8), offset, SIZE))
    with pytest.raises((ValueError, RuntimeError), match="Tensor 1"):
        litert(path, [VALUES])
    with pytest.raises(TilewrightError, match="t1|[Tt]ensor 1"):
        outputs(path)


@pytest.mark.parametrize("size", [8, SIZE])
@pytest.mark.parametrize("behind", [False, True])
def test_the_first_buffer_is_the_empty_one_whatever_it_holds(
    behind: bool, size: int, content: bytes, tmp_path: Path
) -> None:
    """Activations use it; a tensor of it is no constant."""
    path = tmp_path / "m.tflite"
    held = None if behind else np.ones(size, np.uint8)
    path.write_bytes(moved(content, 0, held, None if behind else 0, size if behind else 0))
    np.testing.assert_array_equal(outputs(path), litert(path, [VALUES])[0])
    model = schema().ModelT.InitFromObj(schema().Model.GetRootAs(path.read_bytes(), 0))
    model.subgraphs[0].tensors[1].buffer = 0
    path.write_bytes(written(model))
    with pytest.raises((ValueError, RuntimeError), match="Input tensor 1 lacks data"):
        litert(path, [VALUES])
    with pytest.raises(TilewrightError, match="tensor t1: nothing gives it"):
        outputs(path)


# -- options of custom operators, which large files keep behind the flatbuffer too ------------------------------


def with_options(content: bytes, held: bytes | None, offset: int | None = None) -> bytes:
    """The model of an operator that LiteRT does not have, with options in the flatbuffer, and others behind it."""
    model = read_model(content)
    model.operatorCodes[0].builtinCode = model.operatorCodes[0].deprecatedBuiltinCode = 32
    model.operatorCodes[0].customCode = b"Other"
    (op,) = model.subgraphs[0].operators
    op.builtinOptions, op.builtinOptionsType = None, 0
    op.customOptions = None if held is None else np.frombuffer(held, np.uint8)
    made = b""
    for _ in range(3):
        op.largeCustomOptionsOffset, op.largeCustomOptionsSize = len(made) if offset is None else offset, 6
        made = written(model)
    return made + b"behind"


@pytest.mark.parametrize(
    ("held", "offset", "taken"),
    [
        (None, None, b"behind"), (b"inside", None, b"inside"), (b"", None, b""), (None, 0, b""), (None, 1, b""),
        (b"inside", 1 << 40, b"inside"),
    ],
)  # fmt: skip
def test_options_of_a_custom_operator_are_those_that_litert_takes(
    held: bytes | None, offset: int | None, taken: bytes, content: bytes
) -> None:
    """From LiteRT's source: its package brings no operator whose options could be watched."""
    made = with_options(content, held, offset)
    for model in (read_model(made), read_model(written(read_model(made)))):
        assert bytes(np.asarray(vector(model.subgraphs[0].operators[0].customOptions), np.uint8)) == taken


def test_options_behind_the_end_of_the_file_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(with_options(content, None, 1 << 40))
    with pytest.raises(TilewrightError, match="the options of operator 0 end behind the file"):
        tw.compile(path, "tiny", cache=False)
