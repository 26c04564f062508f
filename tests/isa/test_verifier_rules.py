"""Each legality rule: a minimal program that breaks it, and its legal twin."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import pytest

from tests.isa.build import ALU, CONSTANT, GEMM, INPUT, LOAD, OUTPUT, SCRATCH, STORE, TINY, Builder
from tilewright.config import PRESETS, Config
from tilewright.isa.program import Program, Segment
from tilewright.isa.spec import AluOp, Combine, Engine, Memory, uop_depth
from tilewright.isa.timing import ALU_DISTANCE
from tilewright.isa.verifier import RULES, Rule, VerifyError, verify

PACKED = PRESETS["pynq-z2"]  #: with dsp_packing
WIDE_OUT = TINY.replace(block_out=8)  #: out_units = 2
WIDE_IN = TINY.replace(block_in=8)  #: in_units = 2
ACC_BANK = TINY.acc_bank_units
ACT_BANK = TINY.act_bank_units

Case = Callable[[bool], Program]
CASES: list[tuple[Rule, str, Case]] = []


def case(rule: Rule) -> Callable[[Case], Case]:
    def register(build: Case) -> Case:
        CASES.append((rule, build.__name__, build))
        return build

    return register


def compute(config: Config = TINY, units: int = 8) -> Builder:
    """One GEMM and one ALU micro-op of zeros, act, wgt, acc and prm filled; all engines may start."""
    b = Builder(config)
    b.uops(GEMM, [{}])
    b.uops(ALU, [{}])
    b.load(Memory.PRM, count=4)
    b.load(Memory.WGT, count=2)
    b.fill(Memory.ACT, count=units)
    b.fill(Memory.ACC, count=units, push=[GEMM, ALU, STORE])
    for engine in (GEMM, ALU, STORE):
        b.wait(engine, pop=[LOAD])
    return b


# -- program and encoding -------------------------------------------------------------------------------


@case(Rule.ENCODING)
def bits_above_the_fields(legal: bool) -> Program:
    b = Builder()
    b.wait(LOAD)
    program = b.program()
    data = program.instructions if legal else program.instructions[:-1] + b"\x80"
    return dataclasses.replace(program, instructions=data)


@case(Rule.ENCODING)
def whole_instructions(legal: bool) -> Program:
    b = Builder()
    b.wait(LOAD)
    program = b.program()
    return dataclasses.replace(program, instructions=program.instructions[: None if legal else -1])


def _segments(*segments: Segment) -> Program:
    return Program(TINY, b"", segments)


@case(Rule.SEGMENT_TABLE)
def too_many_segments(legal: bool) -> Program:
    return _segments(*(Segment(f"s{k}", "scratch", 64) for k in range(TINY.segments + (not legal))))


@case(Rule.SEGMENT_TABLE)
def segment_of_part_of_a_beat(legal: bool) -> Program:
    return _segments(Segment("s", "scratch", 64 if legal else 63))


@case(Rule.SEGMENT_TABLE)
def segments_of_one_name(legal: bool) -> Program:
    return _segments(Segment("s", "input", 64), Segment("t" if legal else "s", "output", 64))


@case(Rule.SEGMENT_TABLE)
def data_longer_than_the_segment(legal: bool) -> Program:
    return _segments(Segment("s", "constant", 4, bytes(4 if legal else 5)))


@case(Rule.SEGMENT_TABLE)
def data_in_an_input(legal: bool) -> Program:
    return _segments(Segment("s", "input", 4, None if legal else bytes(4)))


@case(Rule.SEGMENT_TABLE)
def repeat_stride_not_on_a_page(legal: bool) -> Program:
    return _segments(Segment("s", "input", 4, None, 4096 if legal else 4100))


@case(Rule.SEGMENT_TABLE)
def unknown_segment_kind(legal: bool) -> Program:
    return _segments(Segment("s", "scratch" if legal else "heap", 4))  # type: ignore[arg-type]


# -- tokens ---------------------------------------------------------------------------------------------


@case(Rule.TOKEN_UNDERFLOW)
def pop_before_push(legal: bool) -> Program:
    b = Builder()
    if legal:
        b.wait(LOAD, push=[GEMM])
    b.wait(GEMM, pop=[LOAD])
    if not legal:
        b.wait(LOAD, push=[GEMM])
    return b.program()


@case(Rule.TOKEN_OVERFLOW)
def more_tokens_than_the_depth(legal: bool) -> Program:
    config = TINY.replace(token_depth=3)
    b = Builder(config)
    tokens = 3 if legal else 4
    for _ in range(tokens):
        b.wait(STORE, push=[LOAD])
    for _ in range(tokens):
        b.wait(LOAD, pop=[STORE])
    return b.program()


@case(Rule.TOKEN_LEFTOVER)
def token_left_at_the_end(legal: bool) -> Program:
    b = Builder()
    b.wait(ALU, push=[GEMM])
    if legal:
        b.wait(GEMM, pop=[ALU])
    return b.program()


# -- fields ---------------------------------------------------------------------------------------------


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


# -- uninitialised --------------------------------------------------------------------------------------


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


# -- races ----------------------------------------------------------------------------------------------


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


# -- banks ----------------------------------------------------------------------------------------------


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


# -- within an engine -----------------------------------------------------------------------------------


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


def _window(config: Config, emits: list[bool], push: Sequence[Engine] = (), **fields: int) -> Builder:
    b = Builder(config)
    push_only = config.acc_units - 1
    b.uops(GEMM, [{"dst": 0 if emit else push_only} for emit in emits])
    b.load(Memory.WGT)
    b.fill(Memory.ACT, push=[GEMM])
    b.gemm([LOAD], push, len(emits), window=1, **fields)
    return b


@case(Rule.EMIT_DISTANCE)
def emits_one_after_the_other(legal: bool) -> Program:
    return _window(PACKED, [False, True, not legal, False]).program()


@case(Rule.EMIT_DISTANCE)
def emits_around_the_loop(legal: bool) -> Program:
    return _window(PACKED, [True, False, True], inner=1 if legal else 2).program()


@case(Rule.EMIT_DISTANCE)
def emits_at_full_pace(legal: bool) -> Program:
    return _window(PACKED, [True, True], pace=int(legal)).program()


@case(Rule.EMIT_DISTANCE)
def emits_with_packed_multipliers(legal: bool) -> Program:
    return _window(PACKED.replace(dsp_packing=not legal), [True, True]).program()


# -- the tests ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule,name,build", CASES, ids=[f"{rule}-{name}" for rule, name, _ in CASES])
def test_illegal_program_is_rejected_and_its_legal_twin_is_not(rule: Rule, name: str, build: Case) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(build(False))
    assert caught.value.rule == rule, caught.value
    message = str(caught.value)
    assert "\n" not in message
    assert f"{rule}: " in message
    assert message.startswith("program: " if caught.value.index is None else f"instruction {caught.value.index} (")
    verify(build(True))


def test_every_rule_has_a_case_and_a_sentence() -> None:
    assert {rule for rule, _, _ in CASES} == set(Rule)
    assert set(RULES) == set(Rule)


def test_message_names_address_and_the_other_instruction() -> None:
    with pytest.raises(VerifyError) as caught:
        verify(gemm_onto_acc_being_filled(False))
    assert str(caught.value) == (
        "instruction 10 (GEMM on gemm): race-waw: writes acc unit 20, which instruction 9 (FILL on load) writes, "
        "and no token orders it after that"
    )


def test_given_segment_sizes_replace_the_programs() -> None:
    program = load_past_the_segment(True)
    sizes = [s.size for s in program.segments]
    verify(program, sizes)
    with pytest.raises(VerifyError) as caught:
        verify(program, [*sizes[:1], 60, *sizes[2:]])
    assert caught.value.rule == Rule.EXTENT
    with pytest.raises(VerifyError, match="segment sizes given"):
        verify(program, sizes[:1])


def test_segment_content_beyond_the_data_is_zero() -> None:
    b = compute()
    b.load(Memory.UOP_GEMM, segment=CONSTANT, count=1, sram=5, offset=0, push=[GEMM])
    b.gemm(pop=[LOAD], uop_begin=5)
    program = b.program()
    short = dataclasses.replace(program.segments[0], data=b"")
    verify(dataclasses.replace(program, segments=(short, *program.segments[1:])))


def test_instructions_need_no_distance_between_their_emits() -> None:
    b = _window(PACKED, [True])
    b.gemm(count=1, window=1)
    b.gemm(count=1)
    verify(b.program())
