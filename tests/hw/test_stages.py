"""Registers that keep paths short have broken twins, and programs at random notice them.

What is found a cycle ahead is right only if it moves with what it was found from: each twin breaks one such line. The
bursts' and channels' are in ``tests/hw/formal``, those of control and queues in ``tests/hw/cocotb/mutants.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.hw.cocotb.mutants import Mutant
from tests.hw.test_engines import agree
from tests.isa.build import ALU, LOAD, STORE, Builder
from tests.jit.builder import GraphBuilder
from tests.verification import differential
from tests.verification.random_program import random_segments
from tilewright.config import PRESETS, Config
from tilewright.hw.verilated.build import build_library
from tilewright.hw.verilated.driver import Driver
from tilewright.hw.verilated.model import DesignModel
from tilewright.isa.program import Program
from tilewright.isa.registers import FaultCode
from tilewright.isa.spec import Engine, Memory
from tilewright.jit.compiler import compile_graph

TINY = PRESETS["tiny"]
PACKED = TINY.replace(name="packed", block_in=8, block_out=8, dsp_packing=True)
PROGRAMS = 25
Run = tuple[Program, list[NDArray[np.uint8]]]


def stage(name: str, module: str, kind: str, line: str, wrong: str, user: str = "top") -> Mutant:
    return Mutant(name, "differential", "", "", module, kind, (user,), line, wrong)


STAGES = (
    stage("the first cycle is not counted", "tally", "Tally",
          "late ^ (bits[0] & ~clear)", "(late ^ bits[0]) & ~clear", "counters"),
    stage("the second slot of a paced micro-op is forgotten", "sequencer", "Sequencer",
          "final_next.eq(Mux(paced,", "final_next.eq(Mux(0,", "alu"),
    stage("a counter goes on from the run before", "tally", "Tally",
          "restart.eq(self.restart)", "restart.eq(0)", "counters"),
    stage("a counter of beats goes on from the run before", "counters", "Counters",
          "restart.eq(self.restart)]", "restart.eq(0)]", "control"),
    stage("the trace is read a place behind", "trace", "Trace",
          "first.eq(first + popped)", "first.eq(first)", "counters"),
    stage("a loop of one micro-op is taken for longer", "sequencer", "Sequencer",
          "Mux(uops_end, one_uop, uops_near)", "uops_near", "gemm"),
    stage("a loop of two micro-ops is taken for longer", "sequencer", "Sequencer",
          "Mux(uops_end, two_uops, uops_left == 2)", "uops_left == 2", "gemm"),
    stage("a loop of one iteration is taken for longer", "sequencer", "Sequencer",
          "Mux(inner_end, one_inner, inner_near)", "inner_near", "alu"),
    stage("a loop of two iterations is taken for longer", "sequencer", "Sequencer",
          "Mux(inner_end, two_inner, inner_left == 2)", "inner_left == 2", "alu"),
    stage("an outer loop ends an iteration late", "sequencer", "Sequencer",
          "outer_near.eq(outer_left == 2)", "outer_near.eq(outer_left == 1)", "gemm"),
    stage("a WAIT is a cycle longer", "sequencer", "Sequencer",
          "Mux(waiting, wait_left == 1,", "Mux(waiting, wait_left == 0,", "alu"),
    stage("a single slot is taken for more", "sequencer", "Sequencer", "ready.eq(one_slot)", "ready.eq(0)", "gemm"),
    stage("what has just issued is not under way", "issue", "Issue",
          "flying.extend([count != 0, issued])", "flying.append(count != 0)"),
    stage("a row of a tile in act ends late", "load_data", "LoadData",
          "_less(cols_left, per_beat << 1)", "_less(cols_left, per_beat)"),
    stage("a tile ends a row late", "load_data", "LoadData",
          "rows_end.eq(rows_left == 1)", "rows_end.eq(rows_left == 0)"),
    stage("a FILL is free in its first slot", "load_data", "LoadData",
          "more_slots.eq(~is_load & ~Mux(is_wait, wait_left == 1, fill_end))", "more_slots.eq(0)"),
    stage("a tile of one column in act has two", "load_data", "LoadData",
          "_less(entering.cols, entering_per_beat)", "0"),
    stage("an entry of several beats ends with its first", "load_data", "LoadData",
          "_chosen(last_parts, entering.memory)", "0"),
    stage("LOAD issues beside a FILL that has only begun", "load_data", "LoadData",
          "(entering.opcode != Opcode.LOAD)", "(entering.opcode == Opcode.LOAD)"),
    stage("a WAIT on LOAD ends late", "load_data", "LoadData",
          "wait_end.eq(wait_left == 1)", "wait_end.eq(wait_left == 0)"),
    stage("the row that STORE reads ends late", "store", "Store",
          "cols_end.eq(cols_left == 1)", "cols_end.eq(cols_left == 0)"),
    stage("a unit of STORE does not wrap", "store", "Store", "col_wraps.eq(offset > col_bound)", "col_wraps.eq(0)"),
    stage("a row of STORE does not wrap", "store", "Store", "row_wraps.eq(next_row > row_bound)", "row_wraps.eq(0)"),
    stage("STORE takes the next instruction before its bursts are written", "store", "Store",
          "bursts.active | ahead.stored) & (~ahead.valid | channel.step)", "bursts.active)"),
    stage("STORE takes the next instruction before its bursts are known", "store", "Store",
          "~(bursts.setup | bursts.active | ahead.stored)", "~(bursts.active | ahead.stored)"),
    stage("a WAIT on STORE is a cycle longer", "store", "Store",
          "(~waiting | wait_end | (wait_left == 1))", "(~waiting | wait_end)"),
    stage("a WAIT of one cycle on STORE is taken for more", "store", "Store",
          "~is_store & (wait.cycles == 0)", "0"),
    stage("a WAIT on STORE does not wait for the one before", "store", "Store",
          "(waiting & ~wait_end)) & channel.quiet", "0) & channel.quiet"),
    stage("a WAIT on STORE does not wait for responses", "store", "Store",
          "(waiting & ~wait_end)) & channel.quiet", "(waiting & ~wait_end))"),
    stage("a tile of one part an entry has more", "load_data", "LoadData",
          "part_end.eq(~tiles.stored | (behind_last_part == 0))", "part_end.eq(0)"),
    stage("a LOAD that does not wait is taken for a FILL", "load_data", "LoadData",
          "fresh.eq(tiles.load & ~tiles.stored)", "fresh.eq(0)"),
    stage("a unit of LOAD does not wrap", "load_data", "LoadData", "wraps.eq(offset > col_bound)", "wraps.eq(0)"),
    stage("a row of LOAD does not wrap", "load_data", "LoadData",
          "wraps.eq(row_offset > row_bound)", "wraps.eq(0)"),
    stage("a tile's first unit does not wrap", "load_data", "LoadData",
          "entering.sram > entering.wrap_size", "0"),
    stage("an entry's second part is its last", "load_data", "LoadData",
          "part == near_part", "part == 0"),
    stage("an entry of one part is not done with it", "load_data", "LoadData",
          "part_end.eq(one_part |", "part_end.eq("),
    stage("a queue of commands takes one too many", "queue", "Queue",
          "self.write & (self.count == self.depth - 1)", "self.write & (self.count == self.depth)", "dispatch"),
    stage("a queue of commands forgets what is behind its head", "queue", "Queue",
          "Mux(self.write, self.valid, self.count > 2)", "self.write & self.valid", "dispatch"),
    stage("the segment's limit is that of the instruction behind", "bursts", "ExtentCheck",
          "self.outside.eq(end > limit)", "self.outside.eq(end > Array(self.limits)[f.segment])", "load"),
    stage("the segment's base is that of the instruction behind", "bursts", "ExtentCheck",
          "self.base.eq(base + offset)", "self.base.eq(Array(self.bases)[f.segment] + offset)", "load"),
    stage("the lanes clamp as the next instruction does", "alu", "Alu",
          "m.d.sync += later.word.eq(earlier.word)", "m.d.comb += later.word.eq(earlier.word)"),
    stage("what follows the program is decoded too", "dispatch", "Dispatch",
          "some_left.eq(left != 1)", "some_left.eq(1)"),
)  # fmt: skip


#: of packed multipliers alone
PACKED_STAGES = (
    stage("two units are pushed as one", "gemm", "Gemm", "array.twin_6.eq(twin[2])", "array.twin_6.eq(0)"),
    stage("one unit is pushed twice", "gemm", "Gemm", "array.second.eq(second)", "array.second.eq(single)"),
    stage("the second unit enters beside the middle", "array", "MultiplierArray",
          "half = 8 * (b * self.config.lanes + l), len(taps) // 2",
          "half = 8 * (b * self.config.lanes + l), len(taps) // 2 + 8", "gemm"),
)  # fmt: skip


def noticed(mutant: Mutant, config: Config, programs: Iterable[Run]) -> bool:
    """Whether simulator and broken RTL differ on one of the programs."""
    from tilewright.hw.rtl.generate import generate_verilog

    with mutant.applied():
        broken = generate_verilog(config)
    bench = differential.Bench(config, library=build_library(broken, optimise=False))
    try:
        return any(bench.compare(*run) is not None for run in programs)
    finally:
        bench.close()


def wrapping() -> Run:
    """LOADs into a ring, of which one row begins behind its end, and one tile."""
    b = Builder(TINY)
    ring: dict[str, Any] = {"wrap_base": 40, "wrap_size": 50}
    b.fill(Memory.ACT, count=50, value=9, sram=40)
    b.load(Memory.ACT, count=7, rows=5, sram=30, sram_row=9, stride=11, offset=3, **ring)
    b.load(Memory.ACT, count=4, sram=60, offset=100, push=[STORE], **ring)
    b.store(count=50, sram=40, pop=[LOAD])
    program = b.program()
    return program, random_segments(np.random.default_rng(1), program)


def test_tiles_that_begin_behind_a_ring_s_end(toolchain: None) -> None:
    bench = differential.Bench(TINY)
    try:
        assert bench.compare(*wrapping()) is None
    finally:
        bench.close()


@pytest.mark.slow
@pytest.mark.parametrize("mutant", STAGES, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_broken_stage_is_noticed(toolchain: None, mutant: Mutant) -> None:
    programs = (differential.seeded_program(TINY, seed) for seed in range(PROGRAMS))
    assert noticed(mutant, TINY, chain([wrapping()], programs)), "not noticed"


def windows() -> Run:
    """Depthwise layers whose inputs lie in twos."""
    b = GraphBuilder(7, (9, 9, 8))
    x = "x"
    for kernel in ((3, 1), (3, 2)):
        x = b.depthwise(b.conv(x, 8, (1, 1), padding=(0, 0, 0, 0)), kernel, padding=(1, 0, 1, 0))
    (program,) = compile_graph(b.graph(x), PACKED).programs
    return program, random_segments(np.random.default_rng(1), program)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [None, *PACKED_STAGES], ids=lambda m: m.name.replace(" ", "-") if m else "sound")
def test_a_broken_push_of_two_units_is_noticed(toolchain: None, mutant: Mutant | None) -> None:
    if mutant is not None:
        assert noticed(mutant, PACKED, [windows()]), "not noticed"
        return
    bench = differential.Bench(PACKED)
    try:
        assert bench.compare(*windows()) is None
    finally:
        bench.close()


def two_outside(first: Engine) -> Program:
    """A LOAD and a STORE that issue in one cycle, both outside their segment; ``first``: the engine listed first."""
    b = Builder(TINY)
    b.wait(ALU, 400, push=[LOAD, STORE])
    moves = {
        LOAD: lambda: b.load(Memory.ACT, count=4, offset=1 << 20, pop=[ALU]),
        STORE: lambda: b.store(count=4, offset=1 << 20, pop=[ALU]),
    }
    for engine in (first, *(e for e in moves if e != first)):
        moves[engine]()
    return b.program()


@pytest.mark.parametrize("first", [LOAD, STORE])
def test_of_two_faults_in_a_cycle_the_earlier_instruction_is_named(toolchain: None, first: Engine) -> None:
    from tilewright.hw.verilated.design import design_library

    with DesignModel(design_library(TINY, optimise=False), TINY.dram_latency, seed=3) as model:
        timing = agree(Driver(model, TINY), two_outside(first))
    assert timing.fault is not None
    assert (timing.fault.code, timing.fault.instruction) == (FaultCode.SEGMENT, 1)
    assert np.ptp(timing.issue[1:3]) == 0, "they issue in one cycle"
