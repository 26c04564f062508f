"""``import_model``: a model file as the integer graph, what the accelerator cannot take left to its interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from tilewright.jit.exactness import LayerExactness
from tilewright.jit.graph import Graph, Interpreted, TensorSpec
from tilewright.jit.source import Built, Source, open_source
from tilewright.jit.source.input_ranges import state_ranges
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
            state_ranges(built.graph)
            return ImportedModel(source, built)
        host |= idle
