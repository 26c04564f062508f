"""One region of a partitioned module: whether it can run on a Config, and its artifact."""

from __future__ import annotations

from tilewright.config import Config
from tilewright.jit.compiler import compile_graph
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.jit.lower.lowering import lower
from tilewright.jit.sides import accelerator_graphs
from tilewright.jit.tiled.program import TiledProgram
from tilewright.runtime.artifact import Artifact
from tilewright.runtime.folding import folded


def refusal(graph: Graph, config: Config) -> str | None:
    """Why the accelerator cannot run these operators, all memories to themselves; None if it can.

    What fits in no other form fits in tiles, or not at all; so nothing is compiled to know.
    """
    try:
        for part in accelerator_graphs(graph, config):
            TiledProgram(part, lower(part, config, tiled=True), config).choose(config)
    except PlaceError as error:
        return str(error)
    return None


def compile_region(graph: Graph, config: Config) -> Artifact:
    """The artifact of one region: its inputs and outputs are the graph's own tensors.

    Raises :class:`PlaceError` naming the operator that does not fit.
    """
    compiled = compile_graph(graph, config)
    inputs = tuple(graph.tensors[name] for name in graph.inputs)
    return Artifact(
        name=graph.name,
        config=config,
        programs=tuple(compiled.programs),
        steps=folded(compiled.steps, inputs, (), graph.outputs),
        inputs=inputs,
        outputs=tuple(graph.tensors[name] for name in graph.outputs),
        host_layers=compiled.host_layers,
    )
