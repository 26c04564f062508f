"""Runs a compiled graph step by step on the simulator, for comparison with the reference evaluator."""

from __future__ import annotations

import numpy as np

from tilewright.config import Config
from tilewright.jit.compiler import CompiledGraph, compile_graph
from tilewright.jit.graph import Graph
from tilewright.jit.plan.policy import Policy
from tilewright.jit.reference import evaluate
from tilewright.runtime.steps import CastStep, LaunchStep, PackStep, ReshapeStep, UnpackStep
from tilewright.sim import initial_segments, simulate


def run_compiled(compiled: CompiledGraph, *inputs: np.ndarray) -> tuple[dict[str, np.ndarray], int]:
    """All tensors that the steps leave behind, and the cycles of all launches together."""
    values = {name: x[None] for name, x in zip(compiled.graph.inputs, inputs, strict=True)}
    segments = [initial_segments(p) for p in compiled.programs]
    cycles = 0
    for step in compiled.steps:
        if isinstance(step, PackStep):
            data = step.apply(values[step.tensor])[0]
            segments[step.program][step.segment][step.offset : step.offset + data.size] = data
        elif isinstance(step, LaunchStep):
            result = simulate(compiled.programs[step.program], segments[step.program])
            assert result.fault is None, result.fault
            cycles += result.cycles
        elif isinstance(step, UnpackStep):
            data = segments[step.program][step.segment][step.offset : step.offset + step.size]
            values[step.tensor] = step.apply(data[None])
        elif isinstance(step, ReshapeStep):
            values[step.output] = values[step.input].reshape(1, *step.shape)
        elif isinstance(step, CastStep):
            values[step.output] = (values[step.input].astype(np.int32) + step.offset).astype(step.dtype)
        else:
            break
    return values, cycles


def assert_exact(graph: Graph, config: Config, seed: int = 0, policies: tuple[Policy, ...] = (Policy(),)) -> int:
    """Compile, run on random input and compare with the reference; returns the cycles of the graph alone.

    Both ways: with every operator's output stored, which says where a difference begins, and as users compile, with
    the graph's outputs alone, where tensors die on the chip.
    """
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8) for name in graph.inputs]
    expected = evaluate(graph, dict(zip(graph.inputs, inputs, strict=True)), keep=True)
    cycles = 0
    for keep in (True, False):
        compiled = compile_graph(graph, config, keep_intermediates=keep, policies=policies)
        assert not compiled.rejected
        host = [op.name for op in graph.ops if compiled.placement[op.name][0] == "host"]
        assert not [n for n in host if not n.endswith("reshape")], "fits, so it is not left to the host"
        values, cycles = run_compiled(compiled, *inputs)
        for tensor in [op.output for op in graph.ops if op.output in values]:
            got = values[tensor][0]
            same = np.array_equal(got, expected[tensor].reshape(got.shape))
            assert same, f"{tensor} differs on {config.name}, {'all' if keep else 'only outputs'} stored"
        assert all(t in values for t in graph.outputs)
    return cycles
