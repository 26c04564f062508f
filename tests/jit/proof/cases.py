"""Graphs that between them use every operator, every node and every way through memory; and their programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.jit.builder import GraphBuilder
from tilewright.config import PRESETS, Config
from tilewright.isa.program import Program
from tilewright.jit import graph as g
from tilewright.jit.compiler import CompiledGraph, compile_graph
from tilewright.jit.graph import Graph
from tilewright.jit.proof import Proof, prove
from tilewright.jit.sides import accelerator_graphs
from tilewright.jit.simplify import simplified
from tilewright.jit.split.reduction import split_sums
from tilewright.jit.substitute import Substitution
from tilewright.runtime.steps import PackStep, UnpackStep

NO_PADDING = (0, 0, 0, 0)
TINY = PRESETS["tiny"]
SMALL = TINY.replace(name="small", act_bytes=4096, wgt_bytes=8192, prm_entries=16)


def mixed(config: Config) -> Graph:
    """Patches, depthwise, residual add with a twin, pools with padding, global pool, classifier."""
    b = GraphBuilder(1, (12, 11, 3))
    x = b.conv("x", 8, (3, 3), (1, 1))
    x = b.add(b.conv(b.depthwise(x), 8, (1, 1), padding=NO_PADDING), x)
    x = b.max_pool(x, (3, 3), (2, 2), (1, 1, 1, 1))
    x = b.average_pool(x, (3, 3), (1, 1), (1, 1, 1, 1))
    x = b.requantize(b.conv(x, 12, (3, 3), (2, 2), (0, 1, 1, 0)))
    x = b.average_pool(x, b.shape(x)[1:3])
    return b.graph(b.dense(x, 20))


def joined(config: Config) -> Graph:
    """Concatenations, one of them an output, explicit padding and two padding values for one tensor."""
    channels = config.widest_block
    b = GraphBuilder(2, (10, 9, channels))
    x = b.pad("x", (1, 0, 2, 1))
    y = b.conv(x, channels, (1, 1), padding=NO_PADDING)
    z = b.conv(x, channels)
    w = b.concat(y, z, b.max_pool(x, (3, 3), (1, 1), (1, 1, 1, 1)))
    return b.graph(w, b.conv(w, 7, groups=1))


def output_concat(config: Config) -> Graph:
    """A concatenation of two convolutions as output: its first part may not run ahead of the second."""
    channels = max(16, config.block_in, config.block_out)
    b = GraphBuilder(3, (16, 16, 16))
    parts = [b.conv("x", channels, (1, 1), padding=NO_PADDING) for _ in range(2)]
    return b.graph(b.concat(*parts))


def flattened(config: Config) -> Graph:
    """A dense layer over an image, dilation, even kernels, groups."""
    b = GraphBuilder(4, (9, 8, 6))
    x = b.conv("x", 8, (3, 3), padding=(2, 2, 2, 2), dilation=(2, 2))
    x = b.conv(x, 12, (2, 2), (2, 2), (0, 0, 1, 0), groups=2)
    x = b.depthwise(x, (5, 3), (2, 1), (2, 1, 2, 1))
    x = b.depthwise(x, (3, 3), padding=(2, 2, 2, 2), dilation=(2, 2))
    _, h, w, c = b.shape(x)
    return b.graph(b.dense(b.reshape(x, (1, 1, 1, h * w * c)), 10))


def inverted_residuals(config: Config) -> Graph:
    """On a small chip: slices of channels, groups, tensors that go through DRAM."""
    b = GraphBuilder(5, (12, 12, 3))
    x = b.conv("x", 8, (3, 3), (2, 2), (0, 0, 1, 1))
    for step in range(2):
        y = b.conv(x, 48, (1, 1), padding=NO_PADDING)
        y = b.conv(b.depthwise(y), 8, (1, 1), padding=NO_PADDING)
        x = b.add(x, y) if step else y
    x = b.average_pool(b.conv(x, 96, (1, 1), padding=NO_PADDING), (6, 6))
    return b.graph(b.dense(x, 10))


def wide_middle(config: Config) -> Graph:
    """On a small chip: chunks of weights over groups of rows, the tensor between them through DRAM with its padding."""
    b = GraphBuilder(6, (16, 12, 8))
    x = b.conv(b.conv("x", 40), 16)
    return b.graph(b.conv(x, 24, strides=(2, 2)))


def paired(config: Config) -> Graph:
    """Products, extremes and sums of two tensors, one with a single row, column or pixel; in squeeze-and-excite."""
    b = GraphBuilder(7, (8, 7, 6))
    x = b.conv("x", 20)
    gate = b.dense(b.average_pool(x, (8, 7)), 20)
    x = b.pairwise(g.Multiply, x, gate)
    y = b.pairwise(g.Multiply, b.pairwise(g.Add, x, b.max_pool(x, (8, 1), (1, 1))), x)
    y = b.pairwise(g.Minimum, b.pairwise(g.Maximum, y, b.max_pool(x, (1, 7), (1, 1))), x)
    return b.graph(b.conv(y, 9, (1, 1), padding=NO_PADDING))


def reduced(config: Config) -> Graph:
    """Sums that leave acc in planes, in two and in three, and what adds them up."""
    b = GraphBuilder(8, (5, 6, 8))
    whole = b.conv(b.concat("x", b.requantize("x")), 12)
    (*ops, op) = b.ops
    assert isinstance(op, g.Conv2D)
    op.weight[..., 8:] //= 32
    sums, total = split_sums(op, [0, 8, 16], 16)
    few, few_total = split_sums(replace(op, name="few", weight=op.weight[..., 8:]), [0, 8], 16)
    shape = (*b.shape(whole)[:-1], 16)
    for each, planes in ((sums[0], len(total.scales)), (few[0], len(few_total.scales))):
        b.tensors[each.output] = g.TensorSpec(each.output, (*shape[:-1], 16 * planes))
    b.ops = [ops[0], replace(sums[0], inputs=["x"]), replace(few[0], inputs=[ops[0].output])]
    both = replace(total, inputs=[sums[0].output] * 2)
    b.ops += [both, replace(few_total, output="few")]
    b.tensors["few"] = replace(b.tensors[whole], name="few")
    return b.graph(whole, "few")


@dataclass(frozen=True)
class Case:
    """A graph on a Config, compiled with or without all its intermediate tensors stored."""

    build: Callable[[Config], Graph]
    config: Config
    keep: bool = False

    @property
    def name(self) -> str:
        return f"{self.build.__name__}-{self.config.name}{'-keep' if self.keep else ''}"

    @property
    def graph(self) -> Graph:
        return self.build(self.config)


CASES = [
    Case(mixed, TINY),
    Case(joined, TINY),
    Case(paired, TINY),
    Case(reduced, TINY),
    Case(flattened, TINY, keep=True),
    Case(inverted_residuals, SMALL),
    Case(inverted_residuals, SMALL.replace(name="packed", dsp_packing=True), keep=True),
    Case(wide_middle, SMALL, keep=True),
    Case(mixed, TINY.replace(name="wide-out", block_out=8, acc_bytes=32 * 1024)),
    Case(mixed, TINY.replace(name="wide-in", block_in=16, wgt_bytes=32 * 1024)),
    Case(joined, TINY.replace(name="batch-2", batch=2, axi_bits=64)),
]


@dataclass(frozen=True)
class Part:
    """One program of a compiled graph, and what it has to compute."""

    graph: Graph
    program: Program
    packs: list[PackStep]
    unpacks: list[UnpackStep]

    def prove(self) -> Proof:
        return prove(self.graph, self.program, self.packs, self.unpacks)


def parts(compiled: CompiledGraph) -> list[Part]:
    """The programs of a compiled graph with their graphs and steps; all outputs that are unpacked count.

    None of them may be a part of a graph that did not compile as one.
    """
    found = []
    graphs = accelerator_graphs(compiled.graph, compiled.config)
    assert len(graphs) == len(compiled.programs)
    for number, graph in enumerate(graphs):
        packs = [s for s in compiled.steps if isinstance(s, PackStep) and s.program == number]
        unpacks = [s for s in compiled.steps if isinstance(s, UnpackStep) and s.program == number]
        outputs = [u.tensor for u in unpacks]
        graph = replace(graph, outputs=outputs)
        program = compiled.programs[number]
        substitutions = tuple(Substitution(*names) for names in program.meta["substitutions"])
        found.append(Part(simplified(graph, compiled.config, substitutions).graph, program, packs, unpacks))
    return found


def compiled_parts(graph: Graph, config: Config, keep: bool = False) -> list[Part]:
    return parts(compile_graph(graph, config, keep_intermediates=keep))
