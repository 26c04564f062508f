"""Assembly text: exact round trips, and errors that name file, line, token and what was expected."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings

from tests.isa.build import ALU, GEMM, LOAD, Builder, compute
from tests.isa.strategies import programs
from tests.isa.synthetic import resnet_sized
from tilewright.config import PRESETS
from tilewright.isa.assembler import AssemblyError, assemble
from tilewright.isa.container import dump
from tilewright.isa.disassembler import disassemble
from tilewright.isa.functions import AluOp
from tilewright.isa.program import Program
from tilewright.isa.spec import Memory
from tilewright.isa.verifier import verify


@given(programs())
@settings(max_examples=60, deadline=None)
def test_any_program_round_trips(program: Program) -> None:
    text = disassemble(program)
    again = assemble(text)
    assert again == program
    assert dump(again) == dump(program)
    assert disassemble(again) == text


def test_real_program_round_trips() -> None:
    program = resnet_sized(tiles=3)
    text = disassemble(program)
    assert dump(assemble(text)) == dump(program)
    assert text.count(".uop_gemm") == 288
    assert text.count(".uop_alu") == 4  # as many as a beat has


def test_overlapping_micro_op_loads_round_trip() -> None:
    b = Builder(PRESETS["pynq-z2"])
    b.uops(GEMM, [{"dst": k, "accumulate": 1} for k in range(8)])
    b.load(Memory.UOP_GEMM, segment=0, count=4, offset=2)  # inside the first
    b.load(Memory.UOP_ALU, segment=0, count=8, offset=6)  # across its end
    b.constant(b"\xff" * 99 + bytes(200))
    assert dump(assemble(disassemble(b.program()))) == dump(b.program())


def test_text_reads_well() -> None:
    b = compute()
    b.gemm(pop=[LOAD, ALU], push=[ALU], outer=3, dst_outer=2, trace=1)
    b.alu(function=AluOp.SHR, use_imm=1, imm=-4)
    b.load(Memory.WGT, count=2, offset=5)
    meta = {"layers": [{"name": "conv"}], "instruction_layer": [-1] * 9 + [0] * 3}
    lines = disassemble(dataclasses.replace(b.program(), meta=meta)).splitlines()
    assert lines[:4] == [
        ".config tiny",
        "",
        ".segment constants constant size=8 {",
        "    ; 1 micro-ops at byte 0",
    ]
    assert lines[4] == "    .uop_gemm dst=0 src=0 wgt=0 accumulate=0"
    code = [line.split(" ;")[0].rstrip() for line in lines if line]
    assert code[-3:] == [
        "gemm outer=3 dst_outer=2 wrap_size=2048 pop(load,alu) push(alu) trace",
        "alu shr use_imm=1 imm=-4",
        "load wgt sram_col=1 cols=2 wrap_size=2048 segment=x offset=5",
    ]
    assert lines[-4] == '; layer 0: "conv"'
    assert lines[-1].endswith("; 11")


LEGAL = """
; a copy of four units
.config {
    name = "mine"
    board = ""
    block_in = 8   # TOML
    block_out = 8
    axi_ports = 1
}
.segment x input size=32
.segment "y out" output size=0x20 repeat_stride=4096
.segment k constant size=32 { }
.segment c constant size=64 {
    .hex 00ff 10 ; three bytes
    .i8 -1 127
    .i32 -2
    .uop_alu dst=1 prm=2
    .zero 3
}
.meta note "a ; b"
load act cols=4 sram_col=1 wrap_size=8 segment=x push(store)  ; 0
store cols=4 sram_col=1 wrap_size=8 segment="y out" pop(load) trace
"""


def test_the_greatest_numbers_are_read() -> None:
    most = (1 << 48) - 1
    text = f".config tiny\n.segment x input size={most} repeat_stride={most}\n.segment c constant {{\n"
    read = assemble(text + ".i8 -128 127\n.i32 -2147483648 2147483647\n}").segments
    assert (read[0].size, read[0].repeat_stride) == (most, most)
    assert read[1].data == bytes.fromhex("807f 00000080 ffffff7f")


def test_hand_written_text() -> None:
    program = assemble(LEGAL)
    verify(program)
    changed = {"board": "", "block_in": 8, "block_out": 8, "axi_ports": 1}
    assert program.config == PRESETS["pynq-z2"].replace(name="mine", **changed)
    assert program.instruction_count == 2
    assert program.meta == {"note": "a ; b"}
    assert [s.data for s in program.segments[:3]] == [None, None, b""]
    data = program.segments[3].data
    assert data is not None
    assert data.startswith(b"\x00\xff\x10\xff\x7f\xfe\xff\xff\xff\x01")
    assert program.segments[1].name == "y out"


@pytest.mark.parametrize(
    "text,message",
    [
        ("gemm", "bad.s:1: end of line: expected a .config directive first"),
        ("", "bad.s:0: end of line: expected a .config directive first"),
        (".config", "bad.s:1: end of line: expected a preset, a .toml file or '{'"),
        (".config nope", "bad.s:1: nope: no such preset"),
        (".config {\nturbo = 1\n}", "bad.s:1: .config: turbo: no such parameter"),
        (".config {\nbatch = 3\n}", "bad.s:1: .config: batch = 3: must be a power of two from 1 to 16"),
        (".config {\nbatch = 1", "bad.s: end of file: expected '}' for the block opened at bad.s:1"),
        (".config tiny\n.config tiny", "bad.s:2: '.config': expected only one .config"),
        (".config tiny extra", "bad.s:1: 'extra': expected end of line"),
        ("T\nfly", "bad.s:2: 'fly': expected an instruction (load, fill, store, gemm, alu, requantize, rescale, wait)"),
        ("T\n.data", "bad.s:2: '.data': expected an instruction"),
        ("T\nload", "bad.s:2: end of line: expected memory: one of act, wgt, acc, acc8, prm, uop_gemm, uop_alu"),
        ("T\nload dram", "bad.s:2: 'dram': expected memory: one of act, "),
        ("T\nwait gemm cycles=0", "bad.s:2: '0': expected cycles: an integer from 1 to 65536"),
        ("T\nwait gemm cycles=many", "bad.s:2: 'many': expected cycles: an integer from 1 to 65536"),
        ("T\nwait gemm cycles", "bad.s:2: end of line: expected '='"),
        ("T\nwait gemm cycles=1 cycles=2", "bad.s:2: 'cycles': expected each field once"),
        ("T\nwait gemm rows=1", "bad.s:2: 'rows': expected one of engine=, cycles="),
        ("T\nwait gemm pop(gemm)", "bad.s:2: 'gemm': expected another engine than gemm: one of load, alu, store"),
        ("T\nwait gemm pop()", "bad.s:2: ')': expected another engine than gemm"),
        ("T\nwait gemm pop(load", "bad.s:2: end of line: expected ')'"),
        ("T\nwait gemm pop(load) pop(alu)", "bad.s:2: 'pop': expected one pop() per instruction"),
        (
            "T\nrequantize rounding=up",
            "bad.s:2: 'up': expected rounding: one of double, single, even, constant, float32",
        ),
        ("T\nstore segment=y", "bad.s:2: 'y': expected a segment defined above: there is none"),
        ("T\nstore segment=99", "bad.s:2: '99': expected segment: an integer from 0 to 7"),
        ("T\n.segment", "bad.s:2: end of line: expected the segment's name"),
        ("T\n.segment x heap", "bad.s:2: 'heap': expected the segment's kind: one of constant, input, output, scratch"),
        ("T\n.segment x input stride=4", "bad.s:2: 'stride': expected size= or repeat_stride="),
        ("T\n.segment x input size=-1", "bad.s:2: '-1': expected size: an integer from 0 to 281474976710655"),
        ("T\n.segment x input size=0x1000000000000", "bad.s:2: '0x1000000000000': expected size: an integer from 0"),
        ("T\n.segment x input repeat_stride=-1", "bad.s:2: '-1': expected repeat_stride: an integer from 0 to 281474"),
        ("T\n.segment x input repeat_stride=0x1000000000000", "bad.s:2: '0x1000000000000': expected repeat_stride: an"),
        ('T\n.segment "x input', "bad.s:2: '\"': expected a closing quotation mark on the same line"),
        ('T\n.segment "\\q" input', "bad.s:2: '\"\\\\q\"': expected the segment's name, quoted as in JSON"),
        ("T\nwait load\n.segment x input", "bad.s:3: '.segment': expected instructions only"),
        ("T\n.segment x constant {", "bad.s: end of file: expected '}' for the block opened at bad.s:2"),
        ("T\n.segment x constant {\n.hex 0", "bad.s:3: '0': expected pairs of hex digits"),
        ("T\n.segment x constant {\n.i8 128", "bad.s:3: '128': expected .i8: an integer from -128 to 127"),
        ("T\n.segment x constant {\n.i8 -129", "bad.s:3: '-129': expected .i8: an integer from -128 to 127"),
        ("T\n.segment x constant {\n.i32 2147483648", "bad.s:3: '2147483648': expected .i32: an integer from -21474"),
        ("T\n.segment x constant {\n.i32 -2147483649", "bad.s:3: '-2147483649': expected .i32: an integer from -214"),
        ("T\n.segment x constant {\n.zero -1", "bad.s:3: '-1': expected how many zero bytes: an integer from 0"),
        (
            "T\n.segment x constant {\n.zero 2147483649",
            "bad.s:3: '2147483649': expected how many zero bytes: an integer",
        ),
        ("T\n.segment x constant {\n.word 1", "bad.s:3: '.word': expected .hex, .zero, .i8, .i32, .uop_gemm, .uop_alu"),
        ("T\n.segment x constant {\n.uop_gemm row=1", "bad.s:3: 'row': expected one of dst=, src=, wgt=, accumulate="),
        ("T\n.segment x constant {\n.uop_gemm dst=1024", "bad.s:3: '1024': expected dst: an integer from 0 to 1023"),
        (
            "T\n.segment x constant {\n.meta a 1",
            "bad.s:3: '.meta': expected data or '}' for the block opened at bad.s:2",
        ),
        ("T\n.meta a", "bad.s:2: '.meta': expected a key and a JSON value"),
        ("T\n.meta a {", "bad.s:2: '.meta': expected a key and a JSON value: "),
        ("T\n.meta a 1\n.meta a 2", "bad.s:3: 'a': expected a key that is not there yet"),
        ("T" + "\n.segment x input" * 9, "bad.s:10: '.segment': expected at most 8 segments on tiny"),
    ],
)
def test_errors_name_file_line_token_and_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(AssemblyError) as caught:
        assemble(text.replace("T\n", ".config tiny\n"), "bad.s")
    assert str(caught.value).startswith(message), caught.value
    assert "\n" not in str(caught.value)
