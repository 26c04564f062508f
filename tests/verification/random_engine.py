"""Seeded random legal programs that are about one engine: data comes in, the engine works, everything is shown.

What an engine wrote is only seen in DRAM, so such a program ends with a *dump*: the working areas of act and acc
are stored whole, acc byte by byte; before that, weights, parameters and tables that were loaded are used once each.
"""

from __future__ import annotations

import numpy as np

from tests.verification.random_order import History
from tests.verification.random_program import GrowingProgram
from tests.verification.random_state import CONSTANT, OUTPUT
from tilewright.config import Config
from tilewright.isa.arithmetic import RESCALE_LEFT_SHIFT, wrap_int32
from tilewright.isa.codec import encode_uops
from tilewright.isa.functions import AluOp, Rounding
from tilewright.isa.program import Program
from tilewright.isa.spec import TABLE_ENTRIES, TABLE_VALUES, UOP_MEMORY, Engine, Memory, Opcode, uop_depth, uop_width

__all__ = ["KINDS", "random_engine_program"]

#: the kinds of instruction that each engine runs, with their weights
KINDS: dict[Engine, dict[str, int]] = {
    Engine.LOAD: {"load": 6, "load_uops": 2, "fill": 3, "wait": 1},
    Engine.GEMM: {"dense": 1, "window": 1},
    Engine.ALU: {"alu": 2, "requantize": 2, "rescale": 2},
    Engine.STORE: {"store": 1},
}
DATA_LOADS = 8  #: LOADs ahead of the engine's own instructions, so that it has more than constants to work on
UOP_USERS = {"dense": 1, "window": 1, "alu": 1}  #: what shows that micro-ops were loaded right
MICRO_OP_USES = 4
BYTES = 4  #: of an accumulator
WORD_BITS, BYTE_BITS = 32, 8


def random_engine_program(rng: np.random.Generator, config: Config, engine: Engine, size: int) -> Program:
    """A legal program of about ``size`` instructions of one engine, with what they need before and a dump behind."""
    growing = GrowingProgram(rng, config)
    growing.set_up()
    growing.grow({"load": 1}, DATA_LOADS)
    growing.grow(KINDS[engine], size)
    dump = _Dump(growing)
    if engine == Engine.STORE:
        dump.activations()
    else:
        dump.accumulators()
    if engine == Engine.LOAD:
        dump.weights()
        dump.accumulators()
        dump.parameters()
        dump.tables()
        growing.grow(UOP_USERS, MICRO_OP_USES)
        dump.accumulators()
    return growing.finish()


class _Dump:
    """Instructions that make memories visible in the output segment, which grows by what they store."""

    def __init__(self, growing: GrowingProgram) -> None:
        self.growing, self.state, self.config = growing, growing.state, growing.config
        self.span = growing.config.out_units
        self.act, self.acc = (self.state.area[memory] for memory in (Memory.ACT, Memory.ACC))

    def activations(self) -> None:
        """STORE of act's working area."""
        start, length = self.act
        beats = length * self.config.act_unit_bytes // self.config.beat_bytes
        offset = self._grow_output(beats)
        fields = {
            "rows": 1, "cols": length, "sram_col": 1, "wrap_base": start, "wrap_size": length, "segment": OUTPUT,
            "offset": offset,
        }  # fmt: skip
        self._emit(Opcode.STORE, fields)

    def accumulators(self) -> None:
        """Every byte of acc's working area, through act: the top byte is taken and the rest shifted up."""
        self.activations()
        entry = np.zeros((self.config.block_out, BYTES), np.int64)
        shift = WORD_BITS - BYTE_BITS
        entry[:, 1:] = 1, wrap_int32(-(1 << shift - 1)), shift  # times 1, no rounding, to the lowest byte
        self._load_constant(Memory.PRM, entry.astype("<i4").tobytes(), 1)
        self._load_plain_uop(Engine.ALU)
        vectors = self.acc[1] // self.span
        for _ in range(BYTES):
            self._through_act(vectors, prm=0, prm_step=0)
            self._shift_up(vectors)

    def weights(self) -> None:
        """One dense GEMM a weight entry of the working area, on whatever act holds; the dump of acc shows them."""
        self._load_plain_uop(Engine.GEMM)
        start, length = self.state.area[Memory.WGT]
        spans = self.act[1] // self.config.in_units
        for first in range(0, length, self.acc[1] // self.span):
            count = min(self.acc[1] // self.span, length - first)
            fields = {
                "uop_count": 1, "outer": 1, "inner": count, "dst": self.acc[0], "dst_inner": self.span,
                "src": 0, "src_inner": 0, "wgt": start + first, "wgt_inner": int(count > 1),
                "wrap_base": self.act[0], "wrap_size": spans * self.config.in_units,
            }  # fmt: skip
            self._emit(Opcode.GEMM, fields)
            if first + count < length:
                self.accumulators()

    def parameters(self) -> None:
        """One REQUANTIZE vector a parameter entry of the working area."""
        self._load_plain_uop(Engine.ALU)
        start, length = self.state.area[Memory.PRM]
        for first in range(0, length, self.acc[1] // self.span):
            count = min(self.acc[1] // self.span, length - first)
            self._through_act(count, prm=start + first, prm_step=1)

    def tables(self) -> None:
        """Every value of the working area's tables, each at its place in act; the dump of acc shows them."""
        self._load_plain_uop(Engine.ALU)
        lanes = self.config.batch * self.config.block_out
        vectors = min(self.act[1], self.acc[1]) // self.span
        keep = np.tile(np.array([0, 1, 0, RESCALE_LEFT_SHIFT]), (self.config.block_out, 1))
        self._load_constant(Memory.PRM, keep.astype("<i4").tobytes(), 1)
        start, length = self.state.area[Memory.TABLE]
        inner = {"dst_inner": self.span, "src_inner": self.span} if vectors > 1 else {}
        for number in range(start // TABLE_ENTRIES, (start + length) // TABLE_ENTRIES):
            for first in range(0, TABLE_VALUES, vectors * lanes):
                content = np.arange(first, first + vectors * lanes).astype(np.uint8)
                units = vectors * self.config.out_units
                self._load_constant(Memory.ACT, content.tobytes(), units, self.act[0])
                fields = {
                    "uop_count": 1, "outer": 1, "inner": vectors, "dst": self.acc[0], "src": 0, **inner,
                    "wrap_base": self.act[0], "wrap_size": self.act[1], "rounding": int(Rounding.SINGLE), "lookup": 1,
                    "table": number,
                }  # fmt: skip
                self._emit(Opcode.RESCALE, fields)
                self._through_act(vectors, prm=0, prm_step=0)

    # -- pieces ----------------------------------------------------------------------------------------

    def _grow_output(self, beats: int) -> int:
        """More beats at the end of the output segment; the first of them."""
        first = self.state.beats[OUTPUT]
        self.state.beats[OUTPUT] += beats
        old, new = self.state.dram[OUTPUT], History(first + beats)
        new.read[:, :first], new.write[:, :first] = old.read, old.write
        self.state.dram[OUTPUT] = new
        return first

    def _load_constant(self, memory: Memory, data: bytes, entries: int, first: int = 0) -> None:
        """LOAD of entries of a memory, from ``first`` on, from new constants."""
        beat = self.config.beat_bytes
        self.state.blob += b"\0" * (-len(self.state.blob) % beat)
        offset = len(self.state.blob) // beat
        self.state.blob += data + bytes(-len(data) % beat)
        fields = {
            "memory": int(memory), "rows": 1, "cols": entries, "sram": first, "sram_col": 1,
            "wrap_size": self.config.act_units, "segment": CONSTANT, "offset": offset,
        }  # fmt: skip
        self._emit(Opcode.LOAD, fields)

    def _load_plain_uop(self, engine: Engine) -> None:
        """A micro-op of zeros at index 0: bases and loop steps alone say what happens."""
        memory = UOP_MEMORY[engine]
        count = max(1, self.config.beat_bytes * BYTE_BITS // uop_width(self.config, engine))
        assert count <= uop_depth(self.config, engine)
        self._load_constant(memory, encode_uops([{}] * count, engine, self.config), count)
        self.state.uops[memory][:count] = 0

    def _through_act(self, vectors: int, prm: int, prm_step: int) -> None:
        """REQUANTIZE the first vectors of acc's area to act's and store that, as often as it takes."""
        room = self.act[1] // self.span
        for first in range(0, vectors, room):
            count = min(room, vectors - first)
            begin = prm + first * prm_step
            fields = {
                "uop_count": 1, "outer": 1, "inner": count, "dst": 0, "dst_inner": self.span if count > 1 else 0,
                "src": self.acc[0] + first * self.span, "src_inner": self.span if count > 1 else 0,
                "prm": begin, "prm_inner": prm_step if count > 1 else 0, "wrap_base": self.act[0],
                "wrap_size": self.act[1], "lo": -128, "hi": 127, "rounding": int(Rounding.SINGLE),
            }  # fmt: skip
            self._emit(Opcode.REQUANTIZE, fields)
            self.activations()

    def _shift_up(self, vectors: int) -> None:
        """The next byte of every accumulator to the top."""
        fields = {
            "uop_count": 1, "outer": 1, "inner": vectors, "dst": self.acc[0],
            "dst_inner": self.span if vectors > 1 else 0, "function": int(AluOp.SHR), "use_imm": 1, "imm": -BYTE_BITS,
        }  # fmt: skip
        self._emit(Opcode.ALU, fields)

    def _emit(self, opcode: Opcode, fields: dict[str, int]) -> None:
        self.growing.emit(self.state.proposal(opcode, fields))
