"""The ``.hwh`` of the open flow: what PYNQ reads of a block design and no more: PS, clock, the registers' place."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tilewright.hw.boards.board import Board
from tilewright.hw.boards.openxc7.clock import Fclk
from tilewright.hw.rtl.axi3_ports import AXI3
from tilewright.isa.registers import ADDRESS_BITS

PS, GP0 = "ps", "M_AXI_GP0"
PS_CLOCKS = 4


def handoff(board: Board, cell: str, clock: Fclk, memory_ports: int) -> str:
    """XML text; ``cell``: the accelerator's instance. PYNQ sets FCLK0 from it as it loads the bitstream."""
    system = Element("EDKSYSTEM")
    SubElement(system, "SYSTEMINFO", ARCH="zynq", NAME="system", PARTNAME=board.part)
    SubElement(system, "EXTERNALPORTS")
    SubElement(system, "EXTERNALINTERFACES")
    modules = SubElement(system, "MODULES")
    ps = _module(
        modules,
        PS,
        "processing_system7",
        "xilinx.com:ip:processing_system7:5.5",
        _ps_parameters(board, clock, memory_ports),
    )
    buses = SubElement(ps, "BUSINTERFACES")
    SubElement(buses, "BUSINTERFACE", NAME=GP0, TYPE="MASTER", VLNV="xilinx.com:interface:aximm:1.0", BUSNAME="control")
    places = SubElement(ps, "MEMORYMAP")
    first = board.control_address
    SubElement(
        places, "MEMRANGE", INSTANCE=cell, ADDRESSBLOCK="reg0", BASENAME="C_BASEADDR", HIGHNAME="C_HIGHADDR",
        BASEVALUE=f"0x{first:08X}", HIGHVALUE=f"0x{first + (1 << ADDRESS_BITS) - 1:08X}", IS_DATA="TRUE",
        MASTERBUSINTERFACE=GP0, SLAVEBUSINTERFACE=AXI3, MEMTYPE="REGISTER",
    )  # fmt: skip
    own = _module(modules, cell, "tilewright", "tilewright:accelerator:tilewright:1.0", {})
    buses = SubElement(own, "BUSINTERFACES")
    SubElement(buses, "BUSINTERFACE", NAME=AXI3, TYPE="SLAVE", VLNV="xilinx.com:interface:aximm:1.0", BUSNAME="control")
    indent(system)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(system, encoding="unicode") + "\n"


def _module(parent: Element, name: str, kind: str, vlnv: str, parameters: dict[str, str]) -> Element:
    module = SubElement(
        parent,
        "MODULE",
        INSTANCE=name,
        FULLNAME=f"/{name}",
        MODTYPE=kind,
        VLNV=vlnv,
        MODCLASS="PERIPHERAL",
        IS_PL="TRUE",
    )
    listed = SubElement(module, "PARAMETERS")
    for key, value in parameters.items():
        SubElement(listed, "PARAMETER", NAME=key, VALUE=value)
    SubElement(module, "PORTS")
    return module


def _ps_parameters(board: Board, clock: Fclk, memory_ports: int) -> dict[str, str]:
    found = dict(board.ps_config)
    for k in range(PS_CLOCKS):
        used = k == 0
        found |= {
            f"PCW_FPGA_FCLK{k}_ENABLE": str(int(used)),
            f"PCW_FCLK{k}_PERIPHERAL_CLKSRC": "IO PLL",
            f"PCW_FCLK{k}_PERIPHERAL_DIVISOR0": str(clock.divider_0 if used else 1),
            f"PCW_FCLK{k}_PERIPHERAL_DIVISOR1": str(clock.divider_1 if used else 1),
        }
    for k in range(memory_ports):
        found |= {
            f"PCW_USE_S_AXI_HP{k}": "1", f"PCW_S_AXI_HP{k}_DATA_WIDTH": str(board.memory_bits),
            f"C_S_AXI_HP{k}_DATA_WIDTH": str(board.memory_bits),
        }  # fmt: skip
    return found | {
        "PCW_FPGA0_PERIPHERAL_FREQMHZ": f"{clock.mhz:g}", "PCW_ACT_FPGA0_PERIPHERAL_FREQMHZ": f"{clock.mhz:.6f}",
    }  # fmt: skip
