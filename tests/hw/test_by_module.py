"""What each module takes: read off Yosys' cells, added up, and printed."""

from __future__ import annotations

import pytest

from tilewright.config import PRESETS, Config
from tilewright.hw import by_module
from tilewright.hw.by_module import Row, cells_of, rows, table
from tilewright.hw.timing import whole

CORE = "tilewright.accelerator"
#: a ``stat -json`` of a core with a queue and two lanes that share a kind of RAM
STAT = """{"modules": {
 "\\\\tilewright": {"num_cells_by_type": {"\\\\tilewright.accelerator": 1, "LUT2": 4}},
 "\\\\tilewright.accelerator": {"num_cells_by_type": {
   "\\\\tilewright.accelerator.alu": 1, "\\\\tilewright.accelerator.queue$17": 1, "FDRE": 2}},
 "\\\\tilewright.accelerator.alu": {"num_cells_by_type": {
   "\\\\tilewright.accelerator.alu.lane_0_0": 1, "\\\\tilewright.accelerator.alu.lane_0_1": 1, "LUT6": 1}},
 "\\\\tilewright.accelerator.alu.lane_0_0": {"num_cells_by_type": {"DSP48E1": 4, "LUT3": 10, "$paramod$ram": 2}},
 "\\\\tilewright.accelerator.alu.lane_0_1": {"num_cells_by_type": {"DSP48E1": 4, "LUT3": 20}},
 "\\\\tilewright.accelerator.queue$17": {"num_cells_by_type": {"LUT1": 7, "FDSE": 3}},
 "$paramod$ram": {"num_cells_by_type": {"RAMB18E1": 1, "RAM64M": 1}}
}}"""


def used(lut: float, ff: float = 0, dsp: float = 0, bram: float = 0) -> dict[str, float]:
    return {"LUT": lut, "FF": ff, "DSP": dsp, "BRAM": bram}


def test_a_module_has_what_lies_below_it() -> None:
    found = rows(cells_of(STAT))
    assert found == [
        Row("", 1, used(50, 5, 8, 1)),
        Row("alu", 1, used(39, 0, 8, 1)),
        Row("alu.lane_*", 2, used(38, 0, 8, 1)),
        Row("queue", 1, used(7, 3)),
    ]
    assert rows(cells_of(STAT), depth=1) == [found[0], found[1], found[3]]


def test_the_table_names_shares() -> None:
    lines = table(PRESETS["tiny"], rows(cells_of(STAT))).splitlines()
    assert lines[0] == "| `tiny`, by module | LUT | of all | FF | DSP | BRAM36 |"
    assert lines[2:4] == ["| all | 50 | 100.0% | 5 | 8 | 1 |", "| `alu` | 39 | 78.0% | 0 | 8 | 1 |"]
    assert lines[4] == "| `alu.lane_*` (2) | 38 | 76.0% | 0 | 8 | 1 |"


def test_yosys_keeps_modules_apart(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The script on a design of three modules, in place of minutes for the smallest Config."""
    design = """
module tilewright(input clk, input [7:0] a, output [7:0] q);
  \\tilewright.accelerator accelerator(.clk(clk), .a(a), .q(q));
endmodule
module \\tilewright.accelerator (input clk, input [7:0] a, output [7:0] q);
  \\tilewright.accelerator.delay delay(.clk(clk), .a(a), .q(q));
endmodule
module \\tilewright.accelerator.delay (input clk, input [7:0] a, output reg [7:0] q);
  always @(posedge clk) q <= a ^ {a[6:0], a[7]};
endmodule
"""

    def sources(config: Config, **options: object) -> dict[str, str]:
        return {"tilewright.v": design}

    monkeypatch.setattr(whole, "design_sources", sources)
    by_module.main(["tiny"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == ["| all | 8 | 100.0% | 8 | 0 | 0 |", "| `delay` | 8 | 100.0% | 8 | 0 | 0 |"]


@pytest.mark.slow
def test_a_whole_design() -> None:
    """Nothing is lost between the modules, and the tables of the table instruction are block RAM."""
    config = PRESETS["tiny"]
    found = {row.path: row for row in rows(by_module.map_modules(config))}
    one = [row for path, row in found.items() if path and "." not in path]
    assert sum(row.used["DSP"] for row in one) == found[""].used["DSP"] > 0
    assert found["memories.table"].used["BRAM"] > 0
    assert found["memories"].used["BRAM"] >= sum(
        row.used["BRAM"] for path, row in found.items() if path.startswith("memories.")
    )
