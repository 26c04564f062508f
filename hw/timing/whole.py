"""A Config's whole design: flattened, mapped by Yosys, counted and timed; and the clock that follows from it."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tilewright.config import Config
from tilewright.hw.parts import FAMILIES, part_of
from tilewright.hw.synthesis import count_resources, report_head
from tilewright.hw.timing.analysis import JUDGED, analyse
from tilewright.hw.timing.netlist import Netlist
from tilewright.hw.verilated.design import design_sources
from tilewright.hw.yosys import run_yosys

TOP = "tilewright"
#: what placing and routing leave of the netlist's clock: the least seen of four longest paths that Vivado routed on
#: 7 series of grade 1 (0.80, 0.99, 1.15 and 1.22 of what this timer says of their cells and nets). nextpnr-xilinx left
#: 0.52 and 0.67 of an earlier design of this project. No design of today has been routed on a Zynq
PACKED = 0.8
KEPT_PATHS = 6  #: of the worst paths, one for each pair of units: a report lies in every installation
#: Yosys weighs a net as it is judged; by itself it takes 300 ps, and joins LUTs in chains that nets make the longest
#: paths. Pads and clock buffers belong to the board
MAP = f"scratchpad -set synth_xilinx.abc9.W {round(1000 * JUDGED)}\nsynth_xilinx -noiopad -noclkbuf"
#: values at power-up stand in the way of removing registers
SCRIPT = f"""\
read_verilog -sv {{files}}
setattr -unset init */w:*
{MAP} -family {{family}} -flatten -top {{top}}
write_json design.json
"""


def packed_mhz(ns: float) -> float:
    """The clock that a worst path of ``ns`` is expected to leave after packing."""
    return PACKED * 1000 / ns


def run_on_whole(config: Config, family: str, script: str, folder: Path) -> None:
    """Yosys' ``script``, with places for ``files``, ``family`` and ``top``, on a Config's design as boards have it.

    Without the outputs for simulation, and with the control port that goes with the memory port: Zynq-7000's are all
    AXI3. Files go into ``folder``. Raises :class:`ToolError` if Yosys is missing or fails.
    """
    sources = design_sources(config, events=False, control_axi=config.axi_version)
    for name, text in sources.items():
        (folder / name).write_text(text)
    files = " ".join(sorted(name for name in sources if name.endswith(".v")))
    run_yosys(script.format(files=files, family=family, top=TOP), folder)


def map_whole(config: Config, family: str) -> Netlist:
    """The mapped netlist of a Config as boards have it: minutes of work. Raises as :func:`run_on_whole`."""
    with tempfile.TemporaryDirectory(prefix="yosys-") as scratch:
        run_on_whole(config, family, SCRIPT, Path(scratch))
        return Netlist.load(Path(scratch) / "design.json")


def whole_report(config: Config) -> dict[str, Any]:
    """Resources ``used``, worst path in ``ns`` by delay of a net and by loads, ``mhz`` routed, the worst ``paths``."""
    config.check_one_core("a synthesis report")
    started = time.monotonic()
    part = part_of(config.board)
    netlist = map_whole(config, FAMILIES[part])
    timing = analyse(netlist, FAMILIES[part])
    cells = Counter(cell.kind for cell in netlist.cells)
    return {
        **report_head(config, part, round(time.monotonic() - started), count_resources(cells)),
        "inverters": cells["INV"],
        "ns": timing.ns,
        "ns_by_loads": timing.by_loads,
        "mhz": round(packed_mhz(timing.judged), 1),
        "paths": [asdict(path) for path in timing.paths[:KEPT_PATHS]],
    }


def to_json(report: Mapping[str, Any]) -> str:
    """The report as text, each path on a line of its own."""
    paths = ",\n".join(f"  {json.dumps(path)}" for path in report["paths"])
    head = json.dumps({key: value for key, value in report.items() if key != "paths"}, indent=1)
    return f'{head[:-2]},\n "paths": [\n{paths}\n ]\n}}\n'


def table(reports: Sequence[Mapping[str, Any]]) -> str:
    """Reports as a Markdown table: what is used, the clock of the netlist, and that left by packing."""
    nets = list(reports[0]["ns"]) if reports else []
    timed = [*(f"ns at {net}" for net in nets), "ns by loads", "MHz packed"]
    head = ["config", "part", "LUT", "inverters", "FF", "DSP", "BRAM36", *timed]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for report in reports:
        used = [f"{report['used'][kind]:,g}" for kind in ("FF", "DSP", "BRAM")]
        lut = f"{report['used']['LUT']:,g} ({report['share']['LUT']:.0%})"
        cells = [lut, f"{report['inverters']:,}", *used, *(f"{ns:.2f}" for ns in report["ns"].values())]
        cells.append(f"{report['ns_by_loads']:.2f}" if "ns_by_loads" in report else "–")  # kept from before
        lines.append(f"| {report['config']} | {report['part']} | {' | '.join(cells)} | {report['mhz']:.1f} |")
    return "\n".join(lines) + "\n"


def path_table(report: Mapping[str, Any]) -> str:
    """The worst paths of a report as a Markdown table."""
    lines = [f"| from | to | ns at {JUDGED} | ns in cells | nets | levels | carries | ends at |", "|---" * 8 + "|"]
    for path in report["paths"]:
        units = f"{path['from_unit']}: `{path['start']}` | {path['to_unit']}"
        numbers = f"{path['ns']:.2f} | {path['logic']:.2f} | {path['nets']} | {path['levels']} | {path['carries']}"
        lines.append(f"| {units} | {numbers} | `{path['end']}` |")
    return "\n".join(lines) + "\n"
