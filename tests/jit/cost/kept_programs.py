"""Programs of random graphs as they were last: ``python -m tests.jit.cost.kept_programs`` keeps others.

What the planner, the tiles and the writer of instructions choose for odd shapes on random Configs. Their integers and
their legality have tests of their own; a choice that slipped shows here alone, as other cycles or another number of
instructions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.jit.builder import GraphBuilder
from tests.jit.random_graphs import odd_graph, random_config
from tilewright.config import PRESETS
from tilewright.jit.compiler import compile_graph
from tilewright.jit.errors import PlaceError
from tilewright.sim import simulate_timing

KEPT = Path(__file__).with_name("kept_programs.json")
ODD, DEEP = range(1000, 1048), range(2000, 2024)
SEEDS = (*ODD, *DEEP)
NAMED = ("pynq-z2", "tiny", "zcu104")


def blocks(seed: int) -> tuple[GraphBuilder, list[str]]:
    """Inverted residual blocks and a classifier: more layers than stream at once through small memories."""
    rng = np.random.default_rng(seed)
    height, width, depth = (int(n) for n in (*rng.integers(6, 20, 2), rng.integers(3, 20)))
    b = GraphBuilder(seed, (height, width, depth))
    x = b.conv("x", int(rng.integers(8, 40)))
    for _ in range(int(rng.integers(2, 5))):
        channels, stride = b.shape(x)[3], int(rng.integers(1, 3))
        wide = channels * int(rng.integers(2, 5))
        y = b.depthwise(b.conv(x, wide, (1, 1), padding=(0, 0, 0, 0)), strides=(stride, stride))
        y = b.conv(y, channels if rng.integers(2) else int(rng.integers(8, 64)), (1, 1), padding=(0, 0, 0, 0))
        x = b.add(x, y) if b.shape(x) == b.shape(y) else y
    return b, [b.dense(b.average_pool(x, b.shape(x)[1:3]), int(rng.integers(2, 40)))]


def found(seed: int) -> dict[str, Any]:
    """Of each program its cycles, instructions, and bytes of constants and micro-ops; or why there is none."""
    builder, outputs = odd_graph(seed) if seed in ODD else blocks(seed)
    config = random_config(seed) if seed % 2 else PRESETS[NAMED[seed // 2 % len(NAMED)]]
    try:
        compiled = compile_graph(builder.graph(*outputs), config)
    except PlaceError as error:
        return {"refused": str(error)}
    programs = compiled.programs
    return {
        "cycles": [simulate_timing(program).cycles for program in programs],
        "instructions": [program.instruction_count for program in programs],
        "bytes": [sum(len(segment.data or b"") for segment in program.segments) for program in programs],
    }


if __name__ == "__main__":
    rows = ",\n".join(f" {json.dumps(str(seed))}: {json.dumps(found(seed))}" for seed in SEEDS)
    KEPT.write_text(f"{{\n{rows}\n}}\n")
