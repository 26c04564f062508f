"""Boards: every script executed in the checking Tcl stub, and broken ones caught."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.hw.tcl.netlist import write_netlists
from tests.hw.tcl.shells import TOP, hls, join, python_tclsh, vivado
from tilewright.config import PRESETS
from tilewright.hw.boards import project
from tilewright.hw.boards.board import BoardError, board_names, load_board
from tilewright.hw.boards.project import Source, write_project
from tilewright.hw.rtl.ports import ports

BOARDS = board_names()


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
    write_project(load_board(board), PRESETS[board].replace(cores=cores, axi_ports=1), "rtl", tmp_path, ila)
    done = vivado(tclsh, tmp_path)
    assert done.returncode == 0, done.stdout
    narrow = tmp_path / "narrow"  # through a SmartConnect each
    write_project(load_board(board), PRESETS["tiny"].replace(cores=cores), "rtl", narrow)
    done = vivado(tclsh, narrow)
    assert done.returncode == 0, done.stdout
    script = narrow / "tcl" / "block_design.tcl"
    script.write_text(script.read_text().replace("foreach bus $buses {", "foreach bus [lrange $buses 0 end-1] {"))
    assert f"clock memory_bus_{cores - 1}/aclk is not connected" in vivado(tclsh, narrow).stdout


@pytest.mark.parametrize(("board", "cores"), [("pynq-z2", 1), ("pynq-z1", 2), ("zcu104", 3)])
def test_a_core_with_two_ports_has_two_of_the_ps(
    tclsh: str, shells: None, tmp_path: Path, board: str, cores: int
) -> None:
    config = PRESETS[board].replace(cores=cores, axi_ports=2)
    write_project(load_board(board), config, "rtl", tmp_path, ila=True)
    names = " ".join(f"{{{{m_axi_{k}}}}}" for k in range(2 * cores))
    assert f"ports              {{{names}}}" in (tmp_path / "design.tcl").read_text()
    done = vivado(tclsh, tmp_path)
    assert done.returncode == 0, done.stdout
    more = config.replace(cores=load_board(board).axi_ports // 2 + 1)
    with pytest.raises(
        BoardError, match=rf"cores = {more.cores}: each takes two memory ports, .*; lower cores or axi_"
    ):
        write_project(load_board(board), more, "rtl", tmp_path)


@pytest.mark.parametrize("board", BOARDS)
def test_more_cores_than_memory_ports_are_refused(tmp_path: Path, board: str) -> None:
    most = {"zynq7": 4, "zynqmp": 6}[load_board(board).ps]
    config = PRESETS[board].replace(axi_ports=1)
    load_board(board).check(config.replace(cores=most))
    with pytest.raises(BoardError, match=rf"cores = {most + 1}: each takes a memory port, and the PS of .* has {most}"):
        write_project(load_board(board), config.replace(cores=most + 1), "rtl", tmp_path)


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


@pytest.mark.parametrize(
    ("board", "cores", "axi_ports"),
    [*((board, 1, 1) for board in BOARDS), ("pynq-z2", 1, 2), ("zcu104", 4, 1), ("pynq-z2", 2, 2)],
)
def test_hls_scripts_execute(tclsh: str, shells: None, tmp_path: Path, board: str, cores: int, axi_ports: int) -> None:
    folder, netlists = tmp_path / "build", tmp_path / "netlists"
    config = PRESETS[board].replace(cores=cores, axi_ports=axi_ports)
    write_project(load_board(board), config, "hls", folder)
    numbers = [""] if cores * axi_ports == 1 else [f"{k}_" for k in range(cores * axi_ports)]
    used = [f"{{{{m_axi_{k}fetch}} {{m_axi_{k}load}} {{m_axi_{k}store}}}}" for k in numbers]
    assert f"ports              {{{' '.join(used)}}}" in (folder / "design.tcl").read_text()
    write_netlists(config, netlists)
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
    ("package_ip", "[dict get $design protocol]", "AXI4", "PROTOCOL of m_axi_0 is AXI4, its ports are those of AXI3"),
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
