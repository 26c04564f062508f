"""Delays of the processor's pins that the accelerator's ports are connected to, in nanoseconds.

Project X-Ray's SDF for the speed grade -1, ``zynq7/timings/PSS2.sdf`` of github.com/f4pga/prjxray-db, cell PS7, the
slow corner: ``IOPATH SAXIHP0ACLK SAXIHP0RVALID`` and ``SETUP SAXIHP0ARVALID``. The interrupt has no entry there.
"""

from __future__ import annotations

import re

_MEMORY = re.compile(r"m_axi_(?:(\d)_)?([a-z]+)")
_CONTROL = re.compile(r"s_axil?_([a-z]+)")

#: what the memory ports send: of SAXIHP0 and SAXIHP1
MEMORY_CQ = {
    "ARREADY": (1.21, 1.23), "AWREADY": (1.14, 1.20), "BID": (1.43, 1.36), "BRESP": (1.33, 1.13),
    "BVALID": (1.22, 1.20), "RDATA": (1.51, 1.44), "RID": (1.39, 1.31), "RLAST": (1.28, 1.41),
    "RRESP": (1.32, 1.21), "RVALID": (1.18, 1.19),
    "WREADY": (1.28, 1.23),
}  # fmt: skip
#: ... and receive
MEMORY_SU = {
    "ARADDR": (0.82, 0.79), "ARBURST": (0.71, 0.66), "ARCACHE": (0.69, 0.61), "ARID": (0.67, 0.58),
    "ARLEN": (0.70, 0.62), "ARLOCK": (0.71, 0.60), "ARPROT": (0.62, 0.62), "ARQOS": (0.79, 0.72),
    "ARSIZE": (0.69, 0.61), "ARVALID": (1.00, 0.85), "AWADDR": (0.73, 0.67), "AWBURST": (0.67, 0.54),
    "AWCACHE": (0.70, 0.55), "AWID": (0.72, 0.58), "AWLEN": (0.68, 0.56), "AWLOCK": (0.67, 0.56),
    "AWPROT": (0.65, 0.60), "AWQOS": (0.68, 0.61),
    "AWSIZE": (0.68, 0.57), "AWVALID": (0.81, 0.79), "BREADY": (0.87, 0.96), "RREADY": (1.04, 0.92),
    "WDATA": (0.78, 0.71), "WID": (0.69, 0.60), "WLAST": (0.74, 0.59), "WSTRB": (0.73, 0.60), "WVALID": (0.99, 0.84),
}  # fmt: skip
#: what the control port sends and receives: MAXIGP0
CONTROL_CQ = {
    "ARADDR": 1.44, "ARBURST": 1.45, "ARCACHE": 1.44, "ARID": 1.45, "ARLEN": 1.42, "ARLOCK": 1.44, "ARPROT": 1.43,
    "ARQOS": 1.43, "ARSIZE": 1.41, "ARVALID": 1.29, "AWADDR": 1.45, "AWBURST": 1.41, "AWCACHE": 1.37, "AWID": 1.45,
    "AWLEN": 1.38, "AWLOCK": 1.42, "AWPROT": 1.38, "AWQOS": 1.37, "AWSIZE": 1.43, "AWVALID": 1.35, "BREADY": 1.39,
    "RREADY": 1.36, "WDATA": 1.45, "WID": 1.42, "WLAST": 1.43, "WSTRB": 1.43, "WVALID": 1.33,
}  # fmt: skip
CONTROL_SU = {
    "ARREADY": 0.84, "AWREADY": 0.78, "BID": 0.57, "BRESP": 0.52, "BVALID": 0.76, "RDATA": 0.55, "RID": 0.57,
    "RLAST": 0.48, "RRESP": 0.52, "RVALID": 0.78, "WREADY": 0.88,
}  # fmt: skip


def port_delay(name: str, direction: str) -> float | None:
    """ns of the pin behind a port of the top module: clock to output for its inputs, setup for its outputs.

    ``name`` may end with an index. None: no pin of the processor's is behind it, or none that is timed.
    """
    if memory := _MEMORY.match(name):
        table = MEMORY_CQ if direction == "input" else MEMORY_SU
        pair = table.get(memory[2].upper())
        return None if pair is None else pair[int(memory[1] or 0) % 2]
    if control := _CONTROL.match(name):
        return (CONTROL_CQ if direction == "input" else CONTROL_SU).get(control[1].upper())
    return None
