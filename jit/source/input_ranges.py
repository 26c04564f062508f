"""Ranges of inputs that a file gives no scale."""

from __future__ import annotations

from dataclasses import replace

from tilewright.jit.graph import Graph, QuantizeFloat, Reshape, Transpose


def state_ranges(graph: Graph) -> None:
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
