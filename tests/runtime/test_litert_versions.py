"""Versions that LiteRT's reference kernels are not known by: the kernels are there, and are the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import tilewright as tw
from tests.jit.source.test_tflite_source import conv
from tests.jit.tflite_models import TfliteBuilder
from tilewright.checking import reference_outputs
from tilewright.runtime import interpreters
from tilewright.runtime.litert.schema import kinds, read_model, written
from tilewright.runtime.litert.versions import KNOWN, as_known

SHAPE = [1, 5, 4, 3]


def moved(path: Path, kind: str, raised: int = 1) -> Path:
    """A convolution, ``kind`` of a version that is ``raised`` beyond the highest that is known, a convolution."""
    b = TfliteBuilder(seed=5)
    x = b.tensor(SHAPE, 0.05, -7)
    y = conv(b, x, 6, SHAPE)
    numbers, shape = {"TILE": ([1, 2, 3, 1], [1, 10, 12, 6]), "TRANSPOSE": ([0, 2, 1, 3], [1, 4, 5, 6])}[kind]
    z = b.op(kind, [y, b.constant(np.array(numbers, np.int32))], b.tensor(shape, 0.09, 4))
    b.save(path, [x], [conv(b, z, 4, shape)])
    model = read_model(path.read_bytes())
    for code, name in zip(model.operatorCodes, kinds(model)):
        if name == kind:
            code.version = KNOWN[kind][0] + raised
    path.write_bytes(written(model))
    return path


def told(path: Path, kernels: Any, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    run = Interpreter(str(path), experimental_op_resolver_type=kernels, experimental_preserve_all_tensors=True)
    run.allocate_tensors()
    run.set_tensor(run.get_input_details()[0]["index"], value)
    run.invoke()
    return np.asarray(run.get_tensor(run.get_output_details()[0]["index"]))


@pytest.mark.parametrize("kind", ["TILE", "TRANSPOSE"])
def test_a_newer_version_is_the_same_kernel(kind: str, tmp_path: Path) -> None:
    new, old = moved(tmp_path / "new.tflite", kind), moved(tmp_path / "old.tflite", kind, raised=0)
    value = np.random.default_rng(2).integers(-128, 128, SHAPE).astype(np.int8)
    with pytest.raises(ValueError, match=f"Didn't find op for builtin opcode '{kind}'"):
        told(new, OpResolverType.BUILTIN_REF, value)  # where LiteRT has learnt it, KNOWN is to lose it
    wanted = told(old, OpResolverType.BUILTIN_REF, value)
    (got,) = interpreters.load("litert", new.read_bytes(), "m")([value])
    np.testing.assert_array_equal(got, wanted)
    both = [told(path, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, value) for path in (new, old)]
    np.testing.assert_array_equal(both[0], both[1])
    np.testing.assert_array_equal(reference_outputs(new, [value[None]])[0], wanted[0][None])


@pytest.mark.parametrize("kind", ["TILE", "TRANSPOSE"])
def test_such_a_model_runs_on_the_accelerator(kind: str, tmp_path: Path) -> None:
    path = moved(tmp_path / "m.tflite", kind)
    exe = tw.compile(path, "tiny", cache=False)
    x = np.random.default_rng(3).integers(-128, 128, (3, *SHAPE[1:])).astype(np.int8)
    np.testing.assert_array_equal(exe(x), reference_outputs(path, [x])[0])
    places = {op["op"]: op["place"] for op in exe.artifact.options["operators"]}
    assert places["CONV_2D"] == "accelerator"
    assert places[kind] != "interpreter"


def test_what_is_known_stays_as_it_is(tmp_path: Path) -> None:
    content = moved(tmp_path / "m.tflite", "TILE", raised=0).read_bytes()
    assert as_known(content) is content
    assert as_known(b"no model at all") == b"no model at all"
    assert as_known(b"") == b""


@pytest.mark.parametrize(("kind", "version"), [("TILE", 4), ("TRANSPOSE", 10), ("CONV_2D", 99)])
def test_a_version_that_litert_has_not_heard_of_is_refused(kind: str, version: int, tmp_path: Path) -> None:
    """It may say what the kernels do not look at."""
    path = moved(tmp_path / "m.tflite", "TRANSPOSE" if kind == "CONV_2D" else kind)
    model = read_model(path.read_bytes())
    for code, name in zip(model.operatorCodes, kinds(model)):
        code.version = version if name == kind else code.version
    path.write_bytes(written(model))
    with pytest.raises(tw.TilewrightError, match=f"opcode '{kind}' version '{version}'.*; update ai-edge-litert, or"):
        tw.compile(path, "tiny", cache=False)


@pytest.mark.parametrize("kind", sorted(KNOWN))
def test_what_is_newest_is_litert_s_own(kind: str, tmp_path: Path) -> None:
    """Where LiteRT knows a newer version, KNOWN is to say so."""
    b = TfliteBuilder()
    x, y = (b.tensor([1, 2], 0.1) for _ in range(2))
    b.op(kind, [x], y)
    model = read_model(b.save(tmp_path / "m.tflite", [x], [y]).read_bytes())
    for raised, said in ((0, ""), (1, "Didn't find op for builtin opcode")):
        model.operatorCodes[0].version = KNOWN[kind][1] + raised
        try:
            Interpreter(
                model_content=written(model),
                experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )
            found = ""
        except ValueError as error:
            found = str(error)
        assert ("Didn't find op" in found) == bool(said), found
