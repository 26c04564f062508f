"""The program verifier: a program that passes runs alike on every device, without hang, fault or race.

Programs are straight-line, so everything is decidable, and every check is exact: per unit, entry, beat, bank and
issue cycle. The rules are listed in :data:`tilewright.isa.verify.errors.RULES` and in ``docs/isa.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.isa.codec import COLUMNS, EncodingError
from tilewright.isa.functions import AluOp, Combine, Rounding
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Memory, Opcode, memory_depth
from tilewright.isa.verify.affine import Region, first_visits
from tilewright.isa.verify.distances import AluDistances, EmitDistance, check_banks
from tilewright.isa.verify.errors import RULES, Describer, Rule, VerifyError
from tilewright.isa.verify.operands import Access, Operands
from tilewright.isa.verify.state import MemoryState
from tilewright.isa.verify.tiles import check_fields, check_segments, row_beats
from tilewright.isa.verify.tokens import Clock, clocks
from tilewright.isa.verify.uops import AluBlock, Operand, UopMemory

__all__ = ["RULES", "Rule", "VerifyError", "verify"]

_C = COLUMNS
_MEMORY, _SEGMENT, _OFFSET, _STRIDE = _C["memory"], _C["segment"], _C["offset"], _C["stride"]
_ROWS, _COLS, _OUTER, _INNER = _C["rows"], _C["cols"], _C["outer"], _C["inner"]
_BEGIN, _COUNT, _WINDOW, _PACE = _C["uop_begin"], _C["uop_count"], _C["window"], _C["pace"]
_FUNCTION, _USE_IMM, _COMBINE, _ROUNDING = _C["function"], _C["use_imm"], _C["combine"], _C["rounding"]
_ENGINE, _CYCLES = _C["engine"], _C["cycles"]


def verify(program: Program, segment_sizes: Sequence[int] | None = None) -> None:
    """Raise :class:`VerifyError` if a program breaks any legality rule; its ``rule`` says which.

    ``segment_sizes`` gives the segments' sizes in bytes where they differ from the program's own.
    """
    try:
        table = program.table()
    except EncodingError as error:
        raise VerifyError(Rule.ENCODING, f"program: {Rule.ENCODING}: {error}") from error
    describe = Describer(table)
    beats = check_segments(program, segment_sizes)
    order = clocks(table, program.config, describe)
    check_fields(table, program, beats, describe)
    walk = _Walk(program, beats, describe)
    for index, (row, clock) in enumerate(zip(table.tolist(), order)):
        walk.step(index, row, clock)


class _Walk:
    """Runs through a program in order, with the access history of every memory."""

    def __init__(self, program: Program, beats: Sequence[int], describe: Describer) -> None:
        config = program.config
        self.config, self.segments, self.describe = config, program.segments, describe
        self.operands = Operands(config, describe)
        load, gemm, alu, store = Engine.LOAD, Engine.GEMM, Engine.ALU, Engine.STORE

        def memory(name: str, kind: Memory, readers: tuple[Engine, ...], writers: tuple[Engine, ...]) -> MemoryState:
            unit = "unit" if kind in (Memory.ACT, Memory.ACC) else "entry"
            bank = {Memory.ACT: config.act_bank_units, Memory.ACC: config.acc_bank_units}.get(kind, 0)
            return MemoryState(name, unit, memory_depth(config, kind), readers, writers, describe, bank)

        self.act = memory("act", Memory.ACT, (gemm, alu, store), (load, alu))
        self.acc = memory("acc", Memory.ACC, (gemm, alu), (load, gemm, alu))
        self.wgt = memory("wgt", Memory.WGT, (gemm,), (load,))
        self.prm = memory("prm", Memory.PRM, (alu,), (load,))
        self.uop_gemm = memory("uop_gemm", Memory.UOP_GEMM, (gemm,), (load,))
        self.uop_alu = memory("uop_alu", Memory.UOP_ALU, (alu,), (load,))
        self.targets = {
            Memory.ACT: self.act, Memory.WGT: self.wgt, Memory.ACC: self.acc, Memory.ACC8: self.acc,
            Memory.PRM: self.prm, Memory.UOP_GEMM: self.uop_gemm, Memory.UOP_ALU: self.uop_alu,
        }  # fmt: skip
        self.gemm_uops = UopMemory(config, gemm)
        self.alu_uops = UopMemory(config, alu)
        self.dram = [
            MemoryState(f"segment {k} ({s.name})", "beat", size, (load,), (store,), describe)
            if s.kind in ("output", "scratch")
            else None
            for k, (s, size) in enumerate(zip(program.segments, beats))
        ]
        self.alu_distances = AluDistances(describe)
        self.emits = EmitDistance(describe)
        self.steps = {
            Opcode.LOAD: self.load, Opcode.FILL: self.fill, Opcode.STORE: self.store, Opcode.GEMM: self.gemm,
            Opcode.ALU: self.alu, Opcode.REQUANTIZE: self.requantize, Opcode.RESCALE: self.rescale,
            Opcode.WAIT: self.wait,
        }  # fmt: skip

    def step(self, index: int, row: list[int], clock: Clock) -> None:
        """Check and record one instruction."""
        self.steps[Opcode(row[0])](index, row, clock)

    # -- LOAD, FILL, STORE, WAIT -----------------------------------------------------------------------

    def load(self, index: int, row: list[int], clock: Clock) -> None:
        """DRAM beats are read, the tile is written; micro-ops are kept."""
        memory = Memory(row[_MEMORY])
        dram = self.dram[row[_SEGMENT]]
        if dram is not None:
            region = self._dram_region(row, memory)
            dram.require_written(index, region)
            dram.read(index, Engine.LOAD, clock, region)
        region = self.operands.tile(row, wraps=memory == Memory.ACT)
        self.targets[memory].write(index, Engine.LOAD, clock, region)
        if memory in (Memory.UOP_GEMM, Memory.UOP_ALU):
            self._load_uops(row, memory)

    def _load_uops(self, row: list[int], memory: Memory) -> None:
        rows, cols = row[_ROWS], row[_COLS]
        r, c = np.divmod(np.arange(rows * cols), cols)
        addresses = row[_C["sram"]] + r * row[_C["sram_row"]] + c * row[_C["sram_col"]]
        beat = self.config.beat_bytes
        starts = [(row[_OFFSET] + r * row[_STRIDE]) * beat for r in range(rows)]
        uops = self.gemm_uops if memory == Memory.UOP_GEMM else self.alu_uops
        uops.load(addresses, self.segments[row[_SEGMENT]], starts, cols)

    def fill(self, index: int, row: list[int], clock: Clock) -> None:
        """The tile is written."""
        memory = Memory(row[_MEMORY])
        region = self.operands.tile(row, wraps=memory == Memory.ACT)
        self.targets[memory].write(index, Engine.LOAD, clock, region)

    def store(self, index: int, row: list[int], clock: Clock) -> None:
        """The act tile is read, DRAM beats are written."""
        region = self.operands.tile(row, wraps=True)
        self.act.require_written(index, region)
        self.act.read(index, Engine.STORE, clock, region)
        dram = self.dram[row[_SEGMENT]]
        assert dram is not None  # rule segment-kind
        dram.write(index, Engine.STORE, clock, self._dram_region(row, Memory.ACT))

    def _dram_region(self, row: list[int], memory: Memory) -> Region:
        beats = row_beats(self.config, memory, row[_COLS])
        return self.operands.plane((beats, 1), (row[_ROWS], row[_STRIDE])).at(row[_OFFSET])

    def wait(self, index: int, row: list[int], clock: Clock) -> None:
        """Only the distances of its engine grow."""
        if row[_ENGINE] == Engine.ALU:
            self.alu_distances.wait(row[_CYCLES])

    # -- GEMM ------------------------------------------------------------------------------------------

    def gemm(self, index: int, row: list[int], clock: Clock) -> None:
        """Act and wgt are read; acc is written, and read where a micro-op accumulates."""
        config, engine = self.config, Engine.GEMM
        window = row[_WINDOW] == 1
        self._read_uops(index, row, clock, self.uop_gemm, engine)
        block = self.gemm_uops.gemm(row[_BEGIN], row[_COUNT], window)
        spans = (1, 1) if window else (config.in_units, config.out_units)
        src = self._region(index, Access(row, "src", block.src, True), spans[0], self.act)
        self._read(index, engine, clock, src, self.act)
        if not block.dst.empty:
            wgt = self._region(index, Access(row, "wgt", block.wgt, False), 1, self.wgt)
            self._read(index, engine, clock, wgt, self.wgt)
            access = Access(row, "dst", block.dst, False)
            dst = self._region(index, access, spans[1], self.acc)
            if not block.accumulating.empty:
                read = Access(row, "dst", block.accumulating, False)
                over = Access(row, "dst", block.overwriting, False)
                region = self._region(index, read, spans[1], self.acc)
                self._written_within(index, region, spans[1], over, read)
                self.acc.read(index, engine, clock, region)
            self.acc.write(index, engine, clock, dst)
        if config.dsp_packing:
            self.emits.run(index, block, row[_OUTER] * row[_INNER], window, row[_PACE])

    def _written_within(self, index: int, region: Region, span: int, write: Access, read: Access) -> None:
        """What no earlier instruction wrote, this one must write before it reads it."""
        missing = self.acc.missing(region)
        if not missing.size:
            return
        low, high = region.low, region.high
        times = []
        for access in (write, read):
            inside = access.operand
            if inside.empty or access.high() < low or access.base + inside.low > high:
                raise self.acc.uninitialised(index, int(missing[0]))
            first = min(low, access.base + inside.low)
            last = max(high, access.high())
            visits = first_visits(
                inside.offsets + access.base,
                inside.positions,
                len(inside.column),
                access.outer,
                access.inner,
                first,
                last,
            )
            times.append(visits[missing // span * span - first])
        early = times[1] <= times[0]
        if early.any():
            raise self.acc.uninitialised(index, int(missing[int(np.argmax(early))]))

    # -- ALU -------------------------------------------------------------------------------------------

    def alu(self, index: int, row: list[int], clock: Clock) -> None:
        """acc[d] = acc[d] OP (imm or acc[s])."""
        span, period = self.config.out_units, row[_PACE] + 1
        block = self._alu_block(index, row, clock)
        vectors = row[_OUTER] * row[_INNER] * block.count
        dst = Access(row, "dst", block.dst, False)
        src = Access(row, "src", block.src, False)
        written = self._region(index, dst, span, self.acc)
        reads = []
        function = AluOp(row[_FUNCTION])
        if function.reads_dst:
            self._read(index, Engine.ALU, clock, written, self.acc)
            reads.append((Memory.ACC, dst))
        if not row[_USE_IMM] and function.reads_operand:
            region = self._region(index, src, span, self.acc)
            self._written_within(index, region, span, dst, src)
            self.acc.read(index, Engine.ALU, clock, region)
            reads.append((Memory.ACC, src))
        if len(reads) == 2 and period == 1:
            check_banks(index, vectors, self.config.acc_bank_units, dst, src, self.describe)
        self.acc.write(index, Engine.ALU, clock, written)
        self.alu_distances.run(index, vectors, period, (Memory.ACC, dst), reads)

    def requantize(self, index: int, row: list[int], clock: Clock) -> None:
        """act[d] from acc[s] and prm[p], or from nothing with rounding CONSTANT."""
        span = self.config.out_units
        block = self._alu_block(index, row, clock)
        dst = Access(row, "dst", block.dst, True)
        written = self._region(index, dst, span, self.act)
        reads = []
        if row[_ROUNDING] != Rounding.CONSTANT:
            src = Access(row, "src", block.src, False)
            self._read(index, Engine.ALU, clock, self._region(index, src, span, self.acc), self.acc)
            self._read_prm(index, row, clock, block.prm)
            reads.append((Memory.ACC, src))
        self.act.write(index, Engine.ALU, clock, written)
        self.alu_distances.run(index, row[_OUTER] * row[_INNER] * block.count, 1, (Memory.ACT, dst), reads)

    def rescale(self, index: int, row: list[int], clock: Clock) -> None:
        """acc[d], combined with what it holds, from act[s] and prm[p]."""
        span = self.config.out_units
        block = self._alu_block(index, row, clock)
        src = Access(row, "src", block.src, True)
        dst = Access(row, "dst", block.dst, False)
        self._read(index, Engine.ALU, clock, self._region(index, src, span, self.act), self.act)
        self._read_prm(index, row, clock, block.prm)
        written = self._region(index, dst, span, self.acc)
        reads = [(Memory.ACT, src)]
        if row[_COMBINE] != Combine.WRITE:
            self._read(index, Engine.ALU, clock, written, self.acc)
            reads.append((Memory.ACC, dst))
        self.acc.write(index, Engine.ALU, clock, written)
        self.alu_distances.run(index, row[_OUTER] * row[_INNER] * block.count, 1, (Memory.ACC, dst), reads)

    # -- shared ----------------------------------------------------------------------------------------

    def _alu_block(self, index: int, row: list[int], clock: Clock) -> AluBlock:
        self._read_uops(index, row, clock, self.uop_alu, Engine.ALU)
        return self.alu_uops.alu(row[_BEGIN], row[_COUNT])

    def _read_uops(self, index: int, row: list[int], clock: Clock, state: MemoryState, engine: Engine) -> None:
        first, last = row[_BEGIN], row[_BEGIN] + row[_COUNT] - 1
        self._read(index, engine, clock, Region(slice(first, last + 1), first, last), state)

    def _read_prm(self, index: int, row: list[int], clock: Clock, operand: Operand) -> None:
        region = self._region(index, Access(row, "prm", operand, False), 1, self.prm)
        self._read(index, Engine.ALU, clock, region, self.prm)

    def _read(self, index: int, engine: Engine, clock: Clock, region: Region, state: MemoryState) -> None:
        state.require_written(index, region)
        state.read(index, engine, clock, region)

    def _region(self, index: int, access: Access, span: int, state: MemoryState) -> Region:
        return self.operands.region(index, access, span, state.depth, state.name)
