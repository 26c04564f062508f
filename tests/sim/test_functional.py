"""The compiled semantics equal the plain Python ones, byte for byte, and both equal NumPy where that is easy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.isa.build import ALU, CONSTANT, LOAD, TINY, Builder
from tests.sim.build import DEFAULT, code, parameters, program, random_case
from tests.sim.reference import Reference
from tests.verification.random_program import random_program, random_segments
from tilewright.config import PRESETS, Config
from tilewright.isa.arithmetic import requantize, rescale
from tilewright.isa.codec import encode_uops
from tilewright.isa.functions import RESCALING, SCALING, AluOp, Rounding
from tilewright.isa.program import Program
from tilewright.isa.spec import Engine, Memory, Opcode
from tilewright.sim import Functional, initial_segments


def assert_same(rng: np.random.Generator, made: Program) -> Functional:
    """Run a program on both and compare every byte of every segment and memory."""
    segments = random_segments(rng, made)
    copies = [s.copy() for s in segments]
    fast, slow = Functional(made), Reference(made)
    result = fast.run(segments)
    slow.run(copies)
    for number, (a, b) in enumerate(zip(segments, copies)):
        np.testing.assert_array_equal(a, b, err_msg=f"segment {number}")
    expected = {
        Memory.ACT: slow.act, Memory.ACC: slow.acc, Memory.WGT: slow.wgt, Memory.PRM: slow.prm,
        Memory.UOP_GEMM: slow.uops[Engine.GEMM], Memory.UOP_ALU: slow.uops[Engine.ALU],
    }  # fmt: skip
    for memory, values in expected.items():
        np.testing.assert_array_equal(fast.memory(memory), values, err_msg=memory.name)
    assert result.fault is None
    assert result.emits == slow.emits
    return fast


@given(st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None)
def test_random_programs_on_random_configs(seed: int) -> None:
    assert_same(*random_case(seed))


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_random_programs_on_presets(preset: str) -> None:
    rng = np.random.default_rng(5)
    assert_same(rng, random_program(rng, PRESETS[preset], 40))


@pytest.mark.parametrize("batch,block_in,block_out", [(1, 64, 64), (1, 4, 64), (2, 64, 4), (16, 8, 32), (4, 32, 16)])
@pytest.mark.parametrize("weight_bits", [8, 4, 2])
def test_block_shapes(batch: int, block_in: int, block_out: int, weight_bits: int) -> None:
    config = Config(
        name="shape", board="", batch=batch, block_in=block_in, block_out=block_out, weight_bits=weight_bits,
        axi_bits=32, act_bytes=128 << 10, acc_bytes=128 << 10, wgt_bytes=64 << 10,
    )  # fmt: skip
    rng = np.random.default_rng(block_in + weight_bits)
    fast = assert_same(rng, random_program(rng, config, 30))
    limit = 1 << (weight_bits - 1)
    weights = fast.memory(Memory.WGT)
    assert weights.min() >= -limit
    assert weights.max() < limit


def test_dense_convolution_equals_matmul() -> None:
    """Weights of two blocks accumulate; the result is requantised and stored."""
    rng = np.random.default_rng(0)
    x, w = rng.integers(-128, 128, (8, 16), np.int8), rng.integers(-128, 128, (2, 16, 16), np.int8)
    uops = [{"dst": 0, "src": k, "wgt": k, "accumulate": k} for k in range(2)]
    gemm, alu = encode_uops(uops, Engine.GEMM, DEFAULT), encode_uops([{}], Engine.ALU, DEFAULT)
    blob = w.tobytes() + parameters(100, 1 << 30, 0, 36, 16) + gemm + alu
    at = np.cumsum([0, w.nbytes, 256, len(gemm)]) // DEFAULT.beat_bytes
    ring: dict[str, Any] = {"wrap_base": 1024, "wrap_size": 64}
    codes = [
        code(Opcode.LOAD, memory=Memory.WGT, sram_col=1, cols=2, offset=int(at[0])),
        code(Opcode.LOAD, memory=Memory.PRM, offset=int(at[1])),
        code(Opcode.LOAD, memory=Memory.UOP_GEMM, sram_col=1, cols=2, offset=int(at[2])),
        code(Opcode.LOAD, memory=Memory.UOP_ALU, offset=int(at[3])),
        code(Opcode.LOAD, push=[Engine.GEMM], memory=Memory.ACT, sram_col=1, cols=8, wrap_size=64, segment=1),
        code(Opcode.GEMM, pop=[Engine.LOAD], push=[Engine.ALU], uop_count=2, inner=4, dst_inner=1, src_inner=2,
             wrap_size=64),
        code(Opcode.REQUANTIZE, pop=[Engine.GEMM], push=[Engine.STORE], inner=4, dst_inner=1, src_inner=1, **ring,
             lo=-128, hi=127, zero_point=3),
        code(Opcode.STORE, pop=[Engine.ALU], sram_col=1, cols=4, **ring, segment=2),
    ]  # fmt: skip
    made = program(codes, DEFAULT, blob, 128, 64)
    segments = initial_segments(made)
    segments[1][:] = x.view(np.uint8).ravel()
    result = Functional(made).run(segments)
    sums = np.concatenate([x[0::2], x[1::2]], 1).astype(np.int64) @ np.concatenate([w[0], w[1]], 1).T.astype(np.int64)
    expected = requantize(sums, 100, 1 << 30, 36, 0, Rounding.DOUBLE, 3)
    np.testing.assert_array_equal(segments[2].view(np.int8).reshape(4, 16), expected)
    assert (result.gemm_uops, result.emits) == (8, 0)


def test_window_mode_is_a_depthwise_correlation_from_zeros() -> None:
    """Pushes beyond the chunk of the simulator's window buffer, and zeros at the start of every instruction."""
    rng = np.random.default_rng(1)
    config = PRESETS["tiny"]
    x, w = rng.integers(-128, 128, (600, 4), np.int8), rng.integers(-128, 128, (4, 4), np.int8)
    uops = encode_uops([{"dst": 0, "src": 0, "wgt": 0}], Engine.GEMM, config)
    blob = w.tobytes() + uops
    codes = [
        code(Opcode.LOAD, memory=Memory.WGT),
        code(Opcode.LOAD, memory=Memory.UOP_GEMM, offset=w.nbytes // 4),
        code(Opcode.LOAD, memory=Memory.ACT, push=[Engine.GEMM], sram_col=1, cols=600, wrap_size=2048, segment=1),
        code(Opcode.GEMM, pop=[Engine.LOAD], inner=600, src_inner=1, dst_inner=1, wrap_size=2048, window=1),
        code(Opcode.GEMM, inner=2, src_inner=1, dst_inner=1, dst=700, wrap_size=2048, window=1),
    ]
    made = program(codes, config, blob, 2400)
    segments = initial_segments(made)
    segments[1][:] = x.view(np.uint8).ravel()
    fast = Functional(made)
    result = fast.run(segments)
    padded = np.concatenate([np.zeros((3, 4), np.int64), x.astype(np.int64)])
    expected = np.sum([padded[3 - t : 603 - t] * w[:, t].astype(np.int64) for t in range(4)], axis=0)
    acc = fast.memory(Memory.ACC)[:, 0, :]
    np.testing.assert_array_equal(acc[:600], expected)
    np.testing.assert_array_equal(acc[700:702], expected[:2])
    assert (result.gemm_uops, result.emits) == (602, 602)


@pytest.mark.parametrize("function", list(AluOp))
def test_alu_operations_at_the_edges_of_int32(function: AluOp) -> None:
    edges = [
        0,
        1,
        -1,
        2,
        31,
        32,
        33,
        63,
        -32,
        (1 << 31) - 1,
        -(1 << 31),
        0x55555555,
        -7,
        123456789,
        1 << 30,
        -(1 << 30),
    ]
    values = np.array(edges, np.int64)
    codes = [
        code(Opcode.LOAD, memory=Memory.ACC, segment=0),
        code(Opcode.LOAD, memory=Memory.UOP_ALU, segment=1, push=[Engine.ALU]),
        *(code(Opcode.ALU, dst=1 + k, src=0, function=AluOp.MOV) for k in range(len(edges))),
        *(code(Opcode.ALU, dst=1 + k, function=function, use_imm=1, imm=edge) for k, edge in enumerate(edges)),
    ]
    made = program(codes, DEFAULT, values.astype("<i4").tobytes(), encode_uops([{}], Engine.ALU, DEFAULT))
    fast = Functional(made)
    fast.run(initial_segments(made))
    got = fast.memory(Memory.ACC)[1 : 1 + len(edges), 0, :]
    for k, edge in enumerate(edges):
        np.testing.assert_array_equal(got[k], function.apply(values, np.full_like(values, edge)))


@pytest.mark.parametrize("rounding", SCALING)
def test_both_scaling_instructions_round_halves_as_stated(rounding: Rounding) -> None:
    """Every other value is a tie, which random constants seldom give."""
    lanes, vectors = TINY.batch * TINY.block_out, 8
    x = np.arange(vectors * lanes).reshape(vectors, lanes) - vectors * lanes // 2
    b, prm = Builder(TINY), np.zeros((2, TINY.block_out, 4), "<i4")
    one = 1 << rounding.precision
    prm[..., 1], prm[..., 3] = one, [[1], [21]]
    b.load(Memory.PRM, count=2, segment=CONSTANT, offset=b.constant(prm.tobytes()))
    b.load(Memory.ACC, count=vectors, segment=CONSTANT, offset=b.constant(x.astype("<i4").tobytes()))
    b.load(Memory.ACT, count=vectors, segment=CONSTANT, offset=b.constant(x.astype(np.int8).tobytes()))
    b.uops(ALU, [{}], push=[ALU])
    loops: dict[str, Any] = {"inner": vectors, "dst_inner": 1, "src_inner": 1, "rounding": rounding}
    b.requantize(**loops, dst=vectors, lo=-128, pop=[LOAD])
    if rounding in RESCALING:
        b.rescale(**loops, dst=vectors, prm=1)
    fast = assert_same(np.random.default_rng(0), b.program())
    narrow, wide = (fast.memory(m).reshape(-1, lanes)[vectors : 2 * vectors] for m in (Memory.ACT, Memory.ACC))
    assert narrow.tolist() == requantize(x, 0, one, 1, 0, rounding, 0).tolist()
    if rounding in RESCALING:
        assert wide.tolist() == rescale(x, 0, one, 21, 0, rounding).tolist()
        assert narrow.tolist() == wide.tolist()
    if rounding.to_even:
        assert narrow.ravel().tolist() == [round(value / 2) for value in x.ravel().tolist()]


def test_shift_by_hand() -> None:
    """Counts are the operand's low 6 bits, signed: -32 .. 31; negative ones go left and wrap."""
    x = np.array([-8, -8, 3, 3, 1, 1], np.int64)
    n = np.array([1, 64 + 2, -1, -32, -31, 63], np.int64)
    np.testing.assert_array_equal(AluOp.SHR.apply(x, n), [-4, -2, 6, 0, -(1 << 31), 2])


def test_runs_do_not_depend_on_earlier_ones() -> None:
    rng, made = random_case(9)
    first = random_segments(rng, made)
    again = [s.copy() for s in first]
    functional = Functional(made)
    functional.run(first)
    functional.run(random_segments(rng, made))
    functional.run(again)
    for a, b in zip(first, again):
        np.testing.assert_array_equal(a, b)


def test_unverified_addresses_stay_inside_the_memories() -> None:
    """What the verifier would reject must not touch foreign memory: addresses wrap at the depth."""
    config = PRESETS["tiny"]
    uop = {"dst": config.acc_units - 1, "src": config.act_units - 1, "wgt": config.wgt_entries - 1}
    data = encode_uops([uop], Engine.GEMM, config)
    far: dict[str, Any] = {"dst": config.acc_units - 1, "src": config.act_units - 1, "wgt": config.wgt_entries - 1}
    loops: dict[str, Any] = {f"{name}_{loop}": value for name, value in far.items() for loop in ("outer", "inner")}
    codes = [
        code(Opcode.LOAD, memory=Memory.UOP_GEMM),
        code(Opcode.GEMM, **far, **loops, outer=1000, inner=50, wrap_base=config.act_units - 1, wrap_size=1),
        code(Opcode.FILL, memory=Memory.ACC, sram=config.acc_units - 1, sram_row=1000, sram_col=1000, rows=64, cols=64),
    ]
    result = Functional(program(codes, config, data)).run([np.frombuffer(data, np.uint8)])
    assert result.gemm_uops == 50000
