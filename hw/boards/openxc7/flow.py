"""From a Config to an overlay with open tools: Yosys, nextpnr (himbaechel-xilinx), fasm2frames, xc7frames2bit.
Experimental.

nextpnr has no delays of DSP slices and of the PS, so the clock is also held to what the netlist's own timing
(:mod:`tilewright.hw.timing`), which knows them, leaves with long nets.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tilewright.config import Config
from tilewright.files import write_files
from tilewright.hw.boards.board import Board, BoardError
from tilewright.hw.boards.openxc7.clock import fit_fclk, hold_violations, routed_mhz
from tilewright.hw.boards.openxc7.handoff import handoff
from tilewright.hw.boards.openxc7.netlist import NETLIST, Mapped, check_netlist, netlist_mhz, synthesis_script
from tilewright.hw.boards.openxc7.system import TOP, constraints, system_verilog
from tilewright.hw.boards.openxc7.tools import NEXTPNR, Tools, find_tools
from tilewright.hw.boards.overlay import CELL, Overlay, write_overlay
from tilewright.hw.boards.tools import Say, run_tool, say
from tilewright.hw.parts import PARTS, part_of
from tilewright.hw.synthesis import KINDS
from tilewright.hw.verilated.design import design_sources
from tilewright.hw.yosys import run_yosys, yosys_version

BITSTREAM = "tilewright.bit"


def build_openxc7(board: Board, config: Config, folder: Path, at_least: float = 0, report: Say = say) -> Overlay:
    """Make the overlay of a config for a Zynq-7000 board in ``folder``; hours of place and route.

    FCLK0 becomes the fastest that the routed design allows. Raises :class:`BoardError` if that is below ``at_least``
    MHz, if board or config do not suit the flow, or if a tool is missing or fails.
    """
    check_suits(board, config)
    tools = find_tools(board)  # first: nothing is written where nothing can be built
    _write_sources(board, config, folder)
    report(f"{folder}: sources of config {config.name} for {board.title}; this flow is experimental")
    report("yosys: mapping the design, minutes of work")
    names = [path.name for path in folder.glob("*.v") if path.name != f"{TOP}.v"]
    (folder / "yosys.log").write_text(run_yosys(synthesis_script(names), folder))
    part = part_of(board.name)
    mapped = check_netlist(folder / NETLIST, part)
    _place_and_route(tools, board, config, folder, report)
    routed, netlist = routed_mhz(folder / _REPORT), netlist_mhz(folder / NETLIST)
    clock = fit_fclk(min(routed, netlist, board.max_clock_mhz))
    report(
        f"routed: {routed:g} MHz; the netlist with its hard blocks: {netlist:.1f} MHz; FCLK0 becomes {clock.mhz:g} MHz"
    )
    short = hold_violations(folder / "nextpnr.log")
    if short:
        report(f"nextpnr finds {short} paths too short for their registers' hold time (nextpnr.log has the worst)")
    if clock.mhz < at_least:
        raise BoardError(
            f"FCLK0 would be {clock.mhz:g} MHz (routed at {routed:g}, by the netlist {netlist:.1f}), "
            f"{at_least:g} are asked for; a smaller config may reach it"
        )
    _write_bitstream(tools, board, folder, report)
    return write_overlay(
        folder / "overlay", board, config,
        {"bit": (folder / BITSTREAM).read_bytes(), "hwh": handoff(board, CELL, clock, config.axi_ports).encode()},
        {
            "source": "rtl", "toolchain": "openxc7", "experimental": True, "clock_mhz": clock.mhz,
            "fclk": asdict(clock), "routed_mhz": routed, "netlist_mhz": round(netlist, 1),
            "hold_violations": short, "utilisation": _utilisation(mapped, part), "tools": {"yosys": yosys_version()},
        },
    )  # fmt: skip


def check_suits(board: Board, config: Config) -> None:
    """Raises :class:`BoardError` unless the flow has what the board needs, and the ports fit without a converter."""
    board.check(config)
    if board.ps != "zynq7":
        raise BoardError(f"{board.title}: TOOLCHAIN=openxc7 knows Zynq-7000 alone; build it with Vivado")
    if config.cores > 1:
        raise BoardError(f"cores = {config.cores}: TOOLCHAIN=openxc7 connects one core; build it with Vivado")
    wanted = (board.memory_axi, board.memory_bits)
    if (config.axi_version, config.axi_bits) != wanted:
        raise BoardError(
            f"config {config.name} has an AXI{config.axi_version} port of {config.axi_bits} bits, HP0 of {board.title} "
            f"is AXI{wanted[0]} of {wanted[1]}; TOOLCHAIN=openxc7 has no converter between them"
        )


def _write_sources(board: Board, config: Config, folder: Path) -> None:
    try:
        if folder.exists():
            shutil.rmtree(folder / "overlay", ignore_errors=True)
            for path in (*folder.glob("*.v"), *(folder / name for name in (NETLIST, BITSTREAM, *_MADE))):
                path.unlink(missing_ok=True)
        write_files(folder, {
            **design_sources(config, events=False, control_axi=board.control_axi),
            f"{TOP}.v": system_verilog(config),
            f"{TOP}.xdc": constraints(config.clock_mhz),
            "config.toml": config.to_toml(),
            "build.json": json.dumps({"board": board.name, "source": "rtl", "toolchain": "openxc7"}) + "\n",
        })  # fmt: skip
    except OSError as error:
        raise BoardError(f"{folder}: cannot be written: {error.strerror}") from error


_FASM, _ROUTED, _FRAMES, _REPORT = "design.fasm", "routed.json", "design.frames", "nextpnr.json"
_MADE = (_FASM, _ROUTED, _FRAMES, _REPORT, "nextpnr.log")


def _place_and_route(tools: Tools, board: Board, config: Config, folder: Path, report: Say) -> None:
    chipdb = [] if tools.chipdb is None else ["--chipdb", str(tools.chipdb)]
    command = [
        tools.programs[NEXTPNR], "--device", board.part, *chipdb, "-o", f"xdc={TOP}.xdc", "-o", f"fasm={_FASM}",
        "--json", NETLIST, "--write", _ROUTED, "--report", _REPORT, "--freq", f"{config.clock_mhz:g}",
        "--timing-allow-fail", "--seed", "1",
    ]  # fmt: skip
    run_tool(command, folder, folder / "nextpnr.log", report)
    _made(folder / _FASM, NEXTPNR)


def _write_bitstream(tools: Tools, board: Board, folder: Path, report: Say) -> None:
    frames = [tools.programs["fasm2frames"], "--part", board.part, "--db-root", str(tools.database), _FASM, _FRAMES]
    run_tool(frames, folder, folder / "fasm2frames.log", report)
    _made(folder / _FRAMES, "fasm2frames")
    bits = [
        tools.programs["xc7frames2bit"], "--part_file", str(tools.part_file), "--part_name", board.part,
        "--frm_file", _FRAMES, "--output_file", BITSTREAM,
    ]  # fmt: skip
    run_tool(bits, folder, folder / "xc7frames2bit.log", report)
    _made(folder / BITSTREAM, "xc7frames2bit")


def _made(path: Path, tool: str) -> None:
    if not path.is_file() or path.stat().st_size == 0:
        raise BoardError(f"{path}: {tool} ended without an error, but this is missing or empty")


def _utilisation(mapped: Mapped, part: str) -> dict[str, dict[str, Any]]:
    return {name: {"used": mapped.used[name], "available": PARTS[part][kind]} for name, kind in KINDS.items()}
