"""Programs whose ALU or GEMM instruction comes in its own way: banks and distances."""

from __future__ import annotations

from collections.abc import Sequence

from tests.isa.build import ALU, GEMM, LOAD, Builder, compute
from tests.isa.rules.cases import ACC_BANK, PACKED, case
from tilewright.config import Config
from tilewright.isa.functions import Combine
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Memory
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.isa.verifier import Rule


@case(Rule.ALU_BANK)
def two_operands_of_one_bank(legal: bool) -> Program:
    b = compute(units=ACC_BANK + 8)
    b.alu(dst=0, src=ACC_BANK if legal else 1)
    return b.program()


@case(Rule.ALU_BANK)
def two_operands_at_full_pace(legal: bool) -> Program:
    b = compute()
    b.alu(dst=0, src=1, pace=int(legal))
    return b.program()


@case(Rule.ALU_BANK)
def operands_that_meet_in_a_bank(legal: bool) -> Program:
    b = compute(units=2 * ACC_BANK)
    # dst 0.. and src ACC_BANK - 1 + ..: the first vector has both in bank 0, unless src starts one later
    b.alu(dst=0, src=ACC_BANK - (0 if legal else 1), inner=8, dst_inner=1, src_inner=1)
    return b.program()


@case(Rule.ALU_DISTANCE)
def dependent_alu_instructions(legal: bool) -> Program:
    b = compute(units=32)
    b.alu(use_imm=1, dst=3)
    b.alu(use_imm=1, dst=10, inner=ALU_DISTANCE - 1 - (not legal), dst_inner=1)
    b.alu(use_imm=1, dst=3)
    return b.program()


@case(Rule.ALU_DISTANCE)
def dependence_through_act(legal: bool) -> Program:
    b = compute(units=32)
    b.requantize(dst=30)
    b.wait(ALU, ALU_DISTANCE - 1 if legal else ALU_DISTANCE - 2)
    b.rescale(src=30, dst=3)
    return b.program()


@case(Rule.ALU_DISTANCE)
def sum_over_too_few_vectors(legal: bool) -> Program:
    b = compute(units=32)
    vectors = ALU_DISTANCE if legal else ALU_DISTANCE - 1
    b.rescale(outer=3, inner=vectors, dst_inner=1, src_inner=1, combine=Combine.ADD)
    return b.program()


@case(Rule.ALU_DISTANCE)
def slow_chain(legal: bool) -> Program:
    b = compute(units=64)
    # at pace = 1 a vector takes two issue cycles, so 8 vectors are far enough
    b.alu(dst=8, src=8 - (8 if legal else 7), inner=30, dst_inner=1, src_inner=1, pace=1)
    return b.program()


@case(Rule.ALU_DISTANCE)
def last_vectors_of_a_long_instruction(legal: bool) -> Program:
    b = compute(units=64)
    b.alu(use_imm=1, inner=40, dst_inner=1)
    b.requantize(src=24 if legal else 25, dst=60)
    return b.program()


# That one instruction keeps its distance says nothing of another that differs in one number alone.
@case(Rule.ALU_DISTANCE)
def closer_operands_of_an_equal_sum(legal: bool) -> Program:
    b = compute(units=64)
    for closer in (0, 0 if legal else 1):
        b.alu(dst=12 - closer, src=4 + closer, inner=30, dst_inner=1, src_inner=1, pace=1)
        b.wait(ALU, ALU_DISTANCE)
    return b.program()


@case(Rule.ALU_DISTANCE)
def the_same_at_full_pace(legal: bool) -> Program:
    b = compute(units=32)
    for pace in (1, int(legal)):
        b.alu(use_imm=1, outer=2, inner=ALU_DISTANCE // 2, dst_inner=1, pace=pace)
        b.wait(ALU, ALU_DISTANCE)
    return b.program()


@case(Rule.ALU_DISTANCE)
def the_same_in_fewer_turns(legal: bool) -> Program:
    b = compute(units=32)
    for inner in (ALU_DISTANCE, ALU_DISTANCE - (not legal)):
        b.alu(use_imm=1, outer=2, inner=inner, dst_inner=1)
        b.wait(ALU, ALU_DISTANCE)
    return b.program()


def window(
    config: Config, emits: list[bool], push: Sequence[Engine] = (), weights: int = 4, units: int = 1, **fields: int
) -> Builder:  # fmt: skip
    b = Builder(config)
    push_only = config.acc_units - 1
    b.uops(GEMM, [{"dst": 0 if emit else push_only} for emit in emits])
    b.load(Memory.WGT, cols=weights, sram_col=1)
    b.fill(Memory.ACT, push=[GEMM], cols=units, sram_col=1)
    b.gemm([LOAD], push, len(emits), window=1, **fields)
    return b


@case(Rule.EMIT_DISTANCE)
def emits_one_after_the_other(legal: bool) -> Program:
    return window(PACKED, [False, True, not legal, False]).program()


@case(Rule.EMIT_DISTANCE)
def emits_around_the_loop(legal: bool) -> Program:
    return window(PACKED, [True, False, True], inner=1 if legal else 2).program()


@case(Rule.EMIT_DISTANCE)
def emits_at_full_pace(legal: bool) -> Program:
    return window(PACKED, [True, True], pace=int(legal)).program()


@case(Rule.EMIT_DISTANCE)
def emits_with_packed_multipliers(legal: bool) -> Program:
    return window(PACKED.replace(dsp_packing=not legal), [True, True]).program()


@case(Rule.PAIR)
def pair_on_plain_multipliers(legal: bool) -> Program:
    return window(PACKED.replace(dsp_packing=legal), [False, True], pair=1).program()


@case(Rule.PAIR)
def pair_of_a_dense_instruction(legal: bool) -> Program:
    b = window(PACKED, [False, False])
    b.gemm([], [], 1, window=int(legal), pair=1)
    return b.program()


@case(Rule.TWIN)
def twin_on_plain_multipliers(legal: bool) -> Program:
    return window(PACKED.replace(dsp_packing=legal), [False, True], units=2, twin=1).program()


@case(Rule.TWIN)
def twin_of_a_dense_instruction(legal: bool) -> Program:
    b = window(PACKED, [False, False], units=2)
    b.gemm([], [], 1, window=int(legal), twin=1)
    return b.program()


@case(Rule.ALIGNMENT)
def units_of_a_twin(legal: bool) -> Program:
    return window(PACKED, [False, True], units=4, twin=1, src=2 if legal else 1).program()


@case(Rule.UNINITIALISED)
def second_unit_of_a_twin(legal: bool) -> Program:
    return window(PACKED, [False, True], twin=1, units=2 if legal else 1).program()


@case(Rule.ALIGNMENT)
def results_of_a_pair(legal: bool) -> Program:
    return window(PACKED, [False, True], pair=1, dst=6 if legal else 7).program()


@case(Rule.ALIGNMENT)
def weights_of_a_pair(legal: bool) -> Program:
    return window(PACKED, [False, True], pair=1, wgt=0 if legal else 1).program()


@case(Rule.UNINITIALISED)
def second_weights_of_a_pair(legal: bool) -> Program:
    return window(PACKED, [False, True], pair=int(not legal), weights=1).program()
