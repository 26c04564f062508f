"""The builder: what it makes is legal, is what the assembler reads back, and computes; errors have line and way out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.isa.build import PAIRED, TINY
from tilewright.config import PRESETS, Config
from tilewright.isa.arithmetic import Rounding, requantize
from tilewright.isa.assembler import assemble
from tilewright.isa.builder import Builder, BuilderError, Range
from tilewright.isa.container import dump
from tilewright.isa.disassembler import disassemble
from tilewright.isa.functions import AluOp
from tilewright.isa.spec import Memory, Opcode, entry_bytes
from tilewright.isa.verifier import IllegalProgram, verify
from tilewright.sim import run_program

IDENTITY = np.array([0, 1, 0, 0])  #: bias, multiplier, offset, shift


def same(b: Builder) -> Range:
    """An entry of prm that leaves values as they are."""
    prm = b.prm(1)
    b.load(prm, np.tile(IDENTITY, (1, b.config.block_out, 1)))
    return prm


@pytest.mark.parametrize("name", [*PRESETS])
def test_a_product_on_every_config(name: str) -> None:
    """int32 sums of int8, scaled; batch rows are elements of a unit."""
    b = Builder(name)
    c = b.config
    units, vectors = c.in_units, c.out_units
    x = b.input("x", [8 * units, c.batch, c.lanes])
    w = np.random.default_rng(1).integers(-8, 8, (1, c.block_out, c.block_in))
    y = b.output("y", [8 * vectors, c.batch, c.lanes])
    a, s, z, k = b.act(8 * units), b.acc(8 * vectors), b.act(8 * vectors), b.wgt(1)
    scale = b.prm(1)
    b.load(scale, np.tile(np.array([3, 1 << 20, 0, 22]), (1, c.block_out, 1)))
    b.load(k, w)
    b.load(a, x)
    b.gemm([(0, 0, 0, 0)], dst=s, src=a, wgt=k, inner=8, dst_inner=vectors, src_inner=units)
    b.requantize(dst=z, src=s, prm=scale, zero_point=1)
    b.store(z, y)
    program = b.program()
    verify(program)
    assert dump(assemble(disassemble(program))) == dump(program)
    given = np.random.default_rng(0).integers(-128, 128, (8 * units, c.batch, c.lanes), np.int8)
    rows = given.reshape(8, units, c.batch, c.lanes).transpose(0, 2, 1, 3).reshape(8, c.batch, c.block_in)
    sums = rows.astype(np.int64) @ w[0].T
    wanted = requantize(sums, 3, 1 << 20, 22, 0, Rounding.SINGLE, 1)
    got = run_program(program, {"x": given}).outputs["y"]
    got = got.reshape(8, vectors, c.batch, c.lanes).transpose(0, 2, 1, 3).reshape(8, c.batch, c.block_out)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("function", [AluOp.ADD, AluOp.MAX, AluOp.MIN, AluOp.MUL], ids=lambda f: f.name)
def test_alu_with_a_number_and_with_a_range(function: AluOp) -> None:
    b = Builder("tiny")
    x, y = b.input("x", [32], "int32"), b.output("y", [32])
    s, t, z = b.acc(8, bank=0), b.acc(8, bank=1), b.act(8)
    prm = same(b)
    b.load(s, x)
    b.fill(t, 2)
    b.alu(function.name.lower(), dst=s, src=t)
    b.alu(function, dst=s, imm=-3)  # every vector waits for the one above
    b.requantize(dst=z, src=s, prm=prm)
    b.store(z, y)
    program = b.program()
    assert Opcode.WAIT in program.table()["opcode"]
    given = np.arange(-16, 16, dtype=np.int32)
    wanted = np.clip(function.apply(function.apply(given, 2), -3), -128, 127)
    np.testing.assert_array_equal(run_program(program, {"x": given}).outputs["y"], wanted)


def test_rescale_and_scratch() -> None:
    """act to DRAM and back, then into acc."""
    b = Builder("tiny")
    x, kept, y = b.input("x", [16]), b.scratch("kept", [16]), b.output("y", [16])
    first, again, s = b.act(4), b.act(4), b.acc(4)
    scale, prm = b.prm(1), same(b)
    b.load(scale, np.tile(np.array([0, 1, 0, 19]), (1, 4, 1)))  # (x << 20) >> 19
    b.load(first, x)
    b.store(first, kept)
    b.load(again, kept)
    b.rescale(dst=s, src=again, prm=scale)
    b.requantize(dst=first, src=s, prm=prm)
    b.store(first, y)
    given = np.arange(-8, 8, dtype=np.int8)
    np.testing.assert_array_equal(run_program(b.program(), {"x": given}).outputs["y"], 2 * given)


def test_rows_with_strides() -> None:
    """A patch of an image, and a transposed copy of its units."""
    b = Builder("tiny")
    x, y = b.input("x", [6, 5, 4]), b.output("y", [3, 2, 4])
    a = b.act(6)
    b.load(a, x, at=6, rows=2, cols=3, stride=5, row_step=1, col_step=2)
    b.store(a, y, at=0, rows=3, cols=2, stride=2)
    given = np.arange(120, dtype=np.int8).reshape(6, 5, 4)
    got = run_program(b.program(), {"x": given}).outputs["y"]
    np.testing.assert_array_equal(got, given[1:3, 1:4].transpose(1, 0, 2))


def test_weights_of_few_bits_are_packed() -> None:
    config = TINY.replace(name="narrow", weight_bits=4)
    b = Builder(config)
    b.load(b.wgt(2), np.array([-8, 7] * 16).reshape(2, 4, 4))
    assert b.program().segments[0].data == b"\x78" * 16
    with pytest.raises(BuilderError, match="wgt takes integers from -8 to 7, not from 8 to 8; quantise"):
        b.load(b.wgt(1), np.full((1, 4, 4), 8))


def test_micro_ops_are_loaded_once_and_again_when_the_memory_was_full() -> None:
    config = Config(uop_gemm_bytes=512)  # 64 of them
    b = Builder(config)
    a, s, w = b.act(64), b.acc(64), b.wgt(1)
    b.fill(a, 1)
    b.load(w, np.zeros((1, 16, 16), int))
    for count in (40, 40, 24, 30, 40):
        b.gemm([(k, k, 0, 0) for k in range(count)], dst=s, src=a, wgt=w)
    table = b.program().table()
    loads = table[(table["opcode"] == Opcode.LOAD) & (table["memory"] == Memory.UOP_GEMM)]
    assert loads["cols"].tolist() == [40, 24, 30, 40]
    assert loads["sram"].tolist() == [0, 40, 0, 0]


def test_layers_are_parts_of_the_report() -> None:
    b = Builder("tiny")
    a, y = b.act(4), b.output("y", [16])
    b.layer("zeros")
    b.fill(a, 0)
    b.layer("out")
    b.store(a, y)
    meta = b.program().meta
    assert [layer["name"] for layer in meta["layers"]] == ["zeros", "out"]
    assert meta["instruction_layer"] == [0, 1]


def test_all_rules_that_are_broken_are_told_at_once_each_with_its_line() -> None:
    b = Builder("tiny", name="wrong")
    x, y = b.input("x", [16]), b.output("y", [16])
    a, s = b.act(4), b.acc(4)
    b.store(a, y)
    b.load(a, x, at=1)
    b.alu("add", dst=s, src=s)
    with pytest.raises(IllegalProgram) as caught:
        b.program()
    assert [str(error.rule) for error in caught.value.errors] == ["uninitialised", "extent", "uninitialised"]
    lines = caught.value.details
    assert [line.split(": ")[0].rpartition(":")[0] for line in lines] == [__file__] * 3
    numbers = [int(line.split(": ")[0].rpartition(":")[2]) for line in lines]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
    assert "reaches beat 4 of segment 1 (x), which has 4 beats; make the segment larger" in lines[1]
    assert str(caught.value).endswith("wrong: breaks 3 rules")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.act(3000), "act: no 3000 units in one piece, 2040 of 2048 are free; use smaller tiles"),
        (lambda b: b.acc(300, bank=1), "bank 1 of acc: no 300 units in one piece, 256 of 256 are free"),
        (lambda b: b.acc(1, bank=9), "bank = 9: must be an integer from 0 to 3"),
        (lambda b: b.act(0), "size = 0: must be an integer of at least 1 units"),
        (lambda b: b.input("x", [0]), "x: shape = 0: must be an integer of at least 1"),
        (lambda b: b.input("x", [4], "float32"), "x: dtype = 'float32': must be one of int8, uint8, int16, int32"),
        (lambda b: b.load(b.acc(4), b.input("w", [4], "uint8")), "acc is loaded from int32; declare it so"),
        (lambda b: b.load(b.act(4), b.input("w", [4], "int32")), "act is loaded from int8; declare it so"),
        (lambda b: b.load(b.act(4), "x"), "'x': is no array of this program"),
        (lambda b: b.store(b.acc(4), b.output("o", [16])), "is no range of act; take one with Builder.act"),
        (lambda b: b.load(b.act(4), b.input("w", [64]), rows=2, cols=3), "2 rows of 3 reach its entry 5; take"),
        (lambda b: b.load(b.prm(1), np.zeros((2, 4, 4), int)), "a constant of 128 bytes exceeds 1 times 64"),
        (lambda b: b.alu("add", dst=b.acc(4)), "alu: give either src, a range of acc, or imm, a number"),
        (lambda b: b.alu("plus", dst=b.acc(4), imm=1), "function = 'plus': must be one of add, max, min"),
        (lambda b: b.alu("add", dst=b.acc(4), imm=1 << 40), "ALU.*imm = 1099511627776: must be from"),
        (lambda b: b.alu("add", dst=b.acc(4), imm=1, out=3), "ALU: no field 'out'; it has dst, dst_inner"),
        (lambda b: b.gemm([], dst=b.acc(4), src=b.act(4), wgt=b.wgt(1)), "uops: must be a list of .dst, src, wgt"),
        (lambda b: b.gemm([(0, 0)], dst=b.acc(4), src=b.act(4), wgt=b.wgt(1)), "uops: must be a list of"),
        (lambda b: b.gemm(7, dst=b.acc(4), src=b.act(4), wgt=b.wgt(1)), "uops: .*; give a list of"),
        (
            lambda b: b.gemm([(0, 1.5, 0, 0)], dst=b.acc(4), src=b.act(4), wgt=b.wgt(1)),
            "uops = 1.5: must be an integer of at least -1",
        ),
        (lambda b: b.act(4)[2:7], "act 8 to 11: .2:7. is no part of its 4"),
        (lambda b: b.fill(b.act(4), 0, rows=-1), "rows = -1: must be an integer of at least 0"),
        (lambda b: b.wait("dma"), "engine = 'dma': must be one of load, gemm, alu, store"),
    ],
)  # fmt: skip
def test_a_call_that_cannot_be_carried_out(call: Callable[[Builder], object], message: str) -> None:
    b = Builder("tiny")
    b.act(8)
    with pytest.raises(BuilderError, match=message):
        call(b)


def test_errors_name_the_line_of_the_program() -> None:
    b = Builder("tiny")
    with pytest.raises(BuilderError, match=rf"^{__file__}:\d+: act: no 9999 units"):
        b.act(9999)


def test_entries_of_every_memory_are_whole_beats() -> None:
    """So ``at`` and ``stride``, which count entries, are never inside a beat."""
    for config in (*PRESETS.values(), PAIRED, PRESETS["tiny"].replace(weight_bits=2)):
        for memory in (Memory.ACT, Memory.ACC, Memory.WGT, Memory.PRM):
            assert entry_bytes(config, memory) % config.beat_bytes == 0
