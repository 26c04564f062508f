"""The build folder: everything that Vivado needs, to be run here or carried to another machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from tilewright.config import Config
from tilewright.files import write_files
from tilewright.hw import hls
from tilewright.hw.boards.board import HERE, Board, BoardError
from tilewright.hw.hls.header import config_header
from tilewright.hw.hls.join import KERNELS, MASTERS, master
from tilewright.hw.hls.shapes import shapes
from tilewright.hw.rtl.axi3_ports import AXI3, LITE
from tilewright.hw.rtl.ports import masters, outer_name
from tilewright.hw.verilated.design import design_sources
from tilewright.isa.registers import window_bits

Source = Literal["rtl", "hls"]
#: of Vivado's implementation, each run to its end; the best is kept. The last two are for crowded parts
STRATEGIES = (
    "Performance_ExplorePostRoutePhysOpt", "Performance_ExtraTimingOpt", "Congestion_SpreadLogic_high",
    "Congestion_SpreadLogic_medium",
)  # fmt: skip
SOURCES: tuple[Source, ...] = ("rtl", "hls")
SCRIPTS = ("build", "package_ip", "block_design", "implement", "hls", "zynq7", "zynqmp")
#: what the tools make; removed ahead of a build, so that nothing old is taken for new
RESULTS = ("out", "ip", "work", "overlay")


def design_settings(board: Board, config: Config, source: Source, ila: bool = False) -> dict[str, object]:
    """What the Tcl scripts get: the dictionary ``design`` of ``design.tcl``."""
    protocol = f"AXI{config.axi_version}" if source == "rtl" else "AXI4"
    axi3 = source == "rtl" and board.control_axi == 3  # the HLS design's control unit has AXI4-Lite alone
    return {
        "board": board.name,
        "source": source,
        "fingerprint": config.fingerprint,
        "part": board.part,
        "board_part": board.board_part,
        "ps": board.ps,
        "ps_config": board.ps_config,
        "memory_bits": board.memory_bits,
        "memory_axi": board.memory_axi,
        "axi_bits": config.axi_bits,
        "protocol": protocol,
        "control": AXI3 if axi3 else LITE,
        "control_protocol": "AXI3" if axi3 else "AXI4LITE",
        "ports": _ports(config, source),
        "kernels": [] if source == "rtl" else list(KERNELS),
        "clock_mhz": config.clock_mhz,
        "strategies": STRATEGIES,
        "ila": int(ila),
        "control_address": f"0x{board.control_address:08X}",
        "control_bytes": 1 << window_bits(config),
        "interrupt_address": f"0x{board.interrupt_address:08X}",
    }


def _ports(config: Config, source: Source) -> list[list[str]]:
    """The masters at each memory port of the PS, from the first port on."""
    if source == "hls":
        ports = config.memory_ports
        return [[master(kernel, port, ports) for kernel in MASTERS] for port in range(ports)]
    own = masters(config)
    if config.cores > 1:
        own = [outer_name(prefix, core, config) for core in range(config.cores) for prefix in own]
    return [[prefix.rstrip("_")] for prefix in own]


def tcl(value: object) -> str:
    """A value as a word of Tcl: mappings and lists become lists."""
    if isinstance(value, Mapping):
        return tcl([part for pair in value.items() for part in pair])
    if isinstance(value, list | tuple):
        return "{" + " ".join(tcl(part) for part in value) + "}"
    text = str(value)
    if any(mark in text for mark in "{}\\"):
        raise BoardError(f"{text!r}: braces and backslashes cannot be passed to the scripts")
    return "{" + text + "}"


def write_project(board: Board, config: Config, source: Source, folder: Path, ila: bool = False) -> list[Path]:
    """Write sources, scripts and settings to a folder, and remove earlier results there; returns what it wrote.

    ``ila``: with a logic analyser at the accelerator's buses.

    Raises :class:`BoardError` if the config does not suit the board or the folder cannot be written.
    """
    board.check(config)
    files = {
        "design.tcl": _design_tcl(board, config, source, ila),
        "config.toml": config.to_toml(),
        "build.json": json.dumps({"board": board.name, "source": source}) + "\n",
        "build.sh": _build_sh(source),
        "constraints/tilewright.xdc": (HERE / "constraints" / "tilewright.xdc").read_text(),
        **{f"tcl/{name}.tcl": (HERE / "tcl" / f"{name}.tcl").read_text() for name in SCRIPTS},
        **(_rtl_files(config, board.control_axi) if source == "rtl" else _hls_files(config)),
    }
    try:
        for name in ("rtl", "hls", *RESULTS):
            if (folder / name).exists():
                shutil.rmtree(folder / name)
        write_files(folder, files)
        (folder / "build.sh").chmod(0o755)
    except OSError as error:
        raise BoardError(f"{folder}: cannot be written: {error.strerror}") from error
    return [folder / name for name in files]


def _design_tcl(board: Board, config: Config, source: Source, ila: bool) -> str:
    settings = design_settings(board, config, source, ila)
    lines = [
        f"# Generated for {board.title}, config {config.name}; source: {source}.",
        "set design {",
        *(f"    {name:18s} {tcl(value)}" for name, value in settings.items()),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _build_sh(source: Source) -> str:
    steps = ['vivado -mode batch -nojournal -log vivado.log -source tcl/build.tcl -tclargs "${1:-2}"']
    if source == "hls":
        steps = [
            "if command -v vitis-run >/dev/null; then vitis-run --mode hls --tcl tcl/hls.tcl",
            "else vitis_hls -f tcl/hls.tcl; fi",
            "python3 -m hls.join hls",
            *steps,
        ]
    return "\n".join([
        "#!/bin/sh",
        "# From the sources in this folder to out/tilewright.bit and .hwh; source Vivado's settings64.sh first.",
        "# build.sh [JOBS]. Afterwards, where Tilewright is installed: python -m tilewright.hw.boards package FOLDER",
        "set -e",
        'cd "$(dirname "$0")"',
        *steps,
    ]) + "\n"  # fmt: skip


def _rtl_files(config: Config, control_axi: int) -> dict[str, str]:
    return {f"rtl/{name}": text for name, text in design_sources(config, events=False, control_axi=control_axi).items()}


def _hls_files(config: Config) -> dict[str, str]:
    from tilewright.hw.hls.control import control_verilog, window_verilog
    from tilewright.hw.rtl.primitives import primitive_sources

    root = Path(hls.__file__).parent
    return {
        **{f"hls/kernels/{path.name}": path.read_text() for path in sorted((root / "kernels").glob("*.[ch]pp"))},
        "hls/tilewright_config.h": config_header(config),
        **{f"hls/{name}": (root / name).read_text() for name in ("join.py", "kernel_ports.py")},
        "hls/shapes.json": json.dumps(shapes(config), indent=1) + "\n",
        "rtl/tilewright_control.v": control_verilog(config),
        **({"rtl/tilewright_window.v": window_verilog(config)} if config.cores > 1 else {}),
        **{f"rtl/{name}": primitive_sources()[name] for name in ("tw_ram.v", "tw_ram_async.v")},
        "rtl/tw_stream.v": (root / "verilog" / "tw_stream.v").read_text(),
    }
