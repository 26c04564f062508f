"""Programs in which two engines meet in a unit, a beat or a bank, in no order."""

from __future__ import annotations

from tests.isa.build import ALU, GEMM, LOAD, SCRATCH, STORE, Builder, compute
from tests.isa.rules.cases import ACC_BANK, ACT_BANK, case
from tilewright.isa.functions import AluOp
from tilewright.isa.program import Program
from tilewright.isa.spec import Memory
from tilewright.isa.verifier import Rule


@case(Rule.RACE_RAW)
def store_of_act_still_being_loaded(legal: bool) -> Program:
    b = Builder()
    b.load(Memory.ACT)
    b.store() if not legal else b.wait(LOAD, push=[STORE])
    if legal:
        b.store(pop=[LOAD])
    return b.program()


@case(Rule.RACE_RAW)
def order_through_a_third_engine(legal: bool) -> Program:
    b = Builder()
    b.load(Memory.ACT, push=[GEMM])
    b.wait(GEMM, pop=[LOAD], push=[ALU])
    b.wait(ALU, pop=[GEMM] if legal else [], push=[STORE])
    b.store(pop=[ALU])
    if not legal:
        b.wait(ALU, pop=[GEMM])
    return b.program()


@case(Rule.RACE_RAW)
def load_of_a_beat_being_stored(legal: bool) -> Program:
    b = Builder()
    b.fill(Memory.ACT, push=[STORE])
    b.store(pop=[LOAD], segment=SCRATCH, push=[LOAD])
    b.load(Memory.ACT, sram=9, segment=SCRATCH, pop=[STORE] if legal else [])
    if not legal:
        b.wait(LOAD, pop=[STORE])
    return b.program()


@case(Rule.RACE_RAW)
def gemm_of_micro_ops_being_loaded(legal: bool) -> Program:
    b = compute()
    b.uops(GEMM, [{}], at=3, push=[GEMM])
    if legal:
        b.wait(GEMM, pop=[LOAD])
    b.gemm(uop_begin=3)
    if not legal:
        b.wait(GEMM, pop=[LOAD])
    return b.program()


@case(Rule.RACE_WAR)
def load_onto_weights_in_use(legal: bool) -> Program:
    b = compute()
    b.gemm(push=[LOAD])
    b.load(Memory.WGT, pop=[GEMM] if legal else [])
    if not legal:
        b.wait(LOAD, pop=[GEMM])
    return b.program()


@case(Rule.RACE_WAR)
def load_onto_weights_read_right_after_what_is_ordered(legal: bool) -> Program:
    b = compute()
    b.gemm(push=[] if legal else [LOAD])
    b.gemm(wgt=1, push=[LOAD] if legal else [])  # the very next instruction
    b.load(Memory.WGT, sram=1, pop=[GEMM])
    return b.program()


@case(Rule.RACE_WAR)
def load_onto_micro_ops_in_use(legal: bool) -> Program:
    b = compute()
    b.alu(use_imm=1, push=[LOAD])
    b.uops(ALU, [{}], pop=[ALU] if legal else [])
    if not legal:
        b.wait(LOAD, pop=[ALU])
    return b.program()


@case(Rule.RACE_WAR)
def store_onto_a_beat_being_loaded(legal: bool) -> Program:
    b = Builder()
    b.fill(Memory.ACT, push=[STORE])
    b.store(pop=[LOAD], segment=SCRATCH, push=[LOAD])
    b.load(Memory.ACT, sram=9, segment=SCRATCH, pop=[STORE], push=[STORE])
    b.store(segment=SCRATCH, pop=[LOAD] if legal else [])
    if not legal:
        b.wait(STORE, pop=[LOAD])
    return b.program()


@case(Rule.RACE_WAW)
def gemm_onto_acc_being_filled(legal: bool) -> Program:
    b = compute()
    b.fill(Memory.ACC, sram=20, push=[GEMM])
    b.gemm(dst=20, pop=[LOAD] if legal else [])
    if not legal:
        b.wait(GEMM, pop=[LOAD])
    return b.program()


@case(Rule.RACE_WAW)
def alu_onto_acc_being_loaded(legal: bool) -> Program:
    b = compute()
    b.load(Memory.ACC8, sram=20, push=[ALU])
    b.alu(dst=20, use_imm=1, function=AluOp.MOV, pop=[LOAD] if legal else [])
    if not legal:
        b.wait(ALU, pop=[LOAD])
    return b.program()


@case(Rule.BANK_READERS)
def gemm_and_store_read_one_bank(legal: bool) -> Program:
    b = Builder()
    b.uops(GEMM, [{}])
    b.load(Memory.WGT)
    b.fill(Memory.ACT, count=ACT_BANK + 1, push=[GEMM, STORE])
    b.gemm(pop=[LOAD])
    b.store(pop=[LOAD], sram=ACT_BANK if legal else ACT_BANK - 1)
    return b.program()


@case(Rule.BANK_READERS)
def accumulation_and_alu_read_one_bank(legal: bool) -> Program:
    b = Builder()
    b.uops(GEMM, [{"accumulate": int(not legal)}])
    b.uops(ALU, [{"dst": 7}])
    b.load(Memory.WGT)
    b.load(Memory.PRM)
    b.fill(Memory.ACT)
    b.fill(Memory.ACC, count=8, push=[GEMM, ALU])
    b.gemm(pop=[LOAD])
    b.requantize(pop=[LOAD], src=7)  # overwriting does not read, so only an accumulation shares the bank
    return b.program()


@case(Rule.BANK_WRITERS)
def gemm_and_load_write_one_bank(legal: bool) -> Program:
    b = compute()
    b.gemm(dst=ACC_BANK - 1)
    b.fill(Memory.ACC, sram=ACC_BANK if legal else ACC_BANK - 2)
    return b.program()


@case(Rule.BANK_WRITERS)
def alu_and_load_write_one_bank(legal: bool) -> Program:
    b = compute()
    b.requantize(dst=40, wrap_base=ACT_BANK, wrap_size=64)
    b.load(Memory.ACT, sram=2 * ACT_BANK - (0 if legal else 1))
    return b.program()
