"""Boards: every script executed in the checking Tcl stub, reports judged, the whole of ``make bitstream``."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.hw.tcl.netlist import write_netlists
from tests.preflight import APT
from tilewright.config import PRESETS, Config, ConfigError
from tilewright.hw.boards import project
from tilewright.hw.boards.__main__ import main
from tilewright.hw.boards.board import BoardError, board_names, load_board
from tilewright.hw.boards.project import Source, tcl, write_project
from tilewright.hw.boards.tools import version_warning
from tilewright.hw.hls import control
from tilewright.hw.rtl.axi3_ports import board_ports
from tilewright.hw.rtl.ports import ports
from tilewright.runtime.pynq.manifest import read_manifest

STUB = Path(__file__).parent / "tcl" / "stub.tcl"
BOARDS = board_names()


def python_tclsh(folder: Path) -> str:
    """A shell on Python's interpreter of Tcl; skips the test where Python has none."""
    pytest.importorskip("tkinter", reason=f"no Tcl to execute the scripts with: {APT}")
    path = folder / "tclsh"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {STUB.parent / "tclsh.py"} "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture(scope="session")
def tclsh(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Tcl shell: the system's, else Python's own; skips the test where there is neither."""
    return shutil.which("tclsh") or python_tclsh(tmp_path_factory.mktemp("tcl"))


TOP = "tilewright.v"


def port_verilog(config: Config, control_axi: int) -> str:
    """A top module with the ports of the RTL for a board and nothing inside."""
    declared = [("input", 1, "clk"), ("input", 1, "rst")]
    declared += [(f"{p.direction}put", p.width, p.name) for p in board_ports(config, control_axi)]
    lines = [f"  {way} {f'[{width - 1}:0] ' if width > 1 else ''}{name};" for way, width, name in declared]
    return f"module tilewright({', '.join(n for _, _, n in declared)});\n" + "\n".join(lines) + "\nendmodule\n"


@pytest.fixture
def shells(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generated Verilog is left out of the build folders: the scripts look at the top module's ports only."""
    monkeypatch.setattr(
        project, "design_sources", lambda config, events, control_axi: {TOP: port_verilog(config, control_axi)}
    )
    monkeypatch.setattr(control, "control_verilog", lambda config: "module tilewright_control;\nendmodule\n")


def stub(tclsh: str, tool: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tclsh, str(STUB), tool, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **variables}, timeout=60,
    )  # fmt: skip


def vivado(tclsh: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return stub(tclsh, "vivado", "-mode", "batch", "-source", str(folder / "tcl" / "build.tcl"), **variables)


def hls(tclsh: str, folder: Path, netlists: Path) -> subprocess.CompletedProcess[str]:
    return stub(tclsh, "vitis_hls", "-f", str(folder / "tcl" / "hls.tcl"), STUB_NETLISTS=str(netlists))


def join(folder: Path) -> None:
    done = subprocess.run([sys.executable, "hls/join.py", "hls"], cwd=folder, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")


# -- every script, in the stub ------------------------------------------------------------------------------


@pytest.mark.parametrize("board", BOARDS)
def test_rtl_scripts_execute(tclsh: str, shells: None, tmp_path: Path, board: str) -> None:
    write_project(load_board(board), PRESETS[board], "rtl", tmp_path)
    done = vivado(tclsh, tmp_path)
    assert done.returncode == 0, done.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "facts.txt", "strategies.txt", "tilewright.bit", "tilewright.hwh", "timing.rpt", "utilization.rpt",
    ]  # fmt: skip
    assert "ev_" not in (tmp_path / "rtl" / "tilewright.v").read_text()


@pytest.mark.parametrize(("board", "cores", "ila"), [("pynq-z2", 4, False), ("zcu104", 6, True), ("kv260", 2, False)])
def test_every_core_has_a_memory_port_of_the_ps(
    tclsh: str, shells: None, tmp_path: Path, board: str, cores: int, ila: bool
) -> None:
    write_project(load_board(board), PRESETS[board].replace(cores=cores), "rtl", tmp_path, ila)
    done = vivado(tclsh, tmp_path)
    assert done.returncode == 0, done.stdout
    narrow = tmp_path / "narrow"  # through a SmartConnect each
    write_project(load_board(board), PRESETS["tiny"].replace(cores=cores), "rtl", narrow)
    done = vivado(tclsh, narrow)
    assert done.returncode == 0, done.stdout
    script = narrow / "tcl" / "block_design.tcl"
    script.write_text(script.read_text().replace("foreach bus $buses {", "foreach bus [lrange $buses 0 end-1] {"))
    assert f"clock memory_bus_{cores - 1}/aclk is not connected" in vivado(tclsh, narrow).stdout


@pytest.mark.parametrize("board", BOARDS)
def test_more_cores_than_memory_ports_are_refused(tmp_path: Path, board: str) -> None:
    most = {"zynq7": 4, "zynqmp": 6}[load_board(board).ps]
    load_board(board).check(PRESETS[board].replace(cores=most))
    with pytest.raises(BoardError, match=rf"cores = {most + 1}: each takes a memory port, and the PS of .* has {most}"):
        write_project(load_board(board), PRESETS[board].replace(cores=most + 1), "rtl", tmp_path)


def test_kernels_of_several_cores_are_refused(shells: None, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cores = 2: the HLS design has one core"):
        write_project(load_board("pynq-z2"), PRESETS["pynq-z2"].replace(cores=2), "hls", tmp_path)


def kept_strategy(folder: Path) -> str:
    facts = dict(line.split(maxsplit=1) for line in (folder / "out" / "facts.txt").read_text().splitlines())
    return facts["strategy"]


def test_every_strategy_is_run_and_the_best_is_kept(tclsh: str, shells: None, tmp_path: Path) -> None:
    write_project(load_board("pynq-z2"), PRESETS["pynq-z2"], "rtl", tmp_path)
    assert vivado(tclsh, tmp_path).returncode == 0
    lines = (tmp_path / "out" / "strategies.txt").read_text().splitlines()
    assert [line.split()[:2] for line in lines] == [[f"impl_{k}", name] for k, name in enumerate(project.STRATEGIES, 1)]
    assert len(set(project.STRATEGIES)) > 1
    assert kept_strategy(tmp_path) == project.STRATEGIES[2]  # whose slack the stub makes the most
    assert (tmp_path / "work" / "project" / "tilewright.runs" / "impl_3" / "system_wrapper.bit").exists()


@pytest.mark.parametrize(("mode", "kept"), [("hold", 3), ("impl_3 failed", 1)])
def test_a_strategy_that_fails_hold_or_does_not_end_is_not_kept(
    tclsh: str, shells: None, tmp_path: Path, mode: str, kept: int
) -> None:
    write_project(load_board("pynq-z2"), PRESETS["pynq-z2"], "rtl", tmp_path)
    done = vivado(tclsh, tmp_path, STUB_MODE=mode)
    assert done.returncode == 0, done.stdout
    assert kept_strategy(tmp_path) == project.STRATEGIES[kept]
    assert ("run impl_3 ended with" in done.stdout) == (mode == "impl_3 failed")


@pytest.mark.parametrize("source", ["rtl", "hls"])
def test_a_logic_analyser_watches_every_bus(tclsh: str, shells: None, tmp_path: Path, source: Source) -> None:
    folder, netlists = tmp_path / "build", tmp_path / "netlists"
    write_project(load_board("pynq-z2"), PRESETS["pynq-z2"], source, folder, ila=True)
    if source == "hls":
        write_netlists(PRESETS["pynq-z2"], netlists)
        assert hls(tclsh, folder, netlists).returncode == 0
        join(folder)
    done = vivado(tclsh, folder)
    assert done.returncode == 0, done.stdout
    assert (folder / "out" / "tilewright.ltx").exists()


def test_the_generator_leaves_events_out_for_boards() -> None:
    pytest.importorskip("amaranth")
    from tilewright.hw.rtl.generate import generate_verilog

    outputs = [re.findall(r"^ +output .*?(\w+);$", generate_verilog(PRESETS["tiny"], events)[TOP], re.M)
               for events in (True, False)]  # fmt: skip
    assert "m_axi_arvalid" in outputs[1]
    assert set(outputs[0]) - set(outputs[1]) == {p.name for p in ports(PRESETS["tiny"]) if p.is_event}


@pytest.mark.parametrize("board", BOARDS)
def test_hls_scripts_execute(tclsh: str, shells: None, tmp_path: Path, board: str) -> None:
    folder, netlists = tmp_path / "build", tmp_path / "netlists"
    write_project(load_board(board), PRESETS[board], "hls", folder)
    write_netlists(PRESETS[board], netlists)
    done = hls(tclsh, folder, netlists)
    assert done.returncode == 0, done.stdout
    join(folder)
    done = vivado(tclsh, folder)
    assert done.returncode == 0, done.stdout
    assert (folder / "out" / "tilewright.bit").exists()


def test_scripts_execute_without_a_tclsh(shells: None, tmp_path: Path) -> None:
    folder = tmp_path / "build"
    write_project(load_board("pynq-z2"), PRESETS["pynq-z2"], "rtl", folder)
    shell = python_tclsh(tmp_path)
    done = vivado(shell, folder)
    assert done.returncode == 0, done.stdout
    (folder / "tcl" / "build.tcl").write_text("create_projekt\n")
    done = vivado(shell, folder)
    assert (done.returncode, 'invalid command name "create_projekt"' in done.stdout) == (1, True)


def test_other_shapes_of_the_memory_port_go_through_a_smartconnect(tclsh: str, shells: None, tmp_path: Path) -> None:
    for name, config in {"narrow": PRESETS["tiny"], "axi4": PRESETS["pynq-z2"].replace(axi_version=4)}.items():
        write_project(load_board("pynq-z2"), config, "rtl", tmp_path / name)
        done = vivado(tclsh, tmp_path / name)
        assert done.returncode == 0, done.stdout


def test_board_files_are_used_where_they_are_installed(tclsh: str, shells: None, tmp_path: Path) -> None:
    write_project(load_board("pynq-z2"), PRESETS["pynq-z2"], "rtl", tmp_path)
    assert "no board files" in vivado(tclsh, tmp_path).stdout
    done = vivado(tclsh, tmp_path, STUB_MODE="board_files")
    assert (done.returncode, "no board files" in done.stdout) == (0, False)


#: script, what is broken in it, and what the stub must say
MUTATIONS = [
    ("build", "package_ip $root", "package_up $root", 'invalid command name "package_up"'),
    ("package_ip", "create_project -force", "create_projekt -force", 'invalid command name "create_projekt"'),
    ("package_ip", "-taxonomy", "-taxonomie", "ipx::package_project: no option -taxonomie"),
    ("package_ip", "[file join $root rtl] *.v", "[file join $root rtl] *.vhd", "no files matched"),
    ("package_ip", "set_property top tilewright ", "set_property top tilewrite ", "no module tilewrite"),
    ("package_ip", "concat $control $masters", "concat s_axil $masters", "no AXI interface s_axil"),
    ("package_ip", "rst xilinx.com:signal:reset_rtl", "reset xilinx.com:signal:reset_rtl", "no port reset"),
    ("package_ip", "POLARITY ACTIVE_HIGH", "POLARITY ACTIVE_LOW", "peripheral_reset is a high, tilewright_0/rst"),
    ("zynq7", "S_AXI_HP0_ACLK", "S_AXI_HPO_ACLK", "cell ps has no pin 'S_AXI_HPO_ACLK'"),
    ("package_ip", "[dict get $design protocol]", "AXI4", "PROTOCOL of m_axi is AXI4, its ports are those of AXI3"),
    ("package_ip", "    ipx::save_core $core\n", "", "/ip' does not exist"),
    ("package_ip", "    close_project\n", "", "project package_ip is still open"),
    ("package_ip", "display_name Tilewright", "display_title Tilewright", "a core has no property 'display_title'"),
    ("block_design", "    update_ip_catalog\n", "", "update_ip_catalog first"),
    ("block_design", "    create_bd_design system\n", "", "there is no block design"),
    ("package_ip", "[dict get $design control_protocol]", "AXI4LITE", "PROTOCOL of s_axi is AXI4LITE, its ports are"),
    ("block_design", "control_bus smartconnect", "control_bus smart_con", "SmartConnect: no core smart_con"),
    ("block_design", "NUM_SI 1 NUM_MI 2", "NUM_SI 1 NUM_MO 2", "SmartConnect: no setting NUM_MO"),
    ("block_design", "NUM_SI 1 NUM_MI 2", "NUM_SI 1", "SmartConnect: cell control_bus has no interface 'M01_AXI'"),
    ("block_design", "$name axi_protocol_converter", "$name axi_protocols", "no core axi_protocols"),
    ("block_design", "SI_PROTOCOL AXI3", "SI_PROTOCOLS AXI3", "no setting SI_PROTOCOLS"),
    ("block_design", "MI_PROTOCOL AXI4LITE", "MI_PROTOCOL AXI4", "protocol of .* is AXI4"),
    ("block_design", "connect_bus $name/M_AXI $slave", "connect_bus $name/M00_AXI $slave", "no interface 'M00_AXI'"),
    ("block_design", '$protocol eq "AXI3"', "1", "protocol of .*interrupts/s_axi is AXI4LITE|protocol of .* AXI4LITE"),
    ("block_design", "-offset [dict get $design interrupt_address]", "-offset 0x41800000", "is outside 0x80000000"),
    ("zynq7", "    control_clocks {M_AXI_GP0_ACLK M_AXI_GP1_ACLK}", "    control_clocks M_AXI_GP0_ACLK",
     "clock ps/M_AXI_GP1_ACLK is not connected"),
    ("zynq7", "        PCW_USE_M_AXI_GP1 1\n", "", "no interface 'M_AXI_GP1' with these settings"),
    ("block_design", "tilewright_0/irq interrupts/intr", "tilewright_0/int interrupts/intr", "has no pin 'int'"),
    ("block_design", "    connect_pins interrupts/irq ps/[dict get $ps_type interrupt]\n", "", "interrupt .* not conn"),
    ("block_design", "    connect_pins reset/peripheral_reset tilewright_0/rst\n", "", "high .*/rst is not conn"),
    ("block_design", "reset/peripheral_reset ", "reset/peripheral_aresetn ", "takes a high"),
    ("block_design", "interrupts axi_intc {C_IRQ_CONNECTION 1}", "interrupts axi_intc {}", "has no pin 'irq'"),
    ("block_design", "[dict get $port width] [dict get $design memory_bits]", "[dict get $port width] 32", "width of "),
    ("block_design", "    apply_bd_automation -rule [dict get $ps_type rule]",
     "    apply_bd_automation -rule xilinx.com:bd_rule:ps7", "no rule xilinx.com:bd_rule:ps7"),
    ("block_design", "/ 1024}]K", "/ 1024}]Q", "size '4Q'"),
    ("block_design", "/ 1024}]K", "/ 2048}]K", "tilewright_0/s_axi/reg0 has 4096 bytes, its range 2048"),
    ("package_ip", "range [dict get $design control_bytes]", "range 8192", "ports tell 4096 bytes apart"),
    ("block_design", "get_bd_addr_segs interrupts/S_AXI/Reg", "get_bd_addr_segs interrupts/S_AXI/reg", "no segment"),
    ("block_design", "    validate_bd_design\n", "", "has not been validated"),
    ("zynq7", "PCW_USE_S_AXI_HP0 ", "PCW_USE_S_AXI_HPO ", "no setting PCW_USE_S_AXI_HPO"),
    ("zynq7", "        PCW_USE_FABRIC_INTERRUPT 1\n", "", "has no pin 'IRQ_F2P' with these settings"),
    ("implement", "tilewright.xdc", "tilewrong.xdc", "does not exist"),
    ("implement", "    generate_target all $bd\n", "", "have not been generated"),
    ("implement", "get_files system.bd", "get_files sistem.bd", "no file matches 'sistem.bd'"),
    ("implement", "launch_runs synth_1 -jobs", "launch_runs synth_1 -job", "no option -job"),
    ("implement", "    launch_runs synth_1 -jobs $jobs\n    finish_run synth_1 synth_design\n", "", "needs synth_1"),
    ("implement", "    open_run $run\n", "", "no open design"),
    ("implement", "STRATEGY $strategy", "STRATEGY ${strategy}d", "no strategy"),
    ("implement", "-flow [get_property FLOW [get_runs impl_1]]", "-flow Vivado", "no flow 'Vivado'"),
    ("implement", "STEPS.POST_ROUTE_PHYS_OPT_DESIGN", "STEPS.POST_ROUTE_PHYSOPT", "has no property"),
    ("implement", "-to_step write_bitstream", "-to_step bitstream", "no step bitstream"),
    ("implement", "tilewright.runs $run", "tilewright.run $run", "0 files match"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "old", "new", "message"), MUTATIONS)
def test_a_broken_script_is_caught(
    tclsh: str, shells: None, tmp_path: Path, script: str, old: str, new: str, message: str
) -> None:
    board = "ultra96" if "SmartConnect" in message else "pynq-z2"  # only UltraScale+ has one at the control port
    message = message.removeprefix("SmartConnect: ")
    write_project(load_board(board), PRESETS[board], "rtl", tmp_path)
    path = tmp_path / "tcl" / f"{script}.tcl"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    done = vivado(tclsh, tmp_path)
    assert done.returncode == 1, done.stdout
    first = next(line for line in done.stdout.splitlines() if line.startswith("ERROR: "))
    assert re.search(message, first), first


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("set_top tilewright_$kernel", "set_tops tilewright_$kernel", 'invalid command name "set_tops"'),
        ("set_top tilewright_$kernel", "set_top accelerator_$kernel", "no function accelerator_dispatch in the files"),
        ("-flow_target vivado", "-target vivado", "open_solution: no option -target"),
        ("kernels $kernel.cpp", "sources $kernel.cpp", "sources/dispatch.cpp' does not exist"),
        ("[file join $root hls]\"", "[file join $root tcl]\"", "tilewright_config.h: no such file"),
        ("    create_clock", "    #", "no clock yet"),
        ("    close_project\n", "", "project dispatch is still open"),
    ],
)  # fmt: skip
def test_a_broken_hls_script_is_caught(
    tclsh: str, shells: None, tmp_path: Path, old: str, new: str, message: str
) -> None:
    folder, netlists = tmp_path / "build", tmp_path / "netlists"
    write_project(load_board("pynq-z2"), PRESETS["pynq-z2"], "hls", folder)
    write_netlists(PRESETS["pynq-z2"], netlists)
    path = folder / "tcl" / "hls.tcl"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    done = hls(tclsh, folder, netlists)
    assert done.returncode == 1
    assert message in done.stdout


# -- the whole of `make bitstream`, with the stub as Vivado -------------------------------------------------


@pytest.fixture
def tools(tclsh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``tools(name, ..., mode=, release=)`` puts the stub on PATH under these names."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("STUB_NETLISTS", str(tmp_path / "netlists"))

    def install(*names: str, mode: str = "", release: str = "2023.2") -> None:
        for name in names:
            path = folder / name
            path.write_text(f'#!/bin/sh\nexec {tclsh} {STUB} {name} "$@"\n')
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("STUB_MODE", mode)
        monkeypatch.setenv("STUB_VERSION", release)

    return install


Tools = Callable[..., None]
Captured = pytest.CaptureFixture[str]


def build(folder: Path, *options: str) -> int:
    return main(["build", "pynq-z2", "-o", str(folder), "--jobs", "1", *options])


def error_line(captured: Captured) -> str:
    return captured.readouterr().err.strip().splitlines()[-1]


@pytest.mark.parametrize("source", ["rtl", "hls"])
def test_an_overlay_is_made_with_its_manifest(
    shells: None, tools: Tools, tmp_path: Path, capsys: Captured, source: Source
) -> None:
    tools("vivado", "vitis-run" if source == "hls" else "vitis_hls")
    write_netlists(PRESETS["pynq-z2"], tmp_path / "netlists")
    folder = tmp_path / "build"
    assert build(folder, "--source", source) == 0
    overlay = folder / "overlay"
    assert sorted(path.name for path in overlay.iterdir()) == [
        "tilewright-pynq-z2.bit", "tilewright-pynq-z2.hwh", "tilewright-pynq-z2.json",
    ]  # fmt: skip
    manifest = json.loads((overlay / "tilewright-pynq-z2.json").read_text())
    config = PRESETS["pynq-z2"]
    assert Config.from_dict(manifest["config"]) == config
    assert (manifest["format"], manifest["fingerprint"]) == (1, config.fingerprint)
    for key, suffix in (("bitstream_sha256", "bit"), ("hwh_sha256", "hwh")):
        content = (overlay / f"tilewright-pynq-z2.{suffix}").read_bytes()
        assert manifest[key] == hashlib.sha256(content).hexdigest()
    assert manifest["slack_ns"] == {"setup": 0.412, "hold": 0.031, "pulse_width": 3.75}
    assert manifest["utilisation"]["BRAM"] == {"used": 118.5, "available": 140}
    assert manifest["tools"]["vivado"] == "2023.2"
    assert (manifest["ip"], manifest["interrupt"]) == ("tilewright_0", "tilewright_0/irq")
    facts = dict(line.split(maxsplit=1) for line in (tmp_path / "build" / "out" / "facts.txt").read_text().splitlines())
    assert float(facts["clock_mhz"]) == manifest["clock_mhz"] <= config.clock_mhz  # what the PS's divider makes of it
    assert (manifest["strategy"], manifest["source"]) == (facts["strategy"], source)
    assert manifest["engine_counters"] is (source == "rtl")
    assert read_manifest(overlay / "tilewright-pynq-z2.bit").config == config  # as the pynq device reads it
    assert "setup slack 0.412 ns" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("slack", f"timing is not met at {Config().clock_mhz} MHz: setup slack -0.512 ns, worst path from system_i"),
        ("report_slack", "setup slack -0.512 ns, worst path from"),
        ("no_report", "timing.rpt: the timing report is missing"),
        ("no_clock", "no constrained path for delay type max"),
        ("crash", "vivado failed (exit code 1): ERROR: [Common 17-345] A valid license was not found"),
        ("killed", "vivado failed (exit code 139): its last line is 'Abnormal program termination (11)'"),
        ("synth_1 failed", "run synth_1 ended with 'synth_design ERROR'"),
        ("impl failed", "none of the runs impl_1, impl_2, impl_3, impl_4 came to its end"),
        ("no_bit", "0 files match"),
    ],
)  # fmt: skip
def test_a_failed_build_is_told_and_leaves_no_overlay(
    shells: None, tools: Tools, tmp_path: Path, capsys: Captured, mode: str, message: str
) -> None:
    folder = tmp_path / "build"
    tools("vivado")
    assert build(folder) == 0
    tools("vivado", mode=mode)
    assert build(folder) == 2
    line = error_line(capsys)
    assert line.startswith("tilewright: ")
    assert message in line
    assert not (folder / "overlay").exists()


def test_another_release_of_vivado_is_warned_of(shells: None, tools: Tools, tmp_path: Path, capsys: Captured) -> None:
    tools("vivado", release="2019.1")
    assert build(tmp_path / "build") == 0
    assert "warning: Vivado 2019.1: the scripts are written for 2022.2 to 2024.2" in capsys.readouterr().err
    assert [version_warning(release) for release in ("2022.2", "2023.1", "2024.2")] == [None] * 3
    assert version_warning("2024.10") is not None


def test_without_the_tools_the_message_says_what_to_install(
    shells: None, tools: Tools, tmp_path: Path, capsys: Captured
) -> None:
    assert build(tmp_path / "build") == 2
    assert "vivado is not on PATH: a bitstream needs AMD Vivado 2022.2 to 2024.2" in error_line(capsys)
    tools("vivado")
    assert build(tmp_path / "build", "--source", "hls") == 2
    assert "neither vitis-run nor vitis_hls is on PATH" in error_line(capsys)
    assert not (tmp_path / "build").exists()


def test_hls_failures_are_told(shells: None, tools: Tools, tmp_path: Path, capsys: Captured) -> None:
    write_netlists(PRESETS["pynq-z2"], tmp_path / "netlists")
    for mode, message in (
        ("hls_crash", "vitis_hls failed (exit code 1): ERROR: [HLS 200-70] Synthesizability check failed"),
        ("no_netlist", "Vitis HLS has not synthesised the kernel dispatch"),
    ):
        tools("vivado", "vitis_hls", mode=mode)
        assert build(tmp_path / "build", "--source", "hls") == 2
        assert message in error_line(capsys)


@pytest.mark.parametrize("source", ["rtl", "hls"])
def test_a_project_is_carried_to_another_machine(
    tclsh: str, shells: None, tools: Tools, tmp_path: Path, capsys: Captured, source: Source
) -> None:
    there = tmp_path / "there"
    write_netlists(PRESETS["pynq-z2"], tmp_path / "netlists")
    assert build(tmp_path / "here", "--source", source, "--project-only") == 0
    shutil.move(tmp_path / "here", there)
    tools("vivado", "vitis_hls")
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    done = subprocess.run(["/bin/sh", "build.sh"], cwd=there, env={**os.environ, "PATH": path}, capture_output=True)
    assert done.returncode == 0, done.stdout
    assert main(["package", str(there)]) == 0
    assert (there / "overlay" / "tilewright-pynq-z2.json").exists()
    assert str(there / "overlay") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "de10"], "board 'de10' is not known; the boards are kv260, pynq-z1, pynq-z2, ultra96, zcu104"),
        (["build", "pynq-z2", "--config", "nothing"], "nothing: no such preset or .toml file"),
        (["package", "/nonexistent"], "not a build folder"),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str, capsys: Captured) -> None:
    assert main(arguments) == 2
    assert message in error_line(capsys)


def test_a_clock_that_the_board_cannot_give_is_refused(tmp_path: Path) -> None:
    config = PRESETS["pynq-z2"].replace(clock_mhz=300)
    with pytest.raises(BoardError, match="clock_mhz = 300: the PS of PYNQ-Z2 gives the PL at most 250 MHz"):
        write_project(load_board("pynq-z2"), config, "rtl", tmp_path)


def test_make_passes_its_variables_on() -> None:
    done = subprocess.run(
        ["make", "-n", "bitstream", "BOARD=zcu104", "SOURCE=hls", "CONFIG=my.toml", "PROJECT_ONLY=1"],
        cwd=REPOSITORY, text=True, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    command = " ".join(done.stdout.replace("\\\n", " ").split())
    assert "-m tilewright.hw.boards build zcu104 --source hls --config my.toml --project-only" in command


def test_values_for_tcl() -> None:
    assert tcl({"a": "1 2", "b": ["x", "y"]}) == "{{a} {1 2} {b} {{x} {y}}}"
    with pytest.raises(BoardError, match="cannot be passed"):
        tcl("a}")
