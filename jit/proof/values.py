"""The check that remains where the algebra cannot follow: some inputs, run on the simulator against the reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.isa.program import Program
from tilewright.jit.errors import ProofError
from tilewright.jit.graph import Graph
from tilewright.jit.reference import evaluate
from tilewright.runtime.segments import segment_memories
from tilewright.runtime.steps import PackStep, UnpackStep
from tilewright.sim import Functional

RANDOM_INPUTS = 8
EXTREMES = (-128, 0, 127)  #: and tensors full of these


def check_values(graph: Graph, program: Program, packs: Sequence[PackStep], unpacks: Sequence[UnpackStep]) -> int:
    """How many output elements were equal, all inputs together. Raises :class:`ProofError` at the first that is not."""
    generator = np.random.default_rng(0)
    functional = Functional(program)
    elements = 0
    for trial in range(len(EXTREMES) + RANDOM_INPUTS):
        inputs = {}
        for t in graph.inputs:
            shape = graph.tensors[t].shape
            random = generator.integers(-128, 128, shape).astype(np.int8)
            inputs[t] = np.full(shape, EXTREMES[trial], np.int8) if trial < len(EXTREMES) else random
        expected = evaluate(graph, inputs)
        segments = segment_memories(program, 1)
        for pack in packs:
            segments[pack.segment][pack.offset : pack.offset + pack.size] = pack.apply(inputs[pack.tensor][None])[0]
        fault = functional.run(segments).fault
        if fault is not None:
            raise ProofError(f"{graph.name}: {fault}")
        for unpack in unpacks:
            data = segments[unpack.segment][unpack.offset : unpack.offset + unpack.size]
            got, wanted = unpack.apply(data[None])[0], expected[unpack.tensor]
            if got.shape != wanted.shape or not np.array_equal(got, wanted):
                count = int((got != wanted).sum()) if got.shape == wanted.shape else got.size
                raise ProofError(f"{graph.name}: output {unpack.tensor}: {count} of {got.size} elements wrong")
            elements += got.size
    return elements
