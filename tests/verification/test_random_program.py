"""Random programs are legal, cover the instruction set, and are the same for the same seed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verification.random_program import (
    DENSE,
    LATE,
    TRAFFIC,
    Style,
    random_config,
    random_program,
    random_segments,
)
from tilewright.config import LONGEST_INSTRUCTION, PRESETS, Config
from tilewright.isa.codec import decode
from tilewright.isa.functions import RESCALING, AluOp, Combine, Rounding
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Memory, Opcode, instruction_width, others
from tilewright.isa.verifier import verify


def make(seed: int, size: int = 30) -> Program:
    rng = np.random.default_rng(seed)
    return random_program(rng, random_config(rng), size)


@given(st.integers(0, 1 << 32))
@settings(max_examples=25, deadline=None)
def test_the_verifier_accepts_every_program(seed: int) -> None:
    program = make(seed)
    verify(program)
    assert program.instruction_count >= 30


@pytest.mark.parametrize("style", [LATE, TRAFFIC], ids=lambda style: style.name)
def test_every_style_gives_legal_programs(style: Style) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        verify(random_program(rng, random_config(rng), 20, style))


def test_styles_differ_in_tokens_and_waits() -> None:
    def count(style: Style) -> tuple[int, int]:
        tables = [random_program(np.random.default_rng(seed), PRESETS["tiny"], 25, style).table() for seed in range(6)]
        rows = np.concatenate(tables)
        return sum(int(mask).bit_count() for mask in rows["push"]), len(rows)

    tokens, length = count(DENSE)
    assert count(TRAFFIC)[0] > 1.2 * tokens
    assert count(LATE)[0] > 1.2 * tokens
    assert count(LATE)[1] > 3 * length, "WAITs that fill the queues"


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_presets_get_legal_programs(preset: str) -> None:
    program = random_program(np.random.default_rng(7), PRESETS[preset], 25)
    verify(program)
    assert program.config is PRESETS[preset]


def test_a_seed_gives_one_program() -> None:
    first, second, other = make(3), make(3), make(4)
    assert first.config == second.config
    assert first.instructions == second.instructions
    assert first.segments == second.segments
    assert first.instructions != other.instructions


def test_segments_hold_the_constants_and_random_inputs() -> None:
    program = make(11)
    buffers = random_segments(np.random.default_rng(0), program)
    assert [b.size for b in buffers] == [s.size for s in program.segments]
    data = program.segments[0].data
    assert data is not None
    assert buffers[0][: len(data)].tobytes() == data
    assert len(np.unique(buffers[1])) > 100


def test_programs_cover_the_instruction_set() -> None:
    seen: Counter[object] = Counter()
    for seed in range(60):
        program = make(seed)
        for code in decode(program.instructions, program.config):
            seen[code.opcode] += 1
            for field in ("memory", "function", "combine", "rounding", "window", "pace", "use_imm", "engine", "trace"):
                if field in code.fields:
                    seen[code.opcode, field, code[field]] += 1
            for field in ("pop", "push"):
                for k, other in enumerate(others(code.engine)):
                    seen[field, code.engine, other] += code[field] >> k & 1
            if code.fields.get("wrap_size", 0) not in (0, 1, program.config.act_units):
                seen["wrap"] += 1
    for opcode in Opcode:
        assert seen[opcode] > 20, opcode
    expected: list[tuple[object, ...]] = [(Opcode.LOAD, "memory", m) for m in Memory]
    expected += [(Opcode.FILL, "memory", m) for m in (Memory.ACT, Memory.ACC)]
    expected += [(Opcode.ALU, "function", f) for f in AluOp] + [(Opcode.RESCALE, "combine", c) for c in Combine]
    expected += [(Opcode.REQUANTIZE, "rounding", r) for r in Rounding]
    expected += [(Opcode.RESCALE, "rounding", r) for r in RESCALING]
    expected += [(Opcode.GEMM, f, v) for f in ("window", "pace") for v in (0, 1)]
    expected += [(Opcode.ALU, f, v) for f in ("use_imm", "pace") for v in (0, 1)]
    expected += [(Opcode.WAIT, "engine", e) for e in Engine] + [(op, "trace", 1) for op in Opcode]
    expected += [(f, a, b) for f in ("pop", "push") for a in Engine for b in others(a)]
    missing = [key for key in expected if not seen[key]]
    assert not missing
    assert seen["wrap"] > 100


def test_random_configs_vary_every_parameter_that_matters() -> None:
    rng = np.random.default_rng(1)
    configs = [random_config(rng) for _ in range(120)]
    fixed = {"name", "board", "clock_mhz", "cores", "dram_bandwidth"}  # the last two: test_cores.py
    for name in configs[0].to_dict():
        values = {config.to_dict()[name] for config in configs}
        assert (len(values) == 1) == (name in fixed), name
    assert any(c.block_in > c.block_out for c in configs)
    assert any(c.block_in < c.block_out for c in configs)


def test_longest_instruction_is_that_of_the_widest_config() -> None:
    widest = Config(
        block_in=4, block_out=4, weight_bits=2, axi_bits=32, act_bytes=4 << 20, acc_bytes=4 << 20, wgt_bytes=8 << 20,
        prm_entries=1024, uop_gemm_bytes=256 << 10, uop_alu_bytes=256 << 10, segments=16,
    )  # fmt: skip
    assert instruction_width(widest) == 8 * LONGEST_INSTRUCTION


def test_token_queues_are_filled_to_their_depth_and_emptied() -> None:
    peaks = set()
    for seed in range(40):
        program = make(seed)
        counts: Counter[tuple[Engine, Engine]] = Counter()
        for row in program.table():
            engine = Engine(int(row["engine"]))
            for k, other in enumerate(others(engine)):
                counts[other, engine] -= int(row["pop"]) >> k & 1
                counts[engine, other] += int(row["push"]) >> k & 1
            peaks.add((program.config.token_depth, max(counts.values())))
        assert not any(counts.values())
    assert {(1, 1), (3, 3)} <= peaks
