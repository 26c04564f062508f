"""The netlist that Yosys maps a design to, simulated gate by gate: it computes what the RTL does, in the same cycles.

Yosys' models stand for the cells, ``block_ram.v`` for block RAMs. All state starts at random.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("cocotb", reason="the rtl extra is not installed: pip install 'tilewright[rtl]'")

from tests.hw.cocotb.build import build_simulator
from tests.hw.mapped import gates, netlist
from tests.isa.build import PAIRED, TINY
from tests.verification.differential import Bench, seeded_program
from tilewright.config import Config
from tilewright.hw.rtl.primitives import VERILOG_DIR
from tilewright.hw.timing.whole import TOP
from tilewright.hw.verilated.build import build_library
from tilewright.hw.verilated.design import unreferenced_sources

PROGRAMS = 50
Design = tuple[Config, str]
CONFIGS = {"tiny": TINY, "packed": PAIRED.replace(name="packed", dsp_packing=True)}  #: two int8 products a DSP slice
_LUT = re.compile(r"  LUT\d #\(\n    \.INIT\(([^\n]*)\)\n  \) \S+ \(\n(?:    \.I\d[^\n]*\n)+    \.O\(([^\n]*)\)\n  \);")


@pytest.fixture(scope="module", params=CONFIGS)
def design(request: pytest.FixtureRequest, toolchain: None, tmp_path_factory: pytest.TempPathFactory) -> Design:
    """A Config and its netlist: mapping takes more than a minute."""
    config = CONFIGS[request.param]
    return config, netlist(unreferenced_sources(config), TOP, tmp_path_factory.mktemp("netlist"))


def differences(config: Config, cells: str, folder: Path) -> Iterator[str | None]:
    """Of each random program, what the simulator and a netlist of the design differ in first."""
    bench = Bench(config, library=build_library(gates(cells, TOP, folder), optimise=False))
    try:
        for seed in range(PROGRAMS):
            yield bench.compare(*seeded_program(config, seed))
    finally:
        bench.close()


@pytest.mark.slow
def test_the_netlist_computes_what_the_simulator_does(design: Design, tmp_path: Path) -> None:
    config, cells = design
    for kind in ("DSP48E1", "RAMB(?:18|36)E1"):
        assert len(re.findall(rf"^  {kind} ", cells, re.MULTILINE)) > 16
    assert list(differences(config, cells, tmp_path)) == [None] * PROGRAMS


@pytest.mark.slow
def test_an_altered_lut_is_noticed(design: Design, tmp_path: Path) -> None:
    """One before a bit of what a lane has scaled: inverted."""
    config, cells = design
    (driver,) = re.findall(r"\.D\(([^\n]*)\),\n    \.Q\(\\alu\.lane_0_0_0\.word_14 \[7\]\)", cells)
    (lut,) = (match for match in _LUT.finditer(cells) if match[2] == driver)
    broken = f"{cells[: lut.start(1)]}~{lut[1]}{cells[lut.end(1) :]}"
    assert any(text is not None for text in differences(config, broken, tmp_path))


# -- block RAMs alone ------------------------------------------------------------------------------------

#: width, depth and write enables; the block RAM that Yosys takes, and in which mode
SHAPES = [
    pytest.param((64, 512, 8), "RAMB36E1", "SDP", id="64x512"),
    pytest.param((36, 512, 1), "RAMB18E1", "SDP", id="36x512", marks=pytest.mark.slow),
    pytest.param((32, 1024, 4), "RAMB36E1", "TDP", id="32x1024", marks=pytest.mark.slow),
    pytest.param((18, 1024, 1), "RAMB18E1", "TDP", id="18x1024", marks=pytest.mark.slow),
]


def beside(width: int, depth: int, chunks: int) -> str:
    """A memory of the design, and what Yosys maps it to, with common inputs: half of the accesses meet in one word."""
    bits = (depth - 1).bit_length()
    ports = "clk, write_enable, write_address, write_data, read_enable, read_address"
    inputs = ", ".join(f".{name}({name})" for name in ports.split(", "))
    return f"""\
module beside(input wire clk, output reg [31:0] wrong, output reg [31:0] met);
    reg [{chunks - 1}:0] write_enable;
    reg [{bits - 1}:0] write_address, read_address, next_address;
    reg [{width - 1}:0] write_data;
    reg read_enable;
    wire [{width - 1}:0] expected, found;
    reg [{width - 1}:0] known;  // parts of the word that was read that had been written
    reg [{chunks - 1}:0] written [0:{depth - 1}];
    integer i;
    initial begin
        wrong = 0; met = 0; known = 0;
        for (i = 0; i < {depth}; i = i + 1) written[i] = 0;
    end
    always @(posedge clk) begin
        write_enable <= {chunks}'($urandom);
        next_address = {bits}'($urandom) & {bits}'d31;
        write_address <= next_address;
        read_address <= $urandom % 2 == 0 ? next_address : {bits}'($urandom) & {bits}'d31;
        write_data <= {width}'({{$urandom, $urandom}});
        read_enable <= $urandom % 4 != 0;
        written[write_address] <= written[write_address] | write_enable;
        if (read_enable) begin
            for (i = 0; i < {chunks}; i = i + 1)
                known[i*{width // chunks} +: {width // chunks}] <= {{{width // chunks}{{written[read_address][i]}}}};
            if (write_address == read_address && write_enable != 0) met <= met + 1;
        end
        if (((expected ^ found) & known) != 0) wrong <= wrong + 1;
    end
    tw_ram #(.WIDTH({width}), .DEPTH({depth}), .ADDRESS_BITS({bits}), .CHUNKS({chunks}))
        rtl ({inputs}, .read_data(expected));
    mapped_ram gates ({inputs}, .read_data(found));
endmodule
"""


def meetings(shape: tuple[int, int, int], cells: str, folder: Path) -> str:
    """What ``bench_ram`` says of a memory and its netlist side by side; nothing if they are equal."""
    width, depth, chunks = shape
    sources = gates(cells.replace("module tw_ram(", "module mapped_ram("), "mapped_ram", folder)
    rtl = {"tw_ram.v": (VERILOG_DIR / "tw_ram.v").read_text(), "beside.v": beside(width, depth, chunks)}
    (result,) = build_simulator({**sources, **rtl}, "beside", ["clk", "wrong", "met"]).run(["bench_ram"], folder)
    return result.failure


@pytest.mark.parametrize("shape, kind, mode", SHAPES)
def test_a_block_ram_reads_the_old_word_while_it_is_written(
    toolchain: None, shape: tuple[int, int, int], kind: str, mode: str, tmp_path: Path
) -> None:
    width, depth, chunks = shape
    source = {"tw_ram.v": (VERILOG_DIR / "tw_ram.v").read_text()}
    bits = (depth - 1).bit_length()
    cells = netlist(source, "tw_ram", tmp_path, WIDTH=width, DEPTH=depth, ADDRESS_BITS=bits, CHUNKS=chunks)
    assert re.findall(r"^  (RAM\w+) ", cells, re.MULTILINE) == [kind]
    assert f'.RAM_MODE("{mode}")' in cells
    assert meetings(shape, cells, tmp_path) == ""
    # in other modes of the port that writes UG473 leaves open what the other port reads
    assert "reads that differ" in meetings(shape, cells.replace('("READ_FIRST")', '("WRITE_FIRST")'), tmp_path)
