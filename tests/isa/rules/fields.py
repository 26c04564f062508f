"""Programs that break the rules of an instruction's fields."""

from __future__ import annotations

from tests.isa.build import CONSTANT, GEMM, INPUT, LOAD, OUTPUT, SCRATCH, STORE, TINY, Builder, compute
from tests.isa.rules.cases import PACKED, WIDE_IN, WIDE_OUT, case
from tilewright.isa.program import Program
from tilewright.isa.spec import Memory, uop_depth
from tilewright.isa.verifier import Rule


@case(Rule.MEMORY)
def fill_of_weights(legal: bool) -> Program:
    b = Builder()
    b.fill(Memory.ACC if legal else Memory.WGT)
    return b.program()


@case(Rule.MEMORY)
def fill_of_widened_acc(legal: bool) -> Program:
    b = Builder()
    b.fill(Memory.ACT if legal else Memory.ACC8)
    return b.program()


@case(Rule.SEGMENT)
def segment_that_does_not_exist(legal: bool) -> Program:
    b = Builder()
    b.load(Memory.ACT, segment=SCRATCH - 2 if legal else 4)
    return b.program()


@case(Rule.SEGMENT_KIND)
def store_to_an_input(legal: bool) -> Program:
    b = Builder()
    b.fill(Memory.ACT, push=[STORE])
    b.store(pop=[LOAD], segment=SCRATCH if legal else INPUT)
    return b.program()


@case(Rule.SEGMENT_KIND)
def store_to_constants(legal: bool) -> Program:
    b = Builder()
    b.constant(bytes(64))
    b.fill(Memory.ACT, push=[STORE])
    b.store(pop=[LOAD], segment=OUTPUT if legal else CONSTANT)
    return b.program()


@case(Rule.SEGMENT_KIND)
def micro_ops_from_an_input(legal: bool) -> Program:
    b = Builder()
    b.constant(bytes(64))
    b.load(Memory.UOP_ALU, count=4, segment=CONSTANT if legal else INPUT)
    return b.program()


@case(Rule.EXTENT)
def load_past_the_segment(legal: bool) -> Program:
    b = Builder(size=64)  # 16 units
    b.load(Memory.ACT, rows=4, cols=4, sram_col=1, sram_row=4, stride=4, offset=0 if legal else 1)
    return b.program()


@case(Rule.EXTENT)
def store_past_the_segment(legal: bool) -> Program:
    b = Builder(size=64)
    b.fill(Memory.ACT, count=16, push=[STORE])
    b.store(pop=[LOAD], count=16 if legal else 1, offset=0 if legal else 16)
    return b.program()


@case(Rule.WRAP)
def region_beyond_act(legal: bool) -> Program:
    b = Builder()
    b.fill(Memory.ACT, wrap_base=TINY.act_units - 4, wrap_size=4 if legal else 5)
    return b.program()


@case(Rule.WRAP)
def tile_offset_of_two_regions(legal: bool) -> Program:
    b = Builder()
    b.fill(Memory.ACT, sram=4, count=4 if legal else 5, wrap_size=4)
    return b.program()


@case(Rule.WRAP)
def gemm_offset_of_two_regions(legal: bool) -> Program:
    b = compute()
    b.gemm(src=3, inner=5 if legal else 6, src_inner=1, wrap_size=4)
    return b.program()


@case(Rule.RANGE)
def load_past_a_memory(legal: bool) -> Program:
    b = Builder()
    b.load(Memory.PRM, count=2, sram=TINY.prm_entries - (2 if legal else 1))
    return b.program()


@case(Rule.RANGE)
def gemm_result_past_acc(legal: bool) -> Program:
    b = compute()
    b.gemm(dst=TINY.acc_units - 4, outer=2 if legal else 3, dst_outer=2)
    return b.program()


@case(Rule.RANGE)
def micro_op_past_its_memory(legal: bool) -> Program:
    b = Builder()
    depth = uop_depth(TINY, GEMM)
    b.uops(GEMM, [{}], at=depth - 1)
    b.load(Memory.WGT)
    b.fill(Memory.ACT, push=[GEMM])
    b.gemm(pop=[LOAD], uop_begin=depth - 1, count=1 if legal else 2)
    return b.program()


@case(Rule.ALIGNMENT)
def crooked_dense_result(legal: bool) -> Program:
    b = compute(WIDE_OUT)
    b.gemm(dst=2 if legal else 1)
    return b.program()


@case(Rule.ALIGNMENT)
def crooked_dense_operand(legal: bool) -> Program:
    b = compute(WIDE_IN)
    b.gemm(src=2, inner=2, src_inner=2 if legal else 1)
    return b.program()


@case(Rule.ALIGNMENT)
def operand_crooked_after_wrapping(legal: bool) -> Program:
    b = compute(WIDE_IN, units=16)
    b.gemm(src=4, wrap_size=4, wrap_base=2 if legal else 3)
    return b.program()


@case(Rule.ALIGNMENT)
def crooked_alu_vector(legal: bool) -> Program:
    b = compute(WIDE_OUT)
    b.alu(use_imm=1, dst=0 if legal else 3)
    return b.program()


def _half_beat_uops(count: int = 4, **fields: int) -> Program:
    b = Builder(PACKED)  # two 32-bit ALU micro-ops to a beat
    b.constant(bytes(256))
    b.load(Memory.UOP_ALU, (), (), count, segment=CONSTANT, **fields)
    return b.program()


@case(Rule.ALIGNMENT)
def micro_ops_to_half_a_beat(legal: bool) -> Program:
    return _half_beat_uops(sram=2 if legal else 1)


@case(Rule.ALIGNMENT)
def micro_ops_of_half_a_beat(legal: bool) -> Program:
    return _half_beat_uops(count=4 if legal else 3)


@case(Rule.ALIGNMENT)
def micro_op_rows_at_half_beats(legal: bool) -> Program:
    return _half_beat_uops(rows=2, stride=2, sram_row=4 if legal else 5)


@case(Rule.ALIGNMENT)
def micro_ops_apart(legal: bool) -> Program:
    return _half_beat_uops(sram_col=1 if legal else 2)


@case(Rule.ROUNDING)
def rescale_to_a_constant(legal: bool) -> Program:
    b = compute()
    b.rescale(rounding=0 if legal else 3)
    return b.program()


@case(Rule.ROUNDING)
def requantize_in_float32(legal: bool) -> Program:
    b = compute(TINY.replace(float32_scaling=legal))
    b.requantize(rounding=4)
    return b.program()


@case(Rule.ROUNDING)
def rescale_in_float32(legal: bool) -> Program:
    b = compute()
    b.rescale(rounding=2 if legal else 4)
    return b.program()
