"""Running what ``OnnxSource`` builds: the graph's own meaning, and cut models in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.jit import graph as g
from tilewright.jit.reference import evaluate
from tilewright.jit.source import Built
from tilewright.jit.source.onnx.source import OnnxSource
from tilewright.jit.stages import stages
from tilewright.runtime import interpreters

Array = NDArray[Any]


def run(source: OnnxSource, built: Built, inputs: list[Array]) -> list[Array]:
    """The graph's outputs; host stretches as the compiler forms them."""
    graph = built.graph
    values = dict(zip(graph.inputs, inputs, strict=True))
    place = {op.name: "host" if isinstance(op, g.HostOp) else "accelerator" for op in graph.ops}
    order = stages(graph, place)
    for number, stage in enumerate(order):
        if stage.kind != "interpreter":
            for op in stage.ops:
                tensors = {t: graph.tensors[t] for t in (*op.inputs, op.output)}
                part = g.Graph("part", list(dict.fromkeys(op.inputs)), [op.output], tensors, [op])
                values |= evaluate(part, {t: values[t] for t in part.inputs})
            continue
        made = {t for op in stage.ops for t in op.outputs}
        later = {t for after in order[number + 1 :] for op in after.ops for t in op.inputs} | set(graph.outputs)
        reads = list(dict.fromkeys(t for op in stage.ops for t in op.inputs if t not in made))
        gives = [t for op in stage.ops for t in op.outputs if t in later]
        model = source.cut([i for op in stage.ops for i in op.covers], reads, gives)
        results = interpreters.load("onnxruntime", model, "part")([values[t] for t in reads])
        for name, value in zip(gives, results, strict=True):
            spec = graph.tensors[name]
            assert (value.shape, value.dtype.name) == (spec.shape, spec.dtype)
            values[name] = value
    return [values[t] for t in graph.outputs]


def random_inputs(built: Built, rng: np.random.Generator) -> list[Array]:
    found = []
    for name in built.graph.inputs:
        spec = built.graph.tensors[name]
        if spec.dtype == "float32":
            found.append(rng.normal(0, 1.5, spec.shape).astype(np.float32))
        else:
            info = np.iinfo(spec.dtype)
            found.append(rng.integers(info.min, info.max + 1, spec.shape).astype(spec.dtype))
    return found


def difference(path: Path, source: OnnxSource, built: Built, count: int = 3, seed: int = 0) -> int:
    """How many output values differ from ONNX Runtime's on the whole file, over ``count`` random inputs."""
    whole = interpreters.load("onnxruntime", path.read_bytes(), "whole")
    rng = np.random.default_rng(seed)
    wrong = 0
    for _ in range(count):
        inputs = random_inputs(built, rng)
        for got, wanted in zip(run(source, built, inputs), whole(inputs), strict=True):
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
            wrong += int((got != wanted).sum())
    return wrong


def compared(path: Path, host: Mapping[int, str] | None = None, count: int = 3) -> tuple[OnnxSource, Built]:
    """Builds a file in three ways, each compared with ONNX Runtime: as it is, proven layers alone, and all of it in
    the interpreter. Returns the first; raises AssertionError where a promise is broken."""
    source = OnnxSource(path)
    built = source.build(host or {})
    wrong = difference(path, source, built, count)
    if all(layer.proven for layer in built.exactness):
        assert wrong == 0
    proven = OnnxSource(path, exact="proven")
    strict = proven.build(host or {})
    assert all(layer.proven for layer in strict.exactness)
    assert difference(path, proven, strict, count) == 0
    everything = proven.build({operator.index: "left out" for operator in proven.operators})
    assert not [op for op in everything.graph.ops if not isinstance(op, g.HostOp)]
    assert difference(path, proven, everything, count) == 0
    return source, source.build(host or {})


def interpreted(built: Built) -> dict[str, str]:
    """Operators that the interpreter runs, and why."""
    return {op.name: op.reason for op in built.graph.ops if isinstance(op, g.Interpreted)}


def kinds(built: Built) -> list[str]:
    """What the accelerator runs."""
    return [op.kind for op in built.graph.ops if not isinstance(op, (g.HostOp, g.Reshape))]
