"""The semantics of every instruction, written to be read: slow, plain Python, the specification in code.

The compiled simulator, the RTL and the HLS model are tested against this. It follows ``docs/isa.md`` clause
by clause and shares no code with :mod:`tilewright.sim.functional` but the ISA itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import requantize, rescale, wrap_int32
from tilewright.isa.codec import Instruction, decode, decode_uops
from tilewright.isa.functions import AluOp, Combine, Rounding
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Memory, Opcode, acc_bits, entry_bytes, memory_depth


class SegmentFault(Exception):
    """Instruction ``index`` reaches outside its DRAM segment."""

    def __init__(self, index: int) -> None:
        super().__init__(f"instruction {index} reaches outside its segment")
        self.index = index


class Reference:
    """The accelerator's memories, and a method per instruction.

    act: int64 array (units, batch, lanes) of int8 values; acc: likewise of int32 values; wgt: (entries, BO,
    BI); prm: (entries, BO, 4) of bias, multiplier, offset, shift; tables: two
    int8 values an entry; uops: rows of fields per engine.
    """

    def __init__(self, program: Program) -> None:
        c = self.config = program.config
        self.program = program
        self.act = np.zeros((c.act_units, c.batch, c.lanes), np.int64)
        self.acc = np.zeros((c.acc_units, c.batch, c.lanes), np.int64)
        self.wgt = np.zeros((c.wgt_entries, c.block_out, c.block_in), np.int64)
        self.prm = np.zeros((c.prm_entries, c.block_out, 4), np.int64)
        self.tables = np.zeros((memory_depth(c, Memory.TABLE), 2), np.int64)
        self.uops = {
            Engine.GEMM: np.zeros((memory_depth(c, Memory.UOP_GEMM), 4), np.int64),
            Engine.ALU: np.zeros((memory_depth(c, Memory.UOP_ALU), 3), np.int64),
        }
        self.emits = 0

    def run(self, segments: Sequence[NDArray[np.uint8]]) -> None:
        """Run the program over its segments in program order. Raises :class:`SegmentFault`."""
        transfers = {Opcode.LOAD: self._load, Opcode.STORE: self._store}
        others = {
            Opcode.FILL: self._fill,
            Opcode.GEMM: self._gemm,
            Opcode.ALU: self._alu,
            Opcode.REQUANTIZE: self._requantize,
            Opcode.RESCALE: self._rescale,
        }
        for index, instruction in enumerate(decode(self.program.instructions, self.config)):
            if instruction.opcode in transfers:
                self._check_extent(index, instruction)
                transfers[instruction.opcode](instruction, segments[instruction["segment"]])
            elif instruction.opcode != Opcode.WAIT:
                others[instruction.opcode](instruction)

    # -- addresses -------------------------------------------------------------------------------------

    def _act_address(self, i: Instruction, offset: int) -> int:
        if offset >= i["wrap_size"]:
            offset -= i["wrap_size"]
        return int(i["wrap_base"]) + offset

    def _tile(self, i: Instruction, memory: Memory) -> Iterator[tuple[int, int]]:
        """(SRAM address, DRAM byte) of every entry of a LOAD, FILL or STORE, in order."""
        size, beat = entry_bytes(self.config, memory), self.config.beat_bytes
        for r in range(i["rows"]):
            for c in range(i["cols"]):
                address = i["sram"] + r * i["sram_row"] + c * i["sram_col"]
                if memory == Memory.ACT:
                    address = self._act_address(i, address)
                first = 0 if i.opcode == Opcode.FILL else (i["offset"] + r * i["stride"]) * beat
                yield address, first + c * size

    def _check_extent(self, index: int, i: Instruction) -> None:
        beat = self.config.beat_bytes
        memory = Memory(i["memory"]) if i.opcode == Opcode.LOAD else Memory.ACT
        row_beats = -(-i["cols"] * entry_bytes(self.config, memory) // beat)
        segments = self.program.segments
        limit = segments[i["segment"]].size if i["segment"] < len(segments) else 0
        if (i["offset"] + (i["rows"] - 1) * i["stride"] + row_beats) * beat > limit:
            raise SegmentFault(index)

    def _iterations(self, i: Instruction, engine: Engine) -> Iterator[tuple[NDArray[np.int64], dict[str, int]]]:
        """(micro-op, its operands' offsets with base and loop terms added), in order."""
        names = ("dst", "src", "wgt") if engine == Engine.GEMM else ("dst", "src", "prm")
        for o in range(i["outer"]):
            for n in range(i["inner"]):
                for u in range(i["uop_begin"], i["uop_begin"] + i["uop_count"]):
                    uop = self.uops[engine][u]
                    operands = {}
                    for k, name in enumerate(names):
                        if i.opcode == Opcode.ALU and name == "prm":
                            continue
                        operands[name] = int(uop[k]) + i[name] + o * i[f"{name}_outer"] + n * i[f"{name}_inner"]
                    yield uop, operands

    def _vector(self, memory: NDArray[np.int64], address: int, units: int) -> NDArray[np.int64]:
        """``units`` consecutive units as (batch, channels)."""
        return np.concatenate([memory[address + k] for k in range(units)], axis=1)

    def _set_vector(self, memory: NDArray[np.int64], address: int, value: NDArray[Any]) -> None:
        v = self.config.lanes
        for k in range(value.shape[1] // v):
            memory[address + k] = value[:, k * v : (k + 1) * v]

    # -- LOAD engine and STORE -------------------------------------------------------------------------

    def _load(self, i: Instruction, segment: NDArray[np.uint8]) -> None:
        c, memory = self.config, Memory(i["memory"])
        size = entry_bytes(c, memory)
        for address, byte in self._tile(i, memory):
            data = segment[byte : byte + size].tobytes()
            if memory == Memory.ACT:
                self.act[address] = np.frombuffer(data, "<i1").reshape(c.batch, c.lanes)
            elif memory == Memory.ACC8:
                self.acc[address] = np.frombuffer(data, "<i1").reshape(c.batch, c.lanes)
            elif memory == Memory.ACC:
                self.acc[address] = np.frombuffer(data, "<i4").reshape(c.batch, c.lanes)
            elif memory == Memory.WGT:
                self.wgt[address] = self._unpack_weights(data)
            elif memory == Memory.PRM:
                self.prm[address] = np.frombuffer(data, "<i4").reshape(c.block_out, 4)
                self.prm[address, :, 3] &= 63
            elif memory == Memory.TABLE:
                self.tables[address] = np.frombuffer(data[:2], "<i1")
            else:
                engine = Engine.GEMM if memory == Memory.UOP_GEMM else Engine.ALU
                self.uops[engine][address] = decode_uops(data, engine, c)[0]

    def _unpack_weights(self, data: bytes) -> NDArray[np.int64]:
        c, bits = self.config, self.config.weight_bits
        values = []
        for index in range(c.block_out * c.block_in):
            byte, position = divmod(index * bits, 8)
            value = data[byte] >> position & ((1 << bits) - 1)
            values.append(value - (1 << bits) if value >> (bits - 1) else value)
        return np.array(values, np.int64).reshape(c.block_out, c.block_in)

    def _fill(self, i: Instruction) -> None:
        memory = Memory(i["memory"])
        for address, _ in self._tile(i, memory):
            if memory == Memory.ACT:
                self.act[address] = (i["value"] + 128) % 256 - 128
            else:
                self.acc[address] = i["value"]

    def _store(self, i: Instruction, segment: NDArray[np.uint8]) -> None:
        size = entry_bytes(self.config, Memory.ACT)
        for address, byte in self._tile(i, Memory.ACT):
            segment[byte : byte + size] = np.frombuffer(self.act[address].astype(np.int8).tobytes(), np.uint8)

    # -- GEMM ------------------------------------------------------------------------------------------

    def _gemm(self, i: Instruction) -> None:
        c = self.config
        push_only = (1 << acc_bits(c)) - 1
        window = [np.zeros((c.batch, c.lanes), np.int64) for _ in range(c.block_in)]
        for uop, at in self._iterations(i, Engine.GEMM):
            accumulate = bool(uop[3])
            source = self._act_address(i, at["src"])
            if i["window"]:
                window = [self.act[source].copy(), *window[:-1]]
                if i["twin"]:
                    window[c.block_in // 2] = self.act[source + 1].copy()
                if int(uop[0]) == push_only:
                    continue
                taps = np.stack(window)  # (BI, batch, lanes)
                weights = self.wgt[at["wgt"]][None, : c.lanes]  # (results, lanes, BI)
                if i["pair"]:  # even lanes, then odd lanes, in rows of results
                    entries = self.wgt[at["wgt"] : at["wgt"] + 2, : c.lanes].reshape(2, c.lanes // 2, 2, c.block_in)
                    weights = entries.transpose(2, 1, 0, 3).reshape(2, c.lanes, c.block_in)
                total = np.einsum("tbc,rct->brc", taps, weights).reshape(c.batch, -1)
                units = len(weights)
                self.emits += 1
            else:
                x = self._vector(self.act, source, c.in_units)  # (batch, BI)
                total = x @ self.wgt[at["wgt"]].T
                units = c.out_units
            old = self._vector(self.acc, at["dst"], units) if accumulate else 0
            self._set_vector(self.acc, at["dst"], wrap_int32(old + total))

    # -- ALU -------------------------------------------------------------------------------------------

    def _alu(self, i: Instruction) -> None:
        units = self.config.out_units
        for _, at in self._iterations(i, Engine.ALU):
            x = self._vector(self.acc, at["dst"], units)
            y = np.full_like(x, i["imm"]) if i["use_imm"] else self._vector(self.acc, at["src"], units)
            self._set_vector(self.acc, at["dst"], AluOp(i["function"]).apply(x, y))

    def _parameters(self, entry: int) -> dict[str, Any]:
        return dict(zip(("bias", "multiplier", "offset", "shift"), self.prm[entry].T))

    def _requantize(self, i: Instruction) -> None:
        units, rounding = self.config.out_units, Rounding(i["rounding"])
        for _, at in self._iterations(i, Engine.ALU):
            limits: dict[str, Any] = {"rounding": rounding, "zero_point": i["zero_point"], "lo": i["lo"], "hi": i["hi"]}
            if rounding.nudge is None:  # reads neither acc nor prm
                nothing = np.zeros((self.config.batch, self.config.block_out), np.int64)
                y = requantize(nothing, bias=0, multiplier=0, shift=0, offset=0, **limits)
            else:
                x = self._vector(self.acc, at["src"], units)
                y = requantize(x, **self._parameters(at["prm"]), **limits)
            self._set_vector(self.act, self._act_address(i, at["dst"]), y)

    def _rescale(self, i: Instruction) -> None:
        units = self.config.out_units
        for _, at in self._iterations(i, Engine.ALU):
            x = self._vector(self.act, self._act_address(i, at["src"]), units)
            if i["lookup"]:
                x = self.tables.reshape(-1, 256)[i["table"]][x % 256]
            r = rescale(x, **self._parameters(at["prm"]), rounding=Rounding(i["rounding"])).astype(np.int64)
            old = self._vector(self.acc, at["dst"], units)
            self._set_vector(self.acc, at["dst"], Combine(i["combine"]).apply(old, r))
