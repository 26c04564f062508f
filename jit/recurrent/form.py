"""What the program of a recurrent layer is, and what its writers share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.program import Program, Segment, whole_pages
from tilewright.jit.cost.lower_bound import LowerBound
from tilewright.jit.emit.writer import INPUT, OUTPUT
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph, Recurrent
from tilewright.jit.ir.regions import image_shape
from tilewright.jit.recurrent.state import with_states
from tilewright.jit.recurrent.vectors import Run, VectorWriter
from tilewright.runtime.steps import PackStep, TensorSpec, UnpackStep

MOST_STEPS = 1 << 10  #: of a program: up to 160 instructions each, which take as many milliseconds to prove

Layer = TypeVar("Layer", bound=Recurrent)


@dataclass(frozen=True)
class RecurrentProgram:
    """A program, what it says of its layer left out, and the steps around it, as program 0.

    ``graph``: what it computes, the layer with ``states``. ``bound``: with ALU's work and the loads of weights as they
    are written.
    """

    graph: Graph
    states: tuple[TensorSpec, ...]
    program: Program
    packs: list[PackStep]
    unpacks: list[UnpackStep]
    bound: LowerBound


class Places:
    """Units of a memory handed out one after another, vectors of ``span`` of them; errors name the layer ``what``."""

    def __init__(self, what: str, first: int, stop: int, span: int, memory: str) -> None:
        self._what, self._next, self._stop, self._span, self._memory = what, first, stop, span, memory

    def take(self, vectors: int) -> Run:
        run = Run(self._next, vectors, self._span)
        self._next += vectors * self._span
        if self._next > self._stop:
            raise PlaceError(f"{self._what} that does not fit {self._memory}; raise {self._memory}_bytes")
        return run


class LayerWriter(Generic[Layer]):
    """Writes the program of a graph that is a single layer, ``what`` in errors. Each of ``steps`` is a pixel of its
    input."""

    def __init__(self, what: str, graph: Graph, config: Config) -> None:
        self.graph, self.kept = with_states(graph)
        op: Any = self.graph.ops[0]
        self.op: Layer = op
        self.what, self.c = what, config
        self.shape = image_shape(graph.tensors[op.inputs[0]].shape)
        self.steps = math.prod(self.shape[:3])
        if self.steps > MOST_STEPS:
            raise PlaceError(f"{what} of {self.steps} steps, more than the {MOST_STEPS} of a program")
        self.w = VectorWriter(config)
        self.w.begin(0, op.name)

    def places(self, first: int, stop: int, span: int, memory: str) -> Places:
        return Places(self.what, first, stop, span, memory)

    def vectors(self, units: int) -> int:
        """Vectors of BLOCK_OUT that so many units fill, which are whole blocks of inputs as well."""
        block = self.c.widest_block
        return -(-units // block) * block // self.c.block_out

    def filled(self, values: NDArray[Any], vectors: int) -> NDArray[Any]:
        """(units,) or (units, inputs) with units filled up to so many vectors."""
        return np.pad(values, [(0, vectors * self.c.block_out - len(values))] + [(0, 0)] * (values.ndim - 1))

    def blocks(self, weight: NDArray[np.int8], vectors: int) -> NDArray[np.int8]:
        """Blocks (vectors, blocks of inputs, BLOCK_OUT, BLOCK_IN) of (units, inputs)."""
        filled = self.filled(weight, vectors)
        filled = np.pad(filled, [(0, 0), (0, -filled.shape[1] % self.c.block_in)])
        return filled.reshape(vectors, self.c.block_out, -1, self.c.block_in).transpose(0, 2, 1, 3)

    def move(self, move: Callable[..., None], run: Run, segment: int, first: int) -> None:
        """LOAD or STORE of a run of units, from unit ``first`` of a segment on."""
        offset = first * self.c.act_unit_bytes // self.c.beat_bytes
        fields = {"sram_col": 1, "wrap_base": 0, "wrap_size": self.c.act_units}
        move({**fields, "sram": run.first, "cols": run.count, "segment": segment, "offset": offset}, None)

    def finished(self, pixel: int, result: int, state: int, weight_bytes: int, array: int) -> RecurrentProgram:
        """What was written, with units of a pixel of the input, of the result and of states, bytes of weights that
        cross the bus, and cycles of the array."""
        c, output, tensors = self.c, self.op.output, self.graph.tensors
        lanes, batch, shape = c.lanes, c.batch, image_shape(tensors[output].shape)
        packs = [PackStep(self.op.inputs[0], INPUT, self.shape, lanes, pixel, batch=batch)]
        unpacks = [UnpackStep(output, OUTPUT, shape, tensors[output].shape, lanes, result, batch=batch)]
        for kept in self.kept:
            shape = image_shape(kept.shape)
            packs.append(PackStep(kept.name, INPUT, shape, lanes, state, offset=_end(packs), batch=batch))
            unpacks.append(UnpackStep(kept.name, OUTPUT, shape, shape, lanes, state, offset=_end(unpacks), batch=batch))
        read, written = _end(packs), _end(unpacks)
        given, taken = whole_pages(read), whole_pages(written)
        segments = [
            Segment("input", "input", given, repeat_stride=given),
            Segment("output", "output", taken, repeat_stride=taken),
        ]
        macs = self.op.macs(self.graph)
        bound = LowerBound(array, self.w.vectors, weight_bytes + read, written, macs, min(macs, array * c.array_macs))
        return RecurrentProgram(self.graph, self.kept, self.w.program(segments, {}), packs, unpacks, bound)


def _end(steps: Sequence[PackStep | UnpackStep]) -> int:
    """Where in a segment what these steps move ends."""
    return steps[-1].offset + steps[-1].size
