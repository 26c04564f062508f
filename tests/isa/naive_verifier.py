"""The legality rules once more, slowly: one Python step per micro-op and per unit, all pairs of instructions.

Shares nothing with the verifier but the declaration and the names of the rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tilewright.isa.codec import Instruction, decode, decode_uops
from tilewright.isa.functions import AluOp, Combine
from tilewright.isa.program import Program
from tilewright.isa.spec import (
    Engine,
    Memory,
    Opcode,
    acc_bits,
    entry_bytes,
    memory_depth,
    others,
    token_bit,
    uop_depth,
)
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.isa.verifier import Rule

Place = tuple[str, int]  #: memory or segment, and unit, entry or beat
_NAMES = {m: m.name.lower() for m in Memory} | {Memory.ACC8: "acc"}
_UOPS = {Memory.UOP_GEMM: Engine.GEMM, Memory.UOP_ALU: Engine.ALU}


class _Broken(Exception):
    """An instruction whose accesses cannot be listed."""


@dataclass
class _Step:
    """What one issue slot (or one whole LOAD, STORE) reads, then writes."""

    reads: list[Place] = field(default_factory=list)
    writes: list[Place] = field(default_factory=list)
    #: starts of ALU vectors: what the distance rule compares
    vector_reads: list[Place] = field(default_factory=list)
    vector_writes: list[Place] = field(default_factory=list)
    emit: bool = False


def broken_rules(program: Program) -> tuple[set[Rule], set[int]]:
    """Every rule that a program breaks, and the instructions given up at the first broken field.

    What else is wrong with those, or follows from it, may be missing.
    """
    naive = _Naive(program)
    return naive.run(), naive.given_up


def places_of(program: Program) -> list[tuple[set[Place], set[Place]]]:
    """What each instruction of a legal program reads and writes."""
    naive = _Naive(program)
    steps = [list(naive._steps(instruction)) for instruction in naive.instructions]
    return [({p for s in mine for p in s.reads}, {p for s in mine for p in s.writes}) for mine in steps]


class _Naive:
    def __init__(self, program: Program) -> None:
        self.program, self.config = program, program.config
        self.instructions = decode(program.instructions, program.config)
        self.rules: set[Rule] = set()
        self.given_up: set[int] = set()
        self.uops: dict[Engine, dict[int, tuple[int, ...]]] = {Engine.GEMM: {}, Engine.ALU: {}}

    def run(self) -> set[Rule]:
        self.done = self._tokens()
        if self.rules:
            return self.rules
        touched: list[tuple[Instruction, list[_Step]]] = []
        for index, instruction in enumerate(self.instructions):
            try:
                touched.append((instruction, list(self._steps(instruction))))
            except _Broken:
                touched.append((instruction, []))
                self.given_up.add(index)
        self._initialised(touched)
        self._races(touched)
        self._alu_slots(touched)
        self._emit_slots(touched)
        return self.rules

    def _break(self, rule: Rule) -> None:
        self.rules.add(rule)
        raise _Broken

    # -- order -----------------------------------------------------------------------------------------

    def _tokens(self) -> list[set[int]]:
        """Per instruction: those that have retired before it issues."""
        queues: dict[tuple[Engine, Engine], list[int]] = defaultdict(list)
        latest: dict[Engine, int] = {}
        done: list[set[int]] = []
        for index, instruction in enumerate(self.instructions):
            engine = instruction.engine
            mine = set(done[latest[engine]]) if engine in latest else set()
            for other in others(engine):
                if instruction["pop"] & token_bit(engine, other):
                    if not queues[other, engine]:
                        self.rules.add(Rule.TOKEN_UNDERFLOW)
                        return []
                    source = queues[other, engine].pop(0)
                    mine |= done[source] | {k for k in range(source + 1) if self.instructions[k].engine == other}
            for other in others(engine):
                if instruction["push"] & token_bit(engine, other):
                    queues[engine, other].append(index)
                    if len(queues[engine, other]) > self.config.token_depth:
                        self.rules.add(Rule.TOKEN_OVERFLOW)
                        return []
            latest[engine] = index
            done.append(mine)
        if any(queues.values()):
            self.rules.add(Rule.TOKEN_LEFTOVER)
        return done

    def _ordered(self, first: int, second: int) -> bool:
        same = self.instructions[first].engine == self.instructions[second].engine
        return same or first in self.done[second]

    # -- what an instruction touches -------------------------------------------------------------------

    def _steps(self, i: Instruction) -> Iterator[_Step]:
        if i.opcode in (Opcode.LOAD, Opcode.FILL, Opcode.STORE):
            yield self._move(i)
        elif i.opcode != Opcode.WAIT:
            yield from self._vectors(i)

    def _wrap(self, i: Instruction, offset: int) -> int:
        if i["wrap_base"] + i["wrap_size"] > self.config.act_units or offset >= 2 * i["wrap_size"]:
            self._break(Rule.WRAP)
        return i["wrap_base"] + (offset if offset < i["wrap_size"] else offset - i["wrap_size"])

    def _move(self, i: Instruction) -> _Step:
        memory = Memory.ACT if i.opcode == Opcode.STORE else Memory(i["memory"])
        if i.opcode == Opcode.FILL and memory not in (Memory.ACT, Memory.ACC):
            self._break(Rule.MEMORY)
        units: list[int] = []
        for r in range(i["rows"]):
            for c in range(i["cols"]):
                address = i["sram"] + r * i["sram_row"] + c * i["sram_col"]
                units.append(self._wrap(i, address) if memory == Memory.ACT else address)
        if max(units) >= memory_depth(self.config, memory):
            self._break(Rule.RANGE)
        sram = [(_NAMES[memory], unit) for unit in units]
        if i.opcode == Opcode.FILL:
            return _Step(writes=sram)
        dram = self._beats(i, memory)
        if memory in _UOPS:
            self._load_uops(i, memory, units)
        if self.program.segments[i["segment"]].kind in ("constant", "input"):
            dram = []
        return _Step(reads=dram, writes=sram) if i.opcode == Opcode.LOAD else _Step(reads=sram, writes=dram)

    def _beats(self, i: Instruction, memory: Memory) -> list[Place]:
        if i["segment"] >= len(self.program.segments):
            self._break(Rule.SEGMENT)
        segment = self.program.segments[i["segment"]]
        if i.opcode == Opcode.STORE and segment.kind in ("constant", "input"):
            self._break(Rule.SEGMENT_KIND)
        if memory in _UOPS and segment.kind != "constant":
            self._break(Rule.SEGMENT_KIND)
        size = i["cols"] * entry_bytes(self.config, memory)
        row = -(-size // self.config.beat_bytes)
        beats = [i["offset"] + r * i["stride"] + k for r in range(i["rows"]) for k in range(row)]
        if (max(beats) + 1) * self.config.beat_bytes > segment.size:
            self._break(Rule.EXTENT)
        return [(segment.name, beat) for beat in beats]

    def _load_uops(self, i: Instruction, memory: Memory, units: list[int]) -> None:
        engine, beat = _UOPS[memory], self.config.beat_bytes
        size = entry_bytes(self.config, memory)
        if size < beat:
            crooked = i["sram"] * size % beat or i["cols"] * size % beat or i["sram_col"] != 1
            if crooked or (i["rows"] > 1 and i["sram_row"] * size % beat):
                self._break(Rule.ALIGNMENT)
        segment = self.program.segments[i["segment"]]
        data = (segment.data or b"").ljust(segment.size, b"\0")
        for r in range(i["rows"]):
            start = (i["offset"] + r * i["stride"]) * beat
            decoded = decode_uops(data[start : start + i["cols"] * size], engine, self.config).tolist()
            for c, uop in enumerate(decoded):
                self.uops[engine][units[r * i["cols"] + c]] = tuple(uop)

    def _vectors(self, i: Instruction) -> Iterator[_Step]:
        engine = i.engine
        memory = Memory.UOP_GEMM if engine == Engine.GEMM else Memory.UOP_ALU
        last = i["uop_begin"] + i["uop_count"]
        if last > uop_depth(self.config, engine):
            self._break(Rule.RANGE)
        if i.opcode == Opcode.RESCALE and i["rounding"] in (3, 4):
            self._break(Rule.ROUNDING)
        if i.opcode == Opcode.REQUANTIZE and i["rounding"] == 4 and not self.config.float32_scaling:
            self._break(Rule.ROUNDING)
        for o in range(i["outer"]):
            for n in range(i["inner"]):
                for address in range(i["uop_begin"], last):
                    if address not in self.uops[engine]:
                        self._break(Rule.UNINITIALISED)
                    uop = self.uops[engine][address]
                    step = self._gemm(i, o, n, uop) if engine == Engine.GEMM else self._alu(i, o, n, uop)
                    step.reads.append((_NAMES[memory], address))
                    yield step

    def _operand(self, i: Instruction, name: str, uop: int, o: int, n: int, memory: Memory, span: int) -> list[Place]:
        address = uop + i[name] + o * i[f"{name}_outer"] + n * i[f"{name}_inner"]
        if memory == Memory.ACT:
            address = self._wrap(i, address)
        if address >= memory_depth(self.config, memory):
            self._break(Rule.RANGE)
        if address % span:
            self._break(Rule.ALIGNMENT)
        return [(_NAMES[memory], address + k) for k in range(span)]

    def _gemm(self, i: Instruction, o: int, n: int, uop: tuple[int, ...]) -> _Step:
        dst, src, wgt, accumulate = uop
        c, window, results = self.config, i["window"] == 1, 1 + i["pair"]
        if i["pair"] and not (window and c.dsp_packing):
            self._break(Rule.PAIR)
        if i["twin"] and not (window and c.dsp_packing):
            self._break(Rule.TWIN)
        step = _Step(reads=self._operand(i, "src", src, o, n, Memory.ACT, 1 + i["twin"] if window else c.in_units))
        step.emit = window and dst != (1 << acc_bits(c)) - 1
        if step.emit or not window:
            step.reads += self._operand(i, "wgt", wgt, o, n, Memory.WGT, results)
            step.writes = self._operand(i, "dst", dst, o, n, Memory.ACC, results if window else c.out_units)
            if accumulate:
                step.reads += step.writes
        return step

    def _alu(self, i: Instruction, o: int, n: int, uop: tuple[int, ...]) -> _Step:
        dst, src, prm = uop
        span = self.config.out_units
        step = _Step()
        to, source = (Memory.ACT, Memory.ACC) if i.opcode == Opcode.REQUANTIZE else (Memory.ACC, Memory.ACT)
        if i.opcode == Opcode.ALU:
            source = Memory.ACC
        target = self._operand(i, "dst", dst, o, n, to, span)
        vectors: list[list[Place]] = []
        if i.opcode == Opcode.ALU:
            function = AluOp(i["function"])
            if function.reads_dst:
                vectors.append(target)
            if not i["use_imm"] and function.reads_operand:
                vectors.append(self._operand(i, "src", src, o, n, source, span))
            banks = {v[0][1] // self.config.acc_bank_units for v in vectors}
            if len(vectors) == 2 and len(banks) == 1 and not i["pace"]:
                self.rules.add(Rule.ALU_BANK)
        elif i.opcode == Opcode.RESCALE or i["rounding"] != 3:
            vectors.append(self._operand(i, "src", src, o, n, source, span))
            step.reads += self._operand(i, "prm", prm, o, n, Memory.PRM, 1)
            if i.opcode == Opcode.RESCALE and i["lookup"]:
                step.reads += [(_NAMES[Memory.TABLE], 128 * i["table"] + k) for k in range(128)]
            if i.opcode == Opcode.RESCALE and i["combine"] != Combine.WRITE:
                vectors.append(target)
        for vector in vectors:
            step.reads += vector
            step.vector_reads.append(vector[0])
        step.writes = target
        step.vector_writes = [target[0]]
        return step

    # -- rules over what was touched -------------------------------------------------------------------

    def _initialised(self, touched: list[tuple[Instruction, list[_Step]]]) -> None:
        written: set[Place] = set()
        for _, steps in touched:
            for step in steps:
                if not written.issuperset(step.reads):
                    self.rules.add(Rule.UNINITIALISED)
                written.update(step.writes)

    def _races(self, touched: list[tuple[Instruction, list[_Step]]]) -> None:
        units = {"act": self.config.act_bank_units, "acc": self.config.acc_bank_units}
        reads = [{p for step in steps for p in step.reads} for _, steps in touched]
        writes = [{p for step in steps for p in step.writes} for _, steps in touched]
        banks = [
            [{(m, a // units[m]) for m, a in places if m in units} for places in (reads[k], writes[k])]
            for k in range(len(touched))
        ]
        for second in range(len(touched)):
            for first in range(second):
                if self._ordered(first, second):
                    continue
                for rule, conflict in (
                    (Rule.RACE_RAW, writes[first] & reads[second]),
                    (Rule.RACE_WAR, reads[first] & writes[second]),
                    (Rule.RACE_WAW, writes[first] & writes[second]),
                    (Rule.BANK_READERS, banks[first][0] & banks[second][0]),
                    (Rule.BANK_WRITERS, banks[first][1] & banks[second][1]),
                ):
                    if conflict:
                        self.rules.add(rule)

    def _alu_slots(self, touched: list[tuple[Instruction, list[_Step]]]) -> None:
        slot = 0
        wrote: dict[Place, int] = {}
        for instruction, steps in touched:
            if instruction.engine != Engine.ALU:
                continue
            if instruction.opcode == Opcode.WAIT:
                slot += instruction["cycles"]
            pace = instruction["pace"] if instruction.opcode == Opcode.ALU else 0
            for step in steps:
                if any(slot - wrote.get(place, slot - ALU_DISTANCE) < ALU_DISTANCE for place in step.vector_reads):
                    self.rules.add(Rule.ALU_DISTANCE)
                wrote.update(dict.fromkeys(step.vector_writes, slot))
                slot += 1 + pace

    def _emit_slots(self, touched: list[tuple[Instruction, list[_Step]]]) -> None:
        for instruction, steps in touched:
            if instruction.opcode == Opcode.GEMM and self.config.dsp_packing and not instruction["pace"]:
                emits = [step.emit for step in steps]
                if any(a and b for a, b in pairwise(emits)):
                    self.rules.add(Rule.EMIT_DISTANCE)
