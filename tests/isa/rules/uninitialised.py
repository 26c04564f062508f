"""Programs that read what nobody has written."""

from __future__ import annotations

from tests.isa.build import GEMM, LOAD, SCRATCH, STORE, TINY, Builder, compute
from tests.isa.rules.cases import WIDE_OUT, case
from tilewright.isa.functions import AluOp, Combine
from tilewright.isa.program import Program
from tilewright.isa.spec import Memory
from tilewright.isa.verifier import Rule


@case(Rule.UNINITIALISED)
def store_of_unwritten_act(legal: bool) -> Program:
    b = Builder()
    b.fill(Memory.ACT, count=4, push=[STORE])
    b.store(pop=[LOAD], count=4 if legal else 5)
    return b.program()


@case(Rule.UNINITIALISED)
def wrapped_read_of_unwritten_act(legal: bool) -> Program:
    b = Builder()
    b.fill(Memory.ACT, count=4, push=[STORE])  # 0..3; offsets 6, 7, 8, 9 of a ring of 8 are 6, 7, 0, 1
    b.store(pop=[LOAD], sram=8 if legal else 6, count=4, wrap_size=8)
    return b.program()


@case(Rule.UNINITIALISED)
def load_of_unstored_scratch(legal: bool) -> Program:
    b = Builder()
    b.fill(Memory.ACT, count=2, push=[STORE])
    b.store(pop=[LOAD], count=2, segment=SCRATCH, offset=3, push=[LOAD])
    b.load(Memory.ACT, pop=[STORE], count=2, segment=SCRATCH, offset=3 if legal else 4)
    return b.program()


@case(Rule.UNINITIALISED)
def accumulation_on_nothing(legal: bool) -> Program:
    b = Builder()
    b.uops(GEMM, [{"accumulate": 0 if legal else 1}, {"accumulate": 1}])
    b.load(Memory.WGT)
    b.fill(Memory.ACT, push=[GEMM])
    b.gemm(pop=[LOAD], count=2, dst=5, outer=3, dst_outer=1)
    return b.program()


@case(Rule.UNINITIALISED)
def a_unit_read_by_the_iteration_that_writes_it(legal: bool) -> Program:
    b = compute(units=1)
    b.alu(function=AluOp.MOV, src=0 if legal else 8, dst=8)
    return b.program()


@case(Rule.UNINITIALISED)
def a_vector_of_several_units_read_before_it_is_written(legal: bool) -> Program:
    b = compute(WIDE_OUT, units=16)
    # vector k + 8 reads what vector k has written, two units each
    b.alu(function=AluOp.MOV, dst=16 if legal else 18, inner=16, dst_inner=2, src_inner=2, pace=1)
    return b.program()


@case(Rule.UNINITIALISED)
def accumulation_before_the_first_write(legal: bool) -> Program:
    b = Builder()
    # The second micro-op is one unit behind or ahead: what it adds to is written already, or not yet.
    b.uops(GEMM, [{"dst": 8}, {"dst": 7 if legal else 9, "accumulate": 1}])
    b.load(Memory.WGT)
    b.fill(Memory.ACC, sram=7)
    b.fill(Memory.ACT, push=[GEMM])
    b.gemm(pop=[LOAD], count=2, inner=3, dst_inner=1)
    return b.program()


@case(Rule.UNINITIALISED)
def unwritten_weights(legal: bool) -> Program:
    b = compute()
    b.gemm(wgt=1 if legal else 2)
    return b.program()


@case(Rule.UNINITIALISED)
def emit_of_unwritten_weights(legal: bool) -> Program:
    b = Builder()
    all_ones = (1 << 10) - 1
    assert all_ones == TINY.acc_units - 1
    b.uops(GEMM, [{"dst": all_ones if legal else 0, "wgt": 9}, {"dst": 0, "wgt": 0}])
    b.load(Memory.WGT)
    b.fill(Memory.ACT, push=[GEMM])
    b.gemm(pop=[LOAD], count=2, window=1)
    return b.program()


@case(Rule.UNINITIALISED)
def unwritten_parameters(legal: bool) -> Program:
    b = compute()
    b.requantize(prm=3 if legal else 4)
    return b.program()


@case(Rule.UNINITIALISED)
def requantize_of_unwritten_acc(legal: bool) -> Program:
    b = compute()
    b.requantize(src=100, prm=31, rounding=3 if legal else 0)  # CONSTANT reads neither
    return b.program()


@case(Rule.UNINITIALISED)
def rescale_onto_nothing(legal: bool) -> Program:
    b = compute()
    b.rescale(dst=100, combine=Combine.WRITE if legal else Combine.ADD)
    return b.program()


@case(Rule.UNINITIALISED)
def alu_on_nothing(legal: bool) -> Program:
    b = compute()
    b.alu(dst=100, use_imm=1, function=AluOp.MOV if legal else AluOp.ADD)
    return b.program()


@case(Rule.UNINITIALISED)
def move_of_what_it_writes_later(legal: bool) -> Program:
    b = compute(units=64)
    # 64 written; a step of -20 would not exist, so src runs 20 behind or ahead of dst
    b.alu(function=AluOp.MOV, dst=64, src=44 if legal else 84, inner=40, dst_inner=1, src_inner=1)
    return b.program()


@case(Rule.UNINITIALISED)
def unloaded_micro_ops(legal: bool) -> Program:
    b = compute()
    b.gemm(uop_begin=0 if legal else 1)
    return b.program()
