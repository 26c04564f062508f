"""The accelerator over the algebra: its memories hold field elements where data flows, integers where constants do.

Only batch row 0 is followed: the rows never meet, and the others carry nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.by_reference import by_reference
from tilewright.isa.program import Program
from tilewright.jit.proof.algebra import hashed
from tilewright.jit.proof.native import interpretable
from tilewright.sim.state import Memories, make_memories, make_shape


@by_reference
class Machine(NamedTuple):
    """Memories of the symbolic run; act, acc and dram hold elements, one per int8 (acc: int32).

    ``kind`` says of each lane of acc what it holds. ``weights``: entries [BLOCK_IN][BLOCK_OUT], ``data`` likewise the
    elements of those that were loaded from data, whose ``taps`` are -1; ``taps``:
    for each entry one more than its last input that has a weight, ``selects``: for each of its outputs 0 where all
    weights are zero, 1 where they are but for a single 1, else 2. ``dram`` holds all segments but the constant ones,
    an element per byte, output segments first; ``base`` is where each segment starts, -1 for constant ones, whose bytes
    lie at the addresses ``constants``. ``writer``: for each element of the output segments one more than the
    instruction that stored it, negative if there was another before. The last arrays keep what was worked out for prm
    entries: ``scale_*`` per lane for RESCALE with the rounding and the table of ``scale_tag``, ``key`` and ``keeps``
    for REQUANTIZE with the fields in ``key_tag``; tags are -1 where nothing is known.
    """

    act: NDArray[np.float64]
    acc: NDArray[np.float64]
    kind: NDArray[np.uint8]
    weights: NDArray[np.int8]
    data: NDArray[np.float64]
    taps: NDArray[np.int64]
    selects: NDArray[np.int64]
    dram: NDArray[np.float64]
    base: NDArray[np.int64]
    constants: NDArray[np.int64]
    writer: NDArray[np.int32]
    memories: Memories
    scale_tag: NDArray[np.int64]
    scale_a: NDArray[np.int64]
    scale_b: NDArray[np.int64]
    scale_key: NDArray[np.int64]
    key_tag: NDArray[np.int64]
    key: NDArray[np.int64]
    keeps: NDArray[np.bool_]
    seed: int


@interpretable
def _fill_random(values: Any, key: int) -> None:
    for n in range(len(values)):
        values[n] = hashed(n + key)


def random_elements(generator: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Random elements of the field, reduced: a random function of their positions."""
    values = np.empty(count)
    _fill_random(values, int(generator.integers(-(1 << 63), 1 << 63)))
    return values


def make_machine(program: Program, seed: int, generator: np.random.Generator) -> tuple[Machine, list[object]]:
    """Memories with random contents, and the buffers that must live as long as they do.

    What nothing has written is different from everything else, so a read of it that matters shows.
    """
    shape = make_shape(program.config)
    base, size, outputs = _lay_out(program)
    buffers: list[object] = []
    constants = np.zeros(max(1, len(program.segments)), np.int64)
    for index, segment in enumerate(program.segments):
        if segment.kind == "constant":
            content = np.zeros(segment.size, np.uint8)
            data = np.frombuffer(segment.data or b"", np.uint8)
            content[: data.size] = data
            buffers.append(content)
            constants[index] = content.ctypes.data
    entries = (shape.prm_depth, shape.block_out)
    machine = Machine(
        act=random_elements(generator, shape.act_depth * shape.lanes),
        acc=random_elements(generator, shape.acc_depth * shape.lanes),
        kind=np.zeros(shape.acc_depth * shape.lanes, np.uint8),
        weights=np.zeros(shape.wgt_depth * shape.block_in * shape.block_out, np.int8),
        data=np.zeros(shape.wgt_depth * shape.block_in * shape.block_out),
        taps=np.zeros(shape.wgt_depth, np.int64),
        selects=np.zeros(shape.wgt_depth * shape.block_out, np.int64),
        dram=random_elements(generator, size),
        base=base,
        constants=constants,
        writer=np.zeros(outputs, np.int32),
        memories=make_memories(program.config),  # the simulator's, of which constants are kept in theirs
        scale_tag=np.full(shape.prm_depth, -1, np.int64),
        scale_a=np.zeros(entries, np.int64),
        scale_b=np.zeros(entries, np.int64),
        scale_key=np.zeros(entries, np.int64),
        key_tag=np.full(shape.prm_depth, -1, np.int64),
        key=np.zeros(entries, np.int64),
        keeps=np.zeros(entries, np.bool_),
        seed=seed,
    )
    return machine, buffers


def _lay_out(program: Program) -> tuple[NDArray[np.int64], int, int]:
    """First element of each segment (-1: constant), elements in all, and of the output segments."""
    base = np.full(max(1, len(program.segments)), -1, np.int64)
    position = outputs = 0
    for output in (True, False):
        for index, segment in enumerate(program.segments):
            if segment.kind != "constant" and (segment.kind == "output") == output:
                base[index] = position
                position += segment.size
        outputs = outputs or position
    return base, position, outputs
