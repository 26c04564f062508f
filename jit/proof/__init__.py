"""No program leaves the compiler unproven: a program is shown to compute its graph.

:func:`prove` knows the integer graph, the finished program and the steps that pack its inputs and unpack its outputs.
It knows nothing of how the compiler got from one to the other. Graph and program are both evaluated in the algebra of
:mod:`tilewright.jit.proof.algebra`; where they agree on every output element, they agree for all inputs. ``docs/
compiler.md`` has the argument, and what cannot be followed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from tilewright.isa.program import Program
from tilewright.jit.errors import ProofError, Unfollowed
from tilewright.jit.graph import Graph
from tilewright.jit.proof.diagnosis import first_stray
from tilewright.jit.proof.elements import differing
from tilewright.jit.proof.graph_side import Elements, evaluate_elements
from tilewright.jit.proof.machine import random_elements
from tilewright.jit.proof.program_side import ProgramSide
from tilewright.jit.proof.values import check_values
from tilewright.runtime.steps import PackStep, UnpackStep

__all__ = ["Proof", "ProofError", "Unfollowed", "prove", "prove_symbolically"]


@dataclass(frozen=True)
class Proof:
    """That a program computes its graph.

    ``method``: ``symbolic``, for all inputs; or ``values``, for some inputs only, because of ``reason``. ``elements``:
    how many were compared (for all inputs together).
    """

    method: Literal["symbolic", "values"]
    elements: int
    seconds: float
    reason: str = ""

    @property
    def followed(self) -> bool:
        """Whether it holds for all inputs."""
        return self.method == "symbolic"


def prove(graph: Graph, program: Program, packs: Sequence[PackStep], unpacks: Sequence[UnpackStep]) -> Proof:
    """Show that ``program`` computes ``graph``, from the inputs that ``packs`` lay out to those that ``unpacks`` read.

    The program must have passed the verifier, the steps must be this program's. Raises :class:`ProofError`.
    """
    start = time.perf_counter()
    _check_edges(graph, packs, unpacks)
    try:
        elements = prove_symbolically(graph, program, packs, unpacks)
    except Unfollowed as unfollowed:
        elements = check_values(graph, program, packs, unpacks)
        return Proof("values", elements, time.perf_counter() - start, str(unfollowed))
    return Proof("symbolic", elements, time.perf_counter() - start)


def prove_symbolically(graph: Graph, program: Program, packs: Sequence[PackStep], unpacks: Sequence[UnpackStep]) -> int:
    """How many elements were shown to be right for all inputs. Raises :class:`ProofError`, :class:`Unfollowed`."""
    generator = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))
    seed = int(generator.integers(-(1 << 63), 1 << 63))
    inputs = {t: _random_tensor(graph, t, generator) for t in graph.inputs}
    with threadpool_limits(1, "blas"):  # more threads mostly wait for each other, at full processor time
        expected = evaluate_elements(graph, inputs, seed)
    side = ProgramSide(program, packs, inputs, seed, generator)
    side.run()
    for unpack in unpacks:
        problem = _problem(side, unpack, expected[unpack.tensor])
        if problem:
            raise ProofError(f"{graph.name}: {problem}; {first_stray(graph, program, packs, seed, generator)}")
    return sum(expected[unpack.tensor].size for unpack in unpacks)


def _random_tensor(graph: Graph, tensor: str, generator: np.random.Generator) -> Elements:
    shape = graph.tensors[tensor].shape
    return random_elements(generator, int(np.prod(shape))).reshape(shape)


def _check_edges(graph: Graph, packs: Sequence[PackStep], unpacks: Sequence[UnpackStep]) -> None:
    """Every output is unpacked once, and nothing is packed or unpacked that is not the graph's."""
    if sorted(u.tensor for u in unpacks) != sorted(graph.outputs):
        raise ProofError(f"{graph.name}: outputs {graph.outputs}, unpacked are {[u.tensor for u in unpacks]}")
    for pack in packs:
        if pack.tensor not in graph.inputs:
            raise ProofError(f"{graph.name}: pack {pack.tensor}: no input of the graph")


def _problem(side: ProgramSide, unpack: UnpackStep, expected: Elements) -> str:
    """What is wrong with an output; empty if nothing is."""
    got, writers = side.output(unpack), side.writers(unpack)
    if got.shape != expected.shape:
        return f"output {unpack.tensor}: unpacked as {got.shape}, its shape is {expected.shape}"
    if writers.min() <= 0:
        wrong, what = writers <= 0, "not stored exactly once"
    else:
        wrong, what = np.empty(got.size, np.bool_), "wrong"
        if not differing(np.ascontiguousarray(got + unpack.value_offset).ravel(), expected.ravel(), wrong):
            return ""
        wrong = wrong.reshape(got.shape)
    index = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    where = _position(tuple(int(k) for k in index))
    writer = int(writers[index])
    by = f", stored by instruction {abs(writer) - 1}" if writer else ", never stored"
    return f"output {unpack.tensor}: {int(wrong.sum())} of {wrong.size} elements {what}, the first at {where}{by}"


def _position(index: tuple[int, ...]) -> str:
    if len(index) == 4:
        return f"row {index[1]}, column {index[2]}, channel {index[3]}"
    return f"position {index}"
