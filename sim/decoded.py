"""A program made ready to simulate: decoded table, and the faults that its fields alone decide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.codec import EncodingError, Table, columns_of, decode_table
from tilewright.isa.effects import dram_end, row_beats
from tilewright.isa.program import Program
from tilewright.isa.spec import Memory, Opcode, instruction_width
from tilewright.sim.result import Fault, FaultCode


@dataclass(frozen=True)
class Decoded:
    """The decodable head of a program.

    ``table``: the first ``legal`` instructions; ``row_beats``: beats of each row of a LOAD or STORE, 0 for others;
    ``outside``: bool per instruction, true where a LOAD or STORE reaches outside its segment; ``total``:
    instructions in the program; ``illegal``: the fault of instruction ``legal``, if it does not decode.
    """

    config: Config
    table: Table
    row_beats: NDArray[np.int64]
    outside: NDArray[np.bool_]
    total: int
    illegal: Fault | None

    @property
    def fault(self) -> Fault | None:
        """The first fault in program order that fields and segments decide."""
        if self.outside.any():
            index = int(np.argmax(self.outside))
            opcode = Opcode(int(self.table["opcode"][index])).name
            segment = int(self.table["segment"][index])
            return Fault(FaultCode.SEGMENT, index, f"instruction {index} ({opcode}) reaches outside segment {segment}")
        return self.illegal


def _first_illegal(instructions: bytes, size: int, config: Config) -> tuple[int, str]:
    """Index and message of the first instruction that does not decode, by bisection."""
    low, high, message = 0, -(-len(instructions) // size), ""
    while low < high:
        middle = (low + high) // 2
        try:
            decode_table(instructions[low * size : (middle + 1) * size], config)
        except EncodingError as error:
            high, message = middle, str(error)
        else:
            low = middle + 1
    try:
        decode_table(instructions[low * size : (low + 1) * size], config)
    except EncodingError as error:
        message = str(error).replace("instruction 0", f"instruction {low}")
    return low, message


def decode_program(program: Program) -> Decoded:
    """Decode once; the result serves any number of runs."""
    config, size = program.config, instruction_width(program.config) // 8
    total = -(-len(program.instructions) // size)  # a truncated last one counts, and does not decode
    illegal: Fault | None = None
    try:
        table = decode_table(program.instructions, config)
    except EncodingError:
        index, message = _first_illegal(program.instructions, size, config)
        table = decode_table(program.instructions[: index * size], config)
        illegal = Fault(FaultCode.ILLEGAL, index, message)
    bad_fill = (table["opcode"] == Opcode.FILL) & (table["memory"] != Memory.ACT) & (table["memory"] != Memory.ACC)
    if bad_fill.any():
        index = int(np.argmax(bad_fill))
        memory = Memory(int(table["memory"][index])).name
        table = table[:index]
        illegal = Fault(FaultCode.ILLEGAL, index, f"instruction {index} (FILL): memory {memory} cannot be filled")
    fields = columns_of(table)
    moves = (fields.opcode == Opcode.LOAD) | (fields.opcode == Opcode.STORE)
    limits = np.zeros(1 << 8, np.int64)
    for index, segment in enumerate(program.segments):
        limits[index] = segment.size // config.beat_bytes
    outside = moves & (dram_end(fields, config) > limits[fields.segment])
    return Decoded(config, table, np.where(moves, row_beats(fields, config), 0), outside, total, illegal)
