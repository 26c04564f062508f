"""Grouped convolutions beside dense ones: cycles on the simulator, and bytes of weights as they are stored.

``python bench/bench_groups.py [--config pynq-z2]`` prints the rows of ``docs/operators.md``. A group of ResNeXt-like
layers has 3x3 kernels, one of ShuffleNet-like ones 1x1; images are 14x14.
"""

from __future__ import annotations

import argparse

import numpy as np

from tilewright.config import Config, load_config
from tilewright.isa.functions import Rounding
from tilewright.jit import graph as g
from tilewright.jit.compiler import compile_graph
from tilewright.sim import initial_segments, simulate

SIDE = 14
LAYERS = (("3x3", 3, 128, (1, 2, 4, 8, 32)), ("1x1", 1, 240, (1, 2, 3, 4, 8)))


def layer(kernel: int, channels: int, groups: int) -> g.Conv2D:
    """A layer with seeded weights, none of them zero, that keeps the image's size."""
    weight = np.random.default_rng(0).integers(1, 128, (channels, kernel, kernel, channels // groups)).astype(np.int8)
    full = np.ones(channels, np.int32)
    requant = g.Requant(0 * full, (1 << 30) * full, 45 * full, 0 * full, Rounding.SINGLE, 0)
    edge = kernel // 2
    return g.Conv2D(
        name="y", inputs=["x"], output="y", weight=weight, requant=requant, groups=groups, padding=(edge,) * 4
    )  # fmt: skip


def stored(op: g.Conv2D, config: Config) -> int:
    """Bytes of the blocks of weights that are not all zero."""
    dense, height, width = op.expanded(), config.block_out, config.block_in
    outputs, _, _, inputs = dense.shape
    padded = np.pad(dense, ((0, -outputs % height), (0, 0), (0, 0), (0, -inputs % width)))
    blocks = padded.reshape(-1, height, *padded.shape[1:3], padded.shape[3] // width, width)
    return int(blocks.any(axis=(1, 5)).sum()) * height * width


def cycles(op: g.Conv2D, config: Config) -> int:
    """Of a program of the layer alone, its input and weights loaded and its result stored."""
    shape = (1, SIDE, SIDE, op.weight.shape[0])
    tensors = {name: g.TensorSpec(name, shape) for name in ("x", "y")}
    (program,) = compile_graph(g.Graph("layer", ["x"], ["y"], tensors, [op]), config).programs
    return simulate(program, initial_segments(program)).cycles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="pynq-z2")
    config = load_config(parser.parse_args().config)
    for name, kernel, channels, every in LAYERS:
        for groups in every:
            op = layer(kernel, channels, groups)
            print(f"| {name}, {channels} channels | {groups} | {cycles(op, config):,} | {stored(op, config):,} |")


if __name__ == "__main__":
    main()
