"""Proposals for single random instructions: fields within every range."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests.verification.random_state import CONSTANT, INPUT, OUTPUT, PRM_ENTRIES, SCRATCH, Proposal, State
from tilewright.isa.codec import Instruction, encode_uops
from tilewright.isa.effects import Addresses, row_beats
from tilewright.isa.functions import RESCALING, SHIFTS, AluOp, Combine
from tilewright.isa.program import PAGE
from tilewright.isa.spec import (
    TABLE_ENTRIES,
    UOP_FIELDS,
    Engine,
    Memory,
    Opcode,
    acc_bits,
    entry_bytes,
    roundings,
    uop_width,
)

#: how often each kind is drawn
KIND_WEIGHTS = {
    "load": 4, "load_uops": 1, "fill": 2, "store": 3, "dense": 5, "window": 4, "alu": 4, "requantize": 4, "rescale": 3,
    "wait": 1,
}  # fmt: skip
GROUP = 16  #: micro-ops of each group: dense and window in UOP_GEMM, one group in UOP_ALU

Fields = dict[str, int]


class Proposals:
    """Draws instructions for a :class:`State`; a proposal may still read what nothing has written."""

    def __init__(self, state: State) -> None:
        self.state, self.config = state, state.config
        self.push_only = (1 << acc_bits(state.config)) - 1

    def propose(self, kind: str) -> Proposal | None:
        """One instruction of a kind of :data:`KIND_WEIGHTS`; None if the draw does not fit the memories."""
        s = self.state
        if kind == "load":
            memory = Memory(s.pick(*[m for m in Memory if m not in (Memory.UOP_GEMM, Memory.UOP_ALU)]))
            return self._from_dram(memory, self._tile(memory))
        if kind == "load_uops":
            return self._load_uops(s.pick(0, 1, 2), s.chance(0.4))
        if kind == "wait":
            engine, cycles = s.integer(0, 3), s.integer(1, 40)
            wait = s.proposal(Opcode.WAIT, {"engine": engine, "cycles": cycles})
            return wait if engine in (Engine.LOAD, Engine.STORE) else None
        methods = {
            "fill": self._fill, "store": self._store, "alu": self._alu, "requantize": self._requantize,
            "rescale": self._rescale,
        }  # fmt: skip
        return self._gemm(kind == "window") if kind in ("dense", "window") else methods[kind]()

    def set_up(self) -> list[Proposal]:
        """Instructions that write every working area and every group of micro-ops once."""
        s = self.state
        result = [self._load_uops(group) for group in range(3)]
        for memory in (Memory.ACT, Memory.ACC, Memory.WGT, Memory.PRM, Memory.TABLE):
            start, length = s.area[memory]
            wrap = self.config.act_units
            tile = {"sram": start, "sram_row": 1, "sram_col": 1, "rows": length, "cols": 1, "wrap_size": wrap}
            if memory in (Memory.ACT, Memory.ACC):
                value = s.integer(-(1 << 31), (1 << 31) - 1) if s.chance(0.5) else s.integer(-128, 127)
                result.append(s.proposal(Opcode.FILL, {"memory": int(memory), **tile, "value": value}))
            else:
                found = self._from_dram(memory, tile)
                assert found is not None, "rows without stride always fit"
                result.append(found)
        return result

    # -- tiles -----------------------------------------------------------------------------------------

    def _tile(self, memory: Memory) -> Fields:
        """A tile's fields, within the memory's working area."""
        s = self.state
        start, length = s.area[memory]
        most = max(1, min(8, 256 // entry_bytes(self.config, memory)))  # short rows: slow memories take long
        rows, cols, col = s.integer(1, 4), s.integer(1, most), s.pick(1, 1, 1, 1, 2, 3, 0)
        row = s.pick(cols * col, cols * col, s.integer(0, length - 1))
        size = length
        if memory == Memory.ACT:
            size = s.integer(1, length)
        limit = 2 * size if memory == Memory.ACT else length
        while (rows - 1) * row + (cols - 1) * col >= min(limit, length):
            rows, cols, row, col = max(1, rows - 1), max(1, cols // 2), row // 2, max(col // 2, 1)
        reach = (rows - 1) * row + (cols - 1) * col
        fields = {"sram_row": row, "sram_col": col, "rows": rows, "cols": cols}
        if memory != Memory.ACT:
            fields["sram"] = start + s.integer(0, length - 1 - reach)
            return fields
        fields["sram"] = s.integer(0, min(limit, s.depth[Memory.ACT]) - 1 - reach)
        fields["wrap_base"], fields["wrap_size"] = start + s.integer(0, length - size), size
        return fields

    def _place(self, memory: Memory, tile: Fields, low: int, high: int) -> Fields | None:
        """DRAM fields for a tile within beats low .. high - 1 of a segment."""
        s = self.state
        row = Instruction(Opcode.LOAD, {"memory": int(memory), "cols": tile["cols"]}).row
        beats = int(row_beats(row, self.config))
        longest = self.config.burst_beats
        stride = s.pick(beats, beats, 0, s.integer(0, beats + 3), -(-beats // longest) * longest)
        span = (tile["rows"] - 1) * stride + beats
        if span > high - low:
            stride, span = 0, beats
        if span > high - low:
            return None
        return {"offset": self._offset(low, high - span, beats), "stride": stride}

    def _offset(self, low: int, high: int, beats: int) -> int:
        """An offset from low to high: any, at the start of a burst, or such that the first row goes over a page."""
        s, page = self.state, PAGE // self.config.beat_bytes
        offset, how = s.integer(low, high), s.pick(0, 0, 0, 1, 1, 2)
        if how == 1:
            offset = max(low, offset - offset % self.config.burst_beats)
        elif how == 2 and beats > 1:
            before = -(-(offset + 1) // page) * page - s.integer(1, beats - 1)
            offset = before if low <= before <= high else offset
        return offset

    def _from_dram(self, memory: Memory, tile: Fields) -> Proposal | None:
        s, beat = self.state, self.config.beat_bytes
        segment = CONSTANT if memory == Memory.PRM else s.pick(CONSTANT, INPUT)
        if memory in (Memory.ACT, Memory.ACC8) and s.chance(0.4):
            segment = s.pick(OUTPUT, SCRATCH)
        low, high = 0, s.prm_offset // beat if segment == CONSTANT else s.beats[segment]
        if memory == Memory.PRM:
            low, high = s.prm_offset // beat, (s.prm_offset + PRM_ENTRIES * self.config.prm_entry_bytes) // beat
        placed = self._place(memory, tile, low, high)
        if placed is None:
            return None
        return s.proposal(Opcode.LOAD, {"memory": int(memory), **tile, "segment": segment, **placed})

    def _fill(self) -> Proposal:
        s = self.state
        memory = Memory(s.pick(Memory.ACT, Memory.ACC))
        tile = self._tile(memory)
        value = s.pick(0, 1, 1, 1) * s.integer(-(1 << 31), (1 << 31) - 1) >> s.pick(0, 20, 24)
        return s.proposal(Opcode.FILL, {"memory": int(memory), **tile, "value": value})

    def _store(self) -> Proposal | None:
        s = self.state
        tile = self._tile(Memory.ACT)
        segment = s.pick(OUTPUT, SCRATCH)
        placed = self._place(Memory.ACT, tile, 0, s.beats[segment])
        return None if placed is None else s.proposal(Opcode.STORE, {**tile, "segment": segment, **placed})

    # -- micro-ops -------------------------------------------------------------------------------------

    def _offsets(self, memory: Memory, step: int, count: int) -> NDArray[np.int64]:
        """Micro-op offsets of one operand: multiples of ``step`` that fit its working area."""
        most = max(0, min(3, self.state.area[memory][1] // step - 1))
        return self.state.rng.integers(0, most + 1, count) * step

    def _load_uops(self, group: int, partly: bool = False) -> Proposal:
        """New micro-ops for group 0 (GEMM, dense), 1 (GEMM, window) or 2 (ALU); partly: the first half of each half."""
        s, c = self.state, self.config
        engine, memory = (Engine.ALU, Memory.UOP_ALU) if group == 2 else (Engine.GEMM, Memory.UOP_GEMM)
        if group == 2:
            dst = s.rng.permutation(GROUP) % min(4, s.area[Memory.ACC][1] // s.span) * c.out_units
            columns = [dst, self._offsets(Memory.ACC, c.out_units, GROUP), self._offsets(Memory.PRM, 1, GROUP)]
        else:
            results = 2 if group == 1 and s.chance(0.7) else 1  # even offsets serve pairs, and twins
            steps = (c.out_units, c.in_units, 1) if group == 0 else (results, s.pick(1, 2), results)
            columns = [self._offsets(n, k, GROUP) for n, k in zip((Memory.ACC, Memory.ACT, Memory.WGT), steps)]
            if group == 1:
                columns[0] = np.where(s.rng.random(GROUP) < 0.6, self.push_only, columns[0])
            columns.append(s.rng.integers(0, 2, GROUP))
        values = np.stack(columns, 1).astype(np.int64)
        size = uop_width(c, engine) // 8
        first = GROUP if group == 1 else 0
        if partly and GROUP // 4 * size % c.beat_bytes == 0:
            rows, cols, step = 2, GROUP // 4, GROUP // 2
        else:
            rows = s.pick(1, 2) if GROUP // 2 * size % c.beat_bytes == 0 else 1
            cols = step = GROUP // rows
        kept = (np.arange(rows)[:, None] * step + np.arange(cols)).ravel()
        offset = self._uop_constants(values[kept], engine, cols * size)
        fields = {
            "memory": int(memory), "sram": first, "sram_row": step, "sram_col": 1, "rows": rows, "cols": cols,
            "segment": CONSTANT, "offset": offset, "stride": cols * size // c.beat_bytes,
        }  # fmt: skip
        return s.proposal(Opcode.LOAD, fields, (memory, first + kept, values[kept]))

    def _uop_constants(self, values: NDArray[np.int64], engine: Engine, row_bytes: int) -> int:
        """Append micro-ops to the constants, somewhere, at the start of a burst or over a page; the first beat."""
        s, c = self.state, self.config
        beat, how = c.beat_bytes, s.pick(0, 0, 0, 1, 1, 2)
        s.blob += b"\0" * (-len(s.blob) % (beat * c.burst_beats if how == 1 else beat))
        if how == 2 and row_bytes > beat:
            s.blob += b"\0" * ((-len(s.blob) - beat * s.integer(1, row_bytes // beat - 1)) % PAGE)
        offset = len(s.blob) // beat
        names = [f.name for f in UOP_FIELDS[engine]]
        s.blob += encode_uops([dict(zip(names, row)) for row in values.tolist()], engine, c)
        return offset

    def _loops(self, group: int) -> tuple[Fields, NDArray[np.int64]]:
        """Loop and micro-op fields, and the micro-ops of one pass."""
        s = self.state
        memory = Memory.UOP_ALU if group == 2 else Memory.UOP_GEMM
        first = GROUP if group == 1 else 0
        count = s.integer(1, 6)
        begin = first + s.integer(0, GROUP - count)
        fields = {"uop_begin": begin, "uop_count": count, "outer": s.pick(1, 1, 2, 3), "inner": s.integer(1, 4)}
        return fields, s.uops[memory][begin : begin + count]

    def _operand(
        self, name: str, memory: Memory, column: NDArray[np.int64], span: int, fields: Fields
    ) -> Addresses | None:
        """Draw base and steps of an operand into ``fields``; the first unit of every micro-op, in order.

        None if the reach exceeds the working area.
        """
        s = self.state
        count = fields["uop_count"]
        steps = [s.pick(0, 1, 1, 2, count, s.integer(0, 8)) * span for _ in range(2)]
        outer, inner = (step if step < s.depth[memory] else 0 for step in steps)  # else the field could not hold it
        o, i = np.arange(fields["outer"]), np.arange(fields["inner"])
        offsets = (o[:, None, None] * outer + i[:, None] * inner + column).ravel()
        reach = int(offsets.max()) if offsets.size else 0
        start, length = s.area[memory]
        start, length = start + -start % span, length - -start % span
        if memory != Memory.ACT:
            if reach > length - span:
                return None
            base = start + s.integer(0, (length - span - reach) // span) * span
            fields |= {name: base, f"{name}_outer": outer, f"{name}_inner": inner}
            return offsets + base
        size = s.integer(1, length // span) * span
        if reach > 2 * size - span:
            return None
        base = s.integer(0, min(2 * size - span - reach, s.depth[Memory.ACT] - span) // span) * span
        region = start + s.integer(0, (length - size) // span) * span
        fields |= {name: base, f"{name}_outer": outer, f"{name}_inner": inner, "wrap_base": region, "wrap_size": size}
        offsets = offsets + base
        return np.where(offsets < size, offsets, offsets - size) + region

    # -- GEMM ------------------------------------------------------------------------------------------

    def _gemm(self, window: bool) -> Proposal | None:
        s, c = self.state, self.config
        fields, uops = self._loops(1 if window else 0)
        emits = (uops[:, 0] != self.push_only) if window else np.ones(len(uops), np.bool_)
        even = not bool((uops[emits][:, [0, 2]] % 2).any())
        pair = int(window and c.dsp_packing and even and s.chance(0.6))
        twin = int(window and c.dsp_packing and not bool((uops[:, 1] % 2).any()) and s.chance(0.6))
        spans = (1 + pair, 1 + twin) if window else (c.out_units, c.in_units)
        src = self._operand("src", Memory.ACT, uops[:, 1], spans[1], fields)
        dst = self._operand("dst", Memory.ACC, uops[emits, 0], spans[0], fields)
        wgt = self._operand("wgt", Memory.WGT, uops[emits, 2], 1 + pair, fields)
        if src is None or dst is None or wgt is None:
            return None
        sequence = np.tile(emits, fields["outer"] * fields["inner"])
        pace = s.chance(0.2) or (c.dsp_packing and window and bool((sequence[1:] & sequence[:-1]).any()))
        return s.proposal(Opcode.GEMM, {**fields, "window": int(window), "pair": pair, "twin": twin, "pace": int(pace)})

    # -- ALU engine ------------------------------------------------------------------------------------

    def _alu(self) -> Proposal | None:
        s, span = self.state, self.config.out_units
        fields, uops = self._loops(2)
        function, use_imm = AluOp(s.integer(0, len(AluOp) - 1)), s.chance(0.5)
        dst = self._operand("dst", Memory.ACC, uops[:, 0], span, fields)
        src = self._operand("src", Memory.ACC, uops[:, 1], span, fields)
        if dst is None or src is None:
            return None
        fields |= {"function": int(function), "use_imm": int(use_imm), "imm": self._immediate(function)}
        both = function.reads_dst and function.reads_operand and not use_imm
        banks = self.config.acc_bank_units
        same_bank = both and bool((dst // banks == src // banks).any())
        return s.proposal(Opcode.ALU, {**fields, "pace": int(same_bank or s.chance(0.2))})

    def _immediate(self, function: AluOp) -> int:
        s = self.state
        if function.count is not None and s.chance(0.8):
            return s.integer(*SHIFTS)
        return s.integer(-(1 << 31), (1 << 31) - 1) >> s.pick(0, 8, 16, 24)

    def _requantize(self) -> Proposal | None:
        s, span = self.state, self.config.out_units
        fields, uops = self._loops(2)
        dst = self._operand("dst", Memory.ACT, uops[:, 0], span, fields)
        src = self._operand("src", Memory.ACC, uops[:, 1], span, fields)
        prm = self._operand("prm", Memory.PRM, uops[:, 2], 1, fields)
        if dst is None or src is None or prm is None:
            return None
        lo, hi = sorted((s.pick(-128, s.integer(-128, 127)), s.pick(127, s.integer(-128, 127))))
        rounding = s.pick(*roundings(self.config))
        fields |= {"zero_point": s.integer(-128, 127), "lo": lo, "hi": hi, "rounding": rounding}
        return s.proposal(Opcode.REQUANTIZE, fields)

    def _rescale(self) -> Proposal | None:
        s, span = self.state, self.config.out_units
        fields, uops = self._loops(2)
        dst = self._operand("dst", Memory.ACC, uops[:, 0], span, fields)
        src = self._operand("src", Memory.ACT, uops[:, 1], span, fields)
        prm = self._operand("prm", Memory.PRM, uops[:, 2], 1, fields)
        if dst is None or src is None or prm is None:
            return None
        combine = s.integer(0, len(Combine) - 1)
        rounding = s.pick(*RESCALING)
        start, length = s.area[Memory.TABLE]
        table = s.integer(start // TABLE_ENTRIES, (start + length) // TABLE_ENTRIES - 1)
        fields |= {"combine": combine, "rounding": rounding, "lookup": int(s.chance(0.5)), "table": table}
        return s.proposal(Opcode.RESCALE, fields)
