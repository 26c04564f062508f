"""Verilog as Vitis HLS writes it for the kernels: ports only, from the C++ signatures, pragmas and the Config.

Naming and widths follow UG1399, "Port-Level I/O Protocols" and "Vitis HLS RTL ports": it stands in for the tool
where there is none, and is no proof of what the tool does.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from tilewright.config import Config
from tilewright.hw.hls.build import HERE as HLS
from tilewright.hw.hls.header import LIMIT_BITS, constants
from tilewright.hw.hls.join import KERNELS
from tilewright.hw.hls.shapes import memory_shapes
from tilewright.isa.registers import TAG_BITS

Ports = list[tuple[str, str, str]]  # direction, range, name

#: channel -> (signal, width, whether the master drives it)
_ADDRESS = (
    "VALID:1:o READY:1:i ADDR:A:o ID:1:o LEN:8:o SIZE:3:o BURST:2:o LOCK:2:o CACHE:4:o PROT:3:o QOS:4:o REGION:4:o "
    "USER:1:o"
)
_MASTER = {
    "AW": _ADDRESS,
    "W": "VALID:1:o READY:1:i DATA:D:o STRB:S:o LAST:1:o ID:1:o USER:1:o",
    "AR": _ADDRESS,
    "R": "VALID:1:i READY:1:o DATA:D:i LAST:1:i ID:1:i USER:1:i RESP:2:i",
    "B": "VALID:1:i READY:1:o RESP:2:i ID:1:i USER:1:i",
}
_WIDTHS = {"A": "ADDR_WIDTH", "D": "DATA_WIDTH", "S": "WSTRB_WIDTH"}
#: parameters that stand for a memory port each (kernels/dram.hpp)
_DRAM = {"TW_READ_DRAM", "TW_WRITE_DRAM"}


def signature(config: Config, kernel: str) -> tuple[list[str], dict[str, tuple[str, str]]]:
    """Arguments of a kernel's top function; mode and bundle (or "") of each from its INTERFACE pragmas."""
    text = (HLS / "kernels" / f"{kernel}.cpp").read_text()
    text = re.sub(r"TW_BELLS\((.*?)\)", r"\1," if config.cores > 1 else "", text)
    match = re.search(rf"^void tilewright_{kernel}\(([^)]*)\)", text, re.MULTILINE)
    assert match is not None
    arguments = []
    for part in match.group(1).split(","):
        name = re.sub(r"\[.*", "", part.split()[-1]).lstrip("&*")
        arguments += ["dram", "dram_odd"][: config.axi_ports] if name in _DRAM else [name]
    pragmas = re.findall(r"#pragma HLS INTERFACE (\w+) port=(\w+)(?:.* bundle=(\w+))?", text[match.end() :])
    return arguments, {port: (mode, bundle) for mode, port, bundle in pragmas}


def kernel_ports(config: Config, kernel: str, read_ports: int = 2) -> Ports:
    """The ports of a kernel; memories that it reads and writes have ``read_ports`` ports, as the tool may choose."""
    c = constants(config)
    arguments, modes = signature(config, kernel)
    scalars = {
        "program_address": c["DRAM_BEAT_BITS"], "instructions": TAG_BITS, "beats": 32,
        "bases": c["SEGMENTS"] * c["DRAM_BEAT_BITS"], "limits": c["SEGMENTS"] * LIMIT_BITS, "fault": 1 + TAG_BITS,
    }  # fmt: skip
    command = c["INSTRUCTION_BITS"] + c["DRAM_BEAT_BITS"] + LIMIT_BITS + TAG_BITS
    ports: Ports = [("input", "", "ap_clk"), ("input", "", "ap_rst_n")]
    if modes["return"][0] == "ap_ctrl_hs":
        ports += [("input", "", "ap_start"), ("output", "", "ap_done"), ("output", "", "ap_idle"),
                  ("output", "", "ap_ready")]  # fmt: skip
    for name in arguments:
        mode, bundle = modes[name]
        if mode == "axis":
            bits = 1 + TAG_BITS if name.endswith("retired") else 1 if re.match("to_|from_|heard", name) else command
            if name in ("hear", "ring"):
                bits = c["CORE_BITS"]
            out = re.match("to_|retired|ring", name) or (kernel == "dispatch" and "retired" not in name)
            flow, back = ("output", "input") if out else ("input", "output")
            ports += [(flow, f"[{-(-bits // 8) * 8 - 1}:0]", f"{name}_TDATA"), (flow, "", f"{name}_TVALID"),
                      (back, "", f"{name}_TREADY")]  # fmt: skip
        elif mode == "ap_none":
            ports.append(("input", f"[{scalars[name] - 1}:0]", name))
        elif mode == "ap_vld":
            ports += [("output", f"[{scalars[name] - 1}:0]", name), ("output", "", f"{name}_ap_vld")]
        elif mode == "m_axi":
            ports += _master_ports(bundle)
        else:
            assert mode == "ap_memory"
            ports += _memory_ports(config, kernel, name, read_ports)
    return ports


def _master_ports(bundle: str) -> Ports:
    found: Ports = []
    prefix = f"m_axi_{bundle}_"
    for channel, signals in _MASTER.items():
        for part in signals.split():
            name, width, way = part.split(":")
            high = f"C_{prefix.upper()}{_WIDTHS[width]} - 1" if width in _WIDTHS else str(int(width) - 1)
            found.append(("output" if way == "o" else "input", "" if width == "1" else f"[{high}:0]",
                          f"{prefix}{channel}{name}"))  # fmt: skip
    return found


#: what a kernel does with a memory: r, w, or both
_ACCESS = {
    "load": "w",
    "store": "r",
    ("gemm", "acc"): "rw",
    "gemm": "r",
    ("alu", "act"): "rw",
    ("alu", "acc"): "rw",
    "alu": "r",
}


def _memory_ports(config: Config, kernel: str, argument: str, read_ports: int) -> Ports:
    shape = next(m for m in memory_shapes(config) if m["kernels"].get(kernel) == argument)
    access = _ACCESS.get((kernel, argument)) or _ACCESS[kernel]
    rows = shape["rows"] + shape["spare"]
    address = f"[{(rows - 1).bit_length() - 1}:0]"
    data = f"[{shape['width'] - 1}:0]"
    found: Ports = []
    for index in itertools.product(*(range(n) for n in shape["dims"])):
        prefix = "_".join((argument, *map(str, index)))
        sides = ["r", "w"] if access == "rw" and read_ports == 2 else [access]
        for side, kind in enumerate(sides):
            found += [("output", address, f"{prefix}_address{side}"), ("output", "", f"{prefix}_ce{side}")]
            if "w" in kind:
                found += [("output", "", f"{prefix}_we{side}"), ("output", data, f"{prefix}_d{side}")]
            if "r" in kind:
                found.append(("input", data, f"{prefix}_q{side}"))
    return found


def kernel_verilog(config: Config, kernel: str, read_ports: int = 2) -> str:
    """A module with a kernel's ports in the tool's style; its outputs are 0."""
    ports = kernel_ports(config, kernel, read_ports)
    names = ",\n        ".join(name for _, _, name in ports)
    outputs = [name for way, _, name in ports if way == "output"]
    return "\n".join([
        f'(* CORE_GENERATION_INFO="tilewright_{kernel},hls_ip" *)',
        f"module tilewright_{kernel} (\n        {names}\n);",
        "parameter    ap_ST_fsm_state1 = 3'd1;",
        *(
            f"parameter    C_M_AXI_{bundle}_{name} = {value};"
            for bundle in ("GMEM", "GMEM1")[: config.axi_ports]
            for name, value in (
                ("ADDR_WIDTH", 64), ("DATA_WIDTH", config.axi_bits),
                ("WSTRB_WIDTH", f"(C_M_AXI_{bundle}_DATA_WIDTH / 8)"),
            )
        ),
        *(f"{way}  {bits} {name};" for way, bits, name in ports),
        *(f"assign {name} = 0;" for name in outputs),
        "endmodule",
    ]) + "\n"  # fmt: skip


def write_netlists(config: Config, folder: Path) -> None:
    """Every kernel's Verilog, where the stub of ``csynth_design`` finds it."""
    folder.mkdir(parents=True, exist_ok=True)
    for kernel in KERNELS:
        (folder / f"tilewright_{kernel}.v").write_text(kernel_verilog(config, kernel))
