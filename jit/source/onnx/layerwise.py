"""Layers that are not proven, each compared with ONNX Runtime on what it computes of the same inputs.

A difference in one layer moves everything behind it, so end to end nobody sees which layers differ. Here each one gets
the tensors that ONNX Runtime has ahead of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.exactness import LayerDifference
from tilewright.jit.graph import Graph, Interpreted
from tilewright.jit.reference import evaluate
from tilewright.jit.source.base import Built, SourceOperator
from tilewright.jit.source.onnx.cut import cut
from tilewright.jit.source.onnx.prepared import Prepared
from tilewright.jit.source.onnx.units import Unit
from tilewright.runtime import interpreters

Array = NDArray[Any]


class Layers(Protocol):
    """An opened file, as far as its layers are looked at one by one."""

    path: Path
    operators: list[SourceOperator]
    units: list[Unit]
    prepared: Prepared

    def build(self, host: Mapping[int, str]) -> Built: ...

    def key(self, tensor: str) -> str | None: ...


def differing(source: Layers, inputs: Sequence[Array]) -> list[LayerDifference]:
    """The layers that are not proven and differ on stacks of ``inputs``, one for each input of the model."""
    stated = {layer.name: layer for layer in source.build({}).exactness if not layer.proven}
    units = {
        source.operators[unit.lead].name: unit
        for unit in source.units
        if source.operators[unit.lead].name in stated and unit.outputs
    }
    prepared = source.prepared
    seen = list(dict.fromkeys(t for unit in units.values() for t in (*unit.inputs, *unit.outputs)))
    seen = [t for t in seen if t not in prepared.inputs and t not in prepared.constants]
    content = cut(prepared, prepared.nodes, prepared.inputs, seen, {})
    run = interpreters.load("onnxruntime", content, f"{source.path}: its layers")
    recorded: list[dict[str, Array]] = []
    for k in range(len(inputs[0])):
        given = [x[k].reshape(prepared.types[name][1]) for name, x in zip(prepared.inputs, inputs, strict=True)]
        recorded.append({**dict(zip(prepared.inputs, given)), **dict(zip(seen, run(given), strict=True))})
    found = [(unit.lead, _largest(source, unit, recorded), stated[name].bound) for name, unit in units.items()]
    return [LayerDifference(*each) for each in found if each[1]]


def _largest(source: Layers, unit: Unit, recorded: Sequence[Mapping[str, Array]]) -> int:
    """The largest difference of a unit's outputs, with all others left to ONNX Runtime."""
    others = {op.index: "measured apart" for op in source.operators if op.index not in unit.covers}
    graph, largest = source.build(others).graph, 0
    for tensors in recorded:
        known = {t: tensors[key] for t in graph.tensors if (key := source.key(t)) is not None and key in tensors}
        values = {t: known[t] for t in graph.inputs if t in known}
        for op in graph.ops:
            if isinstance(op, Interpreted):
                values |= {t: known[t] for t in op.outputs if t in known}
            elif all(t in values for t in op.inputs):
                specs = {t: graph.tensors[t] for t in (*op.inputs, *op.outputs)}
                values |= evaluate(Graph("layer", list(dict.fromkeys(op.inputs)), [*op.outputs], specs, [op]), values)
        for t, value in values.items():
            if source.key(t) in unit.outputs:
                distance = np.abs(value.astype(np.float64) - known[t].astype(np.float64))
                largest = max(largest, int(np.ceil(distance.max(initial=0))))
    return largest
