"""``import_model``: a model file as the integer graph, what the accelerator cannot take left to its interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.jit.exactness import LayerExactness
from tilewright.jit.graph import Graph, Interpreted, QuantizeFloat, Reshape, TensorSpec, Transpose
from tilewright.jit.source import Built, Source, open_source
from tilewright.jit.stages import idle_islands


@dataclass
class ImportedModel:
    """What became of a model file."""

    source: Source
    built: Built

    @property
    def path(self) -> Path:
        return self.source.path

    @property
    def graph(self) -> Graph:
        """The whole model, over the user's own tensors."""
        return self.built.graph

    @property
    def inputs(self) -> list[TensorSpec]:
        """The tensors that the user gives."""
        return [self.graph.tensors[name] for name in self.graph.inputs]

    @property
    def outputs(self) -> list[TensorSpec]:
        """The tensors that the user gets."""
        return [self.graph.tensors[name] for name in self.graph.outputs]

    @property
    def sources(self) -> dict[str, str]:
        """Operator of the file -> graph tensor that holds its result."""
        return self.built.sources

    @property
    def exactness(self) -> list[LayerExactness]:
        """What can be promised of each lowered layer."""
        return self.built.exactness

    @property
    def host_ops(self) -> list[tuple[str, str]]:
        """(operator, reason) for each that the interpreter runs."""
        return [(op.name, op.reason) for op in self.graph.ops if isinstance(op, Interpreted)]


def import_model(path: str | Path, refused: Mapping[int, str] | None = None) -> ImportedModel:
    """Imports a quantised ``.tflite`` or ``.onnx`` file; raises ModelError where that is impossible.

    ``refused``: operators, by position in the file, that are left to the interpreter, and why.
    """
    return lower_source(open_source(path), refused or {})


def lower_source(source: Source, refused: Mapping[int, str], kept: Set[int] = frozenset()) -> ImportedModel:
    """The graph of an opened file; what is not worth a launch of its own stays with the interpreter, too, but for
    ``kept``, operators by position."""
    host = dict(refused)
    while True:
        built = source.build(host)
        idle = {i: reason for i, reason in idle_islands(built.graph).items() if i not in host and i not in kept}
        if not idle:
            _state_ranges(built.graph)
            return ImportedModel(source, built)
        host |= idle


def _state_ranges(graph: Graph) -> None:
    """Float inputs that a file gives no scale have that of what quantises them: whoever draws inputs goes by it."""
    for name in graph.inputs:
        spec = graph.tensors[name]
        if not spec.dtype.startswith("float") or (spec.scale, spec.zero_point) != (1.0, 0):
            continue
        readers = graph.consumers(name)
        while readers and all(isinstance(op, (Reshape, Transpose)) for op in readers):
            readers = [reader for op in readers for reader in graph.consumers(op.output)]
        if (op := next((op for op in readers if isinstance(op, QuantizeFloat)), None)) is not None:
            zero_point = op.zero_point - (128 if op.dtype == "uint8" else 0)
            graph.tensors[name] = replace(spec, scale=float(op.scale), zero_point=zero_point)
