"""Defects planted in different parts of the compiler: none ends silently with an operator on the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.jit.source.onnx_nets import NetBuilder
from tests.jit.tflite_models import TfliteBuilder
from tilewright.compiling import Options, compile_artifact
from tilewright.config import PRESETS
from tilewright.jit.defects import DEFECTS, Defect, why_not
from tilewright.jit.emit.emitter import Emitter
from tilewright.jit.errors import ModelError, PlaceError, Unsupported
from tilewright.jit.layers.builder import GraphBuilder, Layer
from tilewright.jit.lower.lowering import Lowering
from tilewright.jit.numbers.scales import NotRepresentable
from tilewright.jit.plan.planner import Planner
from tilewright.jit.relax import patterns
from tilewright.jit.schedule.scheduler import Scheduler
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.jit.source.tflite.site import Site
from tilewright.jit.tiled.program import TiledProgram

SMALL = PRESETS["tiny"]


@pytest.fixture
def tflite(tmp_path: Path) -> Path:
    b = TfliteBuilder()
    x, y = b.tensor([1, 6, 6, 8], 0.03, 11), b.tensor([1, 6, 6, 8], 0.04, -17)
    w, scales = b.weights([8, 3, 3, 8], 0)
    fields = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1, "Padding": 0}
    b.op("CONV_2D", [x, w, b.bias(x, scales, 8)], y, "Conv2DOptions", **fields)
    return b.save(tmp_path / "net.tflite", [x], [y])


@pytest.fixture
def onnx(tmp_path: Path) -> Path:
    b = NetBuilder()
    x = b.real_input((1, 8, 6, 6))
    y = b.fitted(b.conv(x, 8, pads=[1] * 4), (1, 8, 6, 6), 20.0)
    b.output(y.name, (1, 8, 6, 6))
    return b.save(tmp_path / "net.onnx")


def no_attribute(*_: Any, **__: Any) -> Any:
    return object().wheight  # type: ignore[attr-defined]


def wrong_count(*_: Any, **__: Any) -> Any:
    return (lambda one: one)(1, 2)  # type: ignore[call-arg]


def out_of_range(*_: Any, **__: Any) -> Any:
    return (1, 2, 3)[len(__) + 3]


def no_key(*_: Any, **__: Any) -> Any:
    return dict[str, int]()["conv"]


def nothing(*_: Any, **__: Any) -> Any:
    return None + 1  # type: ignore[operator]


def assertion(*_: Any, **__: Any) -> Any:
    raise AssertionError("rows in order")


def division(*_: Any, **__: Any) -> Any:
    return 1 // len(__)


def no_value(*_: Any, **__: Any) -> Any:
    return int("conv")


def exhausted(*_: Any, **__: Any) -> Any:
    return next(iter(()))


def endless(*_: Any, **__: Any) -> Any:
    return endless()


#: where, what is planted, what Python raises, and the file that meets it
PLANTED: list[tuple[Any, str, Callable[..., Any], type[Exception], str]] = [
    (Site, "operand", no_attribute, AttributeError, "tflite"),
    (OnnxSource, "_lower", wrong_count, TypeError, "onnx"),
    (Layer, "emit", out_of_range, IndexError, "tflite"),
    (GraphBuilder, "append", endless, RecursionError, "tflite"),
    (Lowering, "lower", no_key, KeyError, "tflite"),
    (Planner, "whole", nothing, TypeError, "onnx"),
    (Scheduler, "run", assertion, AssertionError, "tflite"),
    (Emitter, "run", division, ZeroDivisionError, "onnx"),
    ("tilewright.jit.programs", "prove", no_value, ValueError, "tflite"),
    (TiledProgram, "choose", exhausted, StopIteration, "onnx"),
    ("tilewright.jit.programs", "edges", no_key, KeyError, "onnx"),
    ("tilewright.jit.compiler", "simplified", nothing, TypeError, "tflite"),
]
NAMES = [f"{getattr(where, '__name__', where)}.{name}" for where, name, *_ in PLANTED]


def plant(patched: pytest.MonkeyPatch, where: Any, name: str, defect: Callable[..., Any]) -> None:
    if isinstance(where, str):
        patched.setattr(f"{where}.{name}", defect)
    else:
        patched.setattr(where, name, defect)


@pytest.mark.parametrize("planted", PLANTED, ids=NAMES)
def test_a_defect_is_an_error_in_development(
    planted: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, name, defect, raised, kind = planted
    plant(monkeypatch, where, name, defect)
    with pytest.raises(raised):
        compile_artifact(request.getfixturevalue(kind), SMALL, Options())


@pytest.mark.parametrize("planted", PLANTED, ids=NAMES)
def test_a_defect_is_a_warning_for_users_whose_integers_are_right(
    planted: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, name, defect, raised, kind = planted
    path = request.getfixturevalue(kind)
    monkeypatch.delenv(DEFECTS)
    plant(monkeypatch, where, name, defect)
    with pytest.warns(Defect, match=rf"a defect of Tilewright \({raised.__name__}: .* please report it"):
        compile_artifact(path, SMALL, Options())  # compares with the interpreter, too


def test_sound_networks_have_no_defect(tflite: Path, onnx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DEFECTS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Defect)
        for path in (tflite, onnx):
            assert len(compile_artifact(path, SMALL, Options()).programs) == 1


def test_a_defect_in_a_rule_of_relax(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tvm")
    rule = patterns.RULES[0]
    monkeypatch.setattr(patterns, "RULES", (replace(rule, lower=no_attribute),))
    ((_, _, check), *_), var = patterns.table(), SimpleNamespace(name="conv")
    with pytest.raises(AttributeError):
        check(var, None, {})
    monkeypatch.delenv(DEFECTS)
    with pytest.warns(Defect, match="conv: a defect of Tilewright"):
        assert not check(var, None, {})


@pytest.mark.parametrize("refusal", [Unsupported("no"), NotRepresentable("no"), PlaceError("no")])
def test_a_refusal_is_a_reason(refusal: Exception) -> None:
    assert why_not(refusal, "op") == "no"


@pytest.mark.parametrize("error", [ModelError("corrupt"), MemoryError("short"), UserWarning("told")])
def test_what_no_fallback_mends_is_raised(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DEFECTS)
    with pytest.raises(type(error)):
        why_not(error, "op")
