"""Where a program goes wrong: the first value that has no place in its layer. Only run on programs that are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.codec import rows_of
from tilewright.isa.effects import effects
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Fields, Opcode
from tilewright.isa.uops import Block
from tilewright.jit.graph import Graph
from tilewright.jit.proof.elements import residues
from tilewright.jit.proof.graph_side import Elements, evaluate_elements
from tilewright.jit.proof.machine import random_elements
from tilewright.jit.proof.program_side import ProgramSide
from tilewright.runtime.steps import PackStep

_NONE = "every value computed is an element of its layer's tensors, so it is loaded, kept or stored in the wrong place"


def first_stray(
    graph: Graph, program: Program, packs: Sequence[PackStep], seed: int, generator: np.random.Generator
) -> str:
    """The first REQUANTIZE that writes what is no element of its layer's output or inputs, as half a sentence.

    The program runs on two sets of inputs with the same functions: what comes out alike depends on no input, as in the
    lanes beyond a tensor's channels, and is not judged.
    """
    layers = program.meta.get("layers", [])
    numbers = program.meta.get("instruction_layer", [])
    inputs = [_inputs(graph, generator) for _ in range(2)]
    legal = _legal(graph, inputs[0], seed)
    sides = [ProgramSide(program, packs, i, seed, np.random.default_rng(0)) for i in inputs]
    table = sides[0].table
    for n, opcode in enumerate(table["opcode"].tolist()):
        for side in sides:
            side.run(n, n + 1)
        if opcode != Opcode.REQUANTIZE or n >= len(numbers) or numbers[n] >= len(layers):
            continue
        known = legal.get(layers[numbers[n]]["name"])
        if known is None:
            continue
        units = _written(next(rows_of(table[n : n + 1])), sides[0])
        first, second = (residues(side.machine.act[units]) for side in sides)
        found = known[np.minimum(np.searchsorted(known, first), len(known) - 1)] == first
        stray = (first != second) & ~found
        if stray.any():
            return (
                f"instruction {n} (REQUANTIZE) of layer {layers[numbers[n]]['name']} is the first to write what is no "
                f"element of its layer's tensors: {int(stray.sum())} of {stray.size} values"
            )
    return _NONE


def _inputs(graph: Graph, generator: np.random.Generator) -> dict[str, Elements]:
    shapes = {t: graph.tensors[t].shape for t in graph.inputs}
    return {t: random_elements(generator, int(np.prod(s))).reshape(s) for t, s in shapes.items()}


def _legal(graph: Graph, inputs: Mapping[str, Elements], seed: int) -> dict[str, NDArray[np.int64]]:
    """By operator: the elements of its output and of its inputs (which a copy with other padding holds), sorted."""
    values = {t: residues(v) for t, v in evaluate_elements(graph, inputs, seed, keep=True).items()}
    return {op.name: np.sort(np.concatenate([values[t] for t in (op.output, *op.inputs)])) for op in graph.ops}


def _written(row: Fields, side: ProgramSide) -> NDArray[np.int64]:
    """Indices into act of the elements that a REQUANTIZE wrote."""
    shape, uops, config = side.shape, side.machine.memories.uop_alu, side.program.config
    block = Block(uops[(row.uop_begin + np.arange(row.uop_count)) % len(uops)], Engine.ALU, config)
    access = next(access for access in effects(row, block, config) if access.writes)
    units = access.visits() % shape.act_depth // shape.out_units * shape.out_units
    return (units[:, None] * shape.lanes + np.arange(shape.block_out)).ravel()
