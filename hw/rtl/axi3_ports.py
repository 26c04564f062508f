"""The control port as AXI3, declared as data: Zynq-7000's master ports speak nothing else."""

from __future__ import annotations

from tilewright.config import Config
from tilewright.hw.rtl.ports import Port, channel, ports
from tilewright.isa.registers import window_bits

LITE, AXI3 = "s_axil", "s_axi"  #: the control port as AXI4-Lite, and as AXI3
ID_BITS = 12  #: of M_AXI_GP0 (UG585)


def axi3_slave(config: Config) -> list[Port]:
    """32 bits wide; of the addresses as many bits as there are registers for."""
    address = {
        "id": ID_BITS, "addr": window_bits(config), "len": 4, "size": 3, "burst": 2, "lock": 2, "cache": 4, "prot": 3,
    }  # fmt: skip
    return [
        *channel(f"{AXI3}_ar", "in", address),
        *channel(f"{AXI3}_r", "out", {"id": ID_BITS, "data": 32, "resp": 2, "last": 1}),
        *channel(f"{AXI3}_aw", "in", address),
        *channel(f"{AXI3}_w", "in", {"id": ID_BITS, "data": 32, "strb": 4, "last": 1}),
        *channel(f"{AXI3}_b", "out", {"id": ID_BITS, "resp": 2}),
    ]


def board_ports(config: Config, control_axi: int) -> list[Port]:
    """Ports of the top module for a board: without events, and with the control port as the PS speaks, AXI 3 or 4."""
    kept = [p for p in ports(config) if not p.is_event]
    if control_axi != 3:
        return kept
    return [*(p for p in kept if not p.name.startswith(f"{LITE}_")), *axi3_slave(config)]
