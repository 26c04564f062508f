"""``make bitstream TOOLCHAIN=openxc7``: real Yosys, and stand-ins for the rest that check what they are given."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("amaranth")

from tests.conftest import REPOSITORY
from tilewright.config import PRESETS, Config
from tilewright.hw.boards.__main__ import main
from tilewright.hw.boards.board import BoardError, load_board
from tilewright.hw.boards.openxc7 import flow, netlist, system
from tilewright.hw.boards.openxc7.clock import fit_fclk, routed_mhz
from tilewright.hw.boards.openxc7.netlist import check_netlist, synthesis_script
from tilewright.hw.rtl.axi3_ports import board_ports
from tilewright.hw.yosys import run_yosys
from tilewright.runtime.pynq.manifest import read_manifest

TOOLS = Path(__file__).parent / "openxc7_tools.py"
CONFIG = PRESETS["pynq-z2"]
PART = "xc7z020clg400-1"


def small_accelerator(config: Config) -> str:
    """The accelerator's ports, and a register of which every output is made of every input."""
    ports = board_ports(config, 3)
    lines = ["module tilewright(input clk, input rst"]
    lines += [f"  , {p.direction}put [{p.width - 1}:0] {p.name}" for p in ports]
    inputs = ", ".join(p.name for p in ports if p.direction == "in")
    lines += [");", "  reg q;", f"  always @(posedge clk) q <= rst ? 1'b0 : ^{{q, {inputs}}};"]
    lines += [f"  assign {p.name} = {{{p.width}{{q}}}};" for p in ports if p.direction == "out"]
    return "\n".join([*lines, "endmodule"]) + "\n"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        flow, "design_sources", lambda config, events, control_axi: {"tilewright.v": small_accelerator(config)}
    )


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``tools(*names)`` puts stand-ins on PATH, and the databases where they are looked for."""
    programs, databases = tmp_path / "bin", tmp_path / "databases"
    (databases / "zynq7" / PART).mkdir(parents=True)
    (databases / "zynq7" / PART / "part.yaml").write_text("part\n")
    (databases / "chipdb-xc7z020.bin").write_text("chip")
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("CHIPDB", str(databases))
    monkeypatch.setenv("PRJXRAY_DB_DIR", str(databases))

    def install(*names: str) -> None:
        for name in names:
            path = programs / name
            path.write_text(f'#!/bin/sh\nexec {sys.executable} {TOOLS} {name} "$@"\n')
            path.chmod(0o755)

    return install


ALL = ("nextpnr-himbaechel", "fasm2frames", "xc7frames2bit")


def mapped_system(folder: Path, config: Config) -> Path:
    """The small accelerator's system, mapped."""
    (folder / "tilewright.v").write_text(small_accelerator(config))
    (folder / "system.v").write_text(system.system_verilog(config))
    run_yosys(synthesis_script(["tilewright.v"]), folder)
    return folder / netlist.NETLIST


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mapped_system(tmp_path_factory.mktemp("mapped"), CONFIG)


@pytest.fixture
def mapped_once(mapped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build finds the netlist made: Yosys takes most of its time."""

    def found(script: str, folder: Path) -> str:
        assert script == synthesis_script(["tilewright.v"])
        shutil.copy(mapped, folder / netlist.NETLIST)
        return "mapped before"

    monkeypatch.setattr(flow, "run_yosys", found)


def build(folder: Path, *options: str, board: str = "pynq-z2") -> int:
    return main(["build", board, "--toolchain", "openxc7", "-o", str(folder), *options])


@pytest.mark.parametrize("board", ["pynq-z2", "pynq-z1"])
def test_an_overlay_is_made(
    toolchain: None, small: None, tools: Callable[..., None], tmp_path: Path, capsys: Any, board: str
) -> None:
    """From the Verilog on, with nothing but the three last tools replaced."""
    tools(*ALL)
    assert build(tmp_path / "build", "--at-least", "45", board=board) == 0, capsys.readouterr().err
    overlay = tmp_path / "build" / "overlay"
    name = f"tilewright-{board}"
    assert sorted(path.name for path in overlay.iterdir()) == [f"{name}.bit", f"{name}.hwh", f"{name}.json"]
    manifest = json.loads((overlay / f"{name}.json").read_text())
    assert (manifest["toolchain"], manifest["experimental"], manifest["routed_mhz"]) == ("openxc7", True, 47.3)
    assert manifest["clock_mhz"] == pytest.approx(1000 / 22)  # the fastest that the PS makes below 47.3 MHz
    assert manifest["bitstream_sha256"] == hashlib.sha256((overlay / f"{name}.bit").read_bytes()).hexdigest()
    assert manifest["utilisation"]["LUT"]["available"] == 53200
    assert read_manifest(overlay / f"{name}.bit").clock_mhz == manifest["clock_mhz"]
    assert "45.4545 MHz; LUT" in capsys.readouterr().out
    check_handoff(ElementTree.parse(overlay / f"{name}.hwh").getroot(), manifest)


def check_handoff(root: ElementTree.Element, manifest: dict[str, Any]) -> None:
    """What PYNQ reads: the accelerator's place by its cell's name, and FCLK0's dividers."""
    ps = root.find("./MODULES/MODULE[@MODTYPE='processing_system7']")
    assert ps is not None
    (place,) = ps.iter("MEMRANGE")
    assert place.get("INSTANCE") == manifest["ip"]
    assert int(place.get("BASEVALUE", ""), 16) == manifest["control_address"]
    assert int(place.get("HIGHVALUE", ""), 16) - manifest["control_address"] == 4095
    assert root.find(f"./MODULES/MODULE[@FULLNAME='/{manifest['ip']}']") is not None
    values = {p.get("NAME"): p.get("VALUE") for p in ps.iter("PARAMETER")}
    dividers = [int(values[f"PCW_FCLK0_PERIPHERAL_DIVISOR{k}"] or 0) for k in (0, 1)]
    assert 1000 / (dividers[0] * dividers[1]) == pytest.approx(manifest["clock_mhz"])
    assert [values[f"PCW_FPGA_FCLK{k}_ENABLE"] for k in range(4)] == ["1", "0", "0", "0"]


def test_every_missing_tool_and_database_is_named(
    small: None, tools: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for index, name in enumerate(ALL):
        assert build(tmp_path / "build") == 2
        assert f"{name} is not on PATH: TOOLCHAIN=openxc7 needs it" in capsys.readouterr().err
        tools(*ALL[: index + 1])
    with monkeypatch.context() as without:
        without.delenv("PRJXRAY_DB_DIR")
        assert build(tmp_path / "build") == 2
    assert "PRJXRAY_DB_DIR is not set: TOOLCHAIN=openxc7 takes from it the folder" in capsys.readouterr().err
    for variable in ("CHIPDB", "PRJXRAY_DB_DIR"):
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv(variable, str(tmp_path / "nowhere"))
            assert build(tmp_path / "build") == 2
        assert f"there is no such file; is {variable} the right folder" in capsys.readouterr().err
    assert not (tmp_path / "build").exists(), "nothing is written where nothing can be built"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("no place", "nextpnr-himbaechel failed (exit code 1): ERROR: failed to place cell"),
        ("no route", "nextpnr ended without routing the design"),
        ("another clock", "no clock fabric_clock among another"),
        ("no features", "nextpnr-himbaechel ended without an error, but this is missing or empty"),
        ("no bits", "xc7frames2bit ended without an error, but this is missing or empty"),
        ("slow", "FCLK0 would be 45.4545 MHz (routed at 47.3, by the netlist"),
    ],
)
def test_a_tool_that_fails_ends_the_build(
    toolchain: None, small: None, mapped_once: None, tools: Callable[..., None], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: Any, fault: str, message: str,
) -> None:  # fmt: skip
    tools(*ALL)
    monkeypatch.setenv("STAND_IN", fault)
    assert build(tmp_path / "build", *(["--at-least", "50"] if fault == "slow" else [])) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "build" / "overlay").exists()


@pytest.mark.parametrize(
    ("options", "board", "message"),
    [
        (["--source", "hls"], "pynq-z2", "--source hls needs Vivado"),
        (["--ila"], "pynq-z2", "--ila needs Vivado"),
        (["--project-only"], "pynq-z2", "--project-only needs Vivado"),
        ([], "ultra96", "TOOLCHAIN=openxc7 knows Zynq-7000 alone"),
        (["--config", "tiny"], "pynq-z2", "HP0 of PYNQ-Z2 is AXI3 of 64"),
    ],
)
def test_what_the_flow_cannot_do_is_refused(
    tools: Callable[..., None], tmp_path: Path, capsys: Any, options: list[str], board: str, message: str
) -> None:
    tools(*ALL)
    assert build(tmp_path / "build", *options, board=board) == 2
    assert message in capsys.readouterr().err


def test_the_chip_database_may_be_nextpnr_s_own_and_short_paths_are_told(
    toolchain: None, small: None, mapped_once: None, tools: Callable[..., None], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: Any,
) -> None:  # fmt: skip
    tools(*ALL)
    monkeypatch.delenv("CHIPDB")
    monkeypatch.setenv("STAND_IN", "hold")
    assert build(tmp_path / "build") == 0
    assert "nextpnr finds 3 paths too short" in capsys.readouterr().err
    manifest = json.loads((tmp_path / "build" / "overlay" / "tilewright-pynq-z2.json").read_text())
    assert manifest["hold_violations"] == 3


# -- the netlist --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axi_ports", [1, 2])
def test_the_ps_is_connected_pin_by_pin(toolchain: None, mapped: Path, tmp_path: Path, axi_ports: int) -> None:
    """Every signal of all buses, with the widths of the primitive as Yosys' library declares it."""
    config = CONFIG.replace(axi_ports=axi_ports)
    written = json.loads((mapped if axi_ports == 1 else mapped_system(tmp_path, config)).read_text())
    (ps,) = [cell for cell in written["modules"]["system"]["cells"].values() if cell["type"] == "PS7"]
    declared = written["modules"]["PS7"]["ports"]
    ports = [p for p in board_ports(config, 3) if p.name.startswith(("s_axi_", "m_axi_"))]
    assert len(ports) > 30 * (1 + axi_ports)
    assert len({system.ps_pin(port) for port in ports}) == len(ports)
    for port in ports:
        pin = system.ps_pin(port)
        assert len(declared[pin]["bits"]) == system.ps_width(port) == len(ps["connections"][pin]), pin
        assert ps["port_directions"][pin] == ("output" if port.direction == "in" else "input")
        assert "x" not in ps["connections"][pin], f"{pin} is open"
    for bus in ("MAXIGP0", "SAXIHP0", "SAXIHP1")[: 1 + axi_ports]:
        assert ps["connections"][f"{bus}ACLK"] == written["modules"]["system"]["netnames"]["fabric_clock"]["bits"]


def broken(mapped: Path, folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    written = json.loads(mapped.read_text())
    change(written["modules"]["system"])
    path = folder / "broken.json"
    path.write_text(json.dumps(written))
    return path


def cells_of(module: dict[str, Any], kind: str) -> list[tuple[str, dict[str, Any]]]:
    return [(name, cell) for name, cell in module["cells"].items() if cell["type"] == kind]


def many(kind: str, count: int) -> Callable[[dict[str, Any]], object]:
    return lambda module: module["cells"].update(
        {f"{kind}{k}": {"type": kind, "connections": {"PCOUT": [10**6 + k], "PCIN": ["0"]}} for k in range(count)}
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["cells"].update({"n": {"type": "$scopeinfo", "connections": {}}}), "cells that no part has: .sco"),
        (lambda m: m["cells"].pop(cells_of(m, "PS7")[0][0]), "0 PS7 and 1 BUFG"),
        (lambda m: m["netnames"].pop("fabric_clock"), "no net fabric_clock"),
        (lambda m: cells_of(m, "BUFG")[0][1]["connections"].update(O=[10**6]), "does not come from the BUFG"),
        (lambda m: cells_of(m, "FDRE")[0][1]["connections"].update(C=[10**6]), "is not clocked by fabric_clock"),
        (many("LUT6", 60_000), "LUT, the XC7Z020 has 53200"),
        (many("DSP48E1", 221), "DSP, the XC7Z020 has 220"),
    ],
)
def test_a_netlist_that_cannot_be_placed_is_refused(
    toolchain: None, mapped: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    assert check_netlist(mapped, "XC7Z020").cells["PS7"] == 1
    with pytest.raises(BoardError, match=message):
        check_netlist(broken(mapped, tmp_path, change), "XC7Z020")


# -- the clock ----------------------------------------------------------------------------------------------


def test_the_ps_makes_the_fastest_clock_below_a_limit() -> None:
    assert (fit_fclk(100).mhz, fit_fclk(99.9).mhz, fit_fclk(34.5).mhz) == (100, 1000 / 11, 1000 / 29)
    with pytest.raises(BoardError, match="no clock as slow as 0.1 MHz"):
        fit_fclk(0.1)


def test_the_clock_is_that_of_the_report(tmp_path: Path) -> None:
    report = tmp_path / "nextpnr.json"
    with pytest.raises(BoardError, match="without routing"):
        routed_mhz(report)
    report.write_text(json.dumps({"fmax": {"fabric_clock": {"achieved": 44.3, "constraint": 12.0}}}))
    assert routed_mhz(report) == 44.3
    for text in ("{", "{}", '{"fmax": 3}', '{"fmax": {"fabric_clock": {}}}'):
        report.write_text(text)
        with pytest.raises(BoardError, match="no report"):
            routed_mhz(report)


def test_make_passes_the_toolchain_on() -> None:
    done = subprocess.run(
        ["make", "-n", "bitstream", "BOARD=pynq-z1", "TOOLCHAIN=openxc7", "AT_LEAST=40"],
        cwd=REPOSITORY, text=True, capture_output=True,
    )  # fmt: skip
    command = " ".join(done.stdout.replace("\\\n", " ").split())
    assert "build pynq-z1 --source rtl --toolchain openxc7 --at-least 40" in command


def test_several_cores_are_refused() -> None:
    with pytest.raises(BoardError, match="cores = 2: TOOLCHAIN=openxc7 connects one core"):
        flow.check_suits(load_board("pynq-z2"), CONFIG.replace(cores=2))


def test_boards_that_the_flow_knows_have_an_axi3_control_port() -> None:
    for name in ("pynq-z1", "pynq-z2"):
        assert load_board(name).control_axi == 3
        flow.check_suits(load_board(name), PRESETS[name])


@pytest.mark.slow
def test_a_whole_accelerator_is_mapped_to_what_the_flow_takes(toolchain: None, tmp_path: Path) -> None:
    from tilewright.hw.verilated.design import design_sources

    config = PRESETS["tiny"].replace(axi_version=3, axi_bits=64, block_in=8, block_out=8)
    sources = design_sources(config, events=False, control_axi=3)
    for name, text in {**sources, "system.v": system.system_verilog(config)}.items():
        (tmp_path / name).write_text(text)
    run_yosys(synthesis_script(list(sources)), tmp_path)
    found = check_netlist(tmp_path / netlist.NETLIST, "XC7Z020")
    assert found.used["DSP"] > 30
    assert netlist.netlist_mhz(tmp_path / netlist.NETLIST) > 60
