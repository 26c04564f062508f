"""The top module of the HLS design: five kernels' Verilog, joined with streams, memories and the control unit; of
several cores that many times.

``python3 -m hls.join FOLDER`` reads ``shapes.json`` and each kernel's Verilog in FOLDER, as Vitis HLS has written
it, and writes ``../rtl/tilewright.v`` with the kernels beside it. The kernels' ports are taken from their Verilog
and not assumed, as the tool chooses some of them, such as the number of ports of a memory (UG1399, "Port-Level
I/O Protocols"). Standard library only: it runs where the tools are, without Tilewright.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .kernel_ports import JoinError, Kernel, Signal, memory_ports, parse_ports

KERNELS = ("dispatch", "load", "gemm", "alu", "store")
ENGINES = KERNELS[1:]
#: what the kernels with AXI masters do there
MASTERS = {"dispatch": "fetch", "load": "load", "store": "store"}
KERNEL_BUS = "m_axi_gmem"  #: what the tool calls a kernel's master: the bundle's name is in the pragma
TOP, CORE = "tilewright", "tilewright_core"

#: dispatch's ports that the control unit is wired to: kernel's name -> control's name
CONTROL = {
    "ap_start": "ap_start", "ap_ready": "ap_ready", "ap_done": "ap_done", "program_address": "program_address",
    "instructions": "instructions", "beats": "beats", "bases": "bases", "limits": "limits", "fault": "fault",
    "fault_ap_vld": "fault_valid",
}  # fmt: skip
UNUSED = {"ap_idle"}
SHALLOW = 64  #: memories of so few rows stand in LUT RAM: a block RAM would be almost empty
#: channels of a master that the gate closes, by their valid
GATED = ("AW", "W", "AR")


def master(kernel: str, port: int, ports: int) -> str:
    """A kernel's AXI master at one of so many memory ports: ``m_axi_load``, of several ``m_axi_0_load``."""
    return f"m_axi_{MASTERS[kernel]}" if ports == 1 else f"m_axi_{port}_{MASTERS[kernel]}"


class Core:
    """Collects the lines of a core, which alone is the whole design."""

    def __init__(self, shapes: dict[str, Any], kernels: dict[str, Kernel]) -> None:
        self.shapes, self.kernels = shapes, kernels
        self.unit = Kernel("control", {n: Signal(n, way == "output", width) for n, way, width in shapes["told"]})
        self.ports: list[tuple[str, str, int]] = []
        self.lines: list[str] = []
        self.control: dict[str, str] = {"kernel_rst_n": "kernel_rst_n"}
        self.port("input", "clk", 1)
        self.port("input", "rst", 1)
        for name, way, width in shapes["control"]:
            self.port(way, name, width)
        self.control |= {name: name for name in ("clk", "rst", *(name for name, *_ in shapes["control"]))}

    def port(self, way: str, name: str, width: int) -> None:
        """Declare a port of the module, ``way`` "input" or "output"."""
        self.ports.append((way, name, width))

    def wire(self, name: str, width: int, value: str = "") -> str:
        """Declare a wire; returns its name."""
        self.lines.append(f"    wire {_bits(width)}{name}{f' = {value}' if value else ''};")
        return name

    def text(self, module: str) -> str:
        """The whole module."""
        self.wire("kernel_rst_n", 1)
        self.wire("gate", 1)
        self.control["gate"] = "gate"
        for kernel in self.kernels.values():
            kernel.connect("ap_clk", "clk", 1, False)
            kernel.connect("ap_rst_n", "kernel_rst_n", 1, False)
        self._dispatch()
        for stream in self.shapes["streams"]:
            self._stream(stream)
        for memory in self.shapes["memories"]:
            self._memory(memory)
        self._buses()
        taken = [f"{e}_commands_valid & {e}_commands_ready" for e in reversed(ENGINES)]
        self.control["commands_taken"] = self.wire("commands_taken", len(ENGINES), "{" + ", ".join(taken) + "}")
        self._instances()
        return _module(module, self.ports, self.lines)

    def _dispatch(self) -> None:
        kernel = self.kernels["dispatch"]
        for port, name in CONTROL.items():
            found = kernel.find(port)
            self.wire(f"control_{name}", found.width)
            kernel.connect(port, f"control_{name}", found.width, found.output)
            self.control[name] = f"control_{name}"

    def _stream(self, stream: dict[str, Any]) -> None:
        (source, out_port), (target, in_port) = stream["from"], stream["to"]
        sender, receiver = ({**self.kernels, "control": self.unit}[name] for name in (source, target))
        name, width, depth = f"{target}_{in_port}", sender.find(f"{out_port}_TDATA").width, stream["depth"]
        for kernel, port, side, output in (
            (sender, out_port, "in", True), (receiver, in_port, "", False),
        ):  # fmt: skip
            prefix = f"{name}_{side}_" if side else f"{name}_"
            for suffix, part, bits, flow in (
                ("TDATA", "data", width, output), ("TVALID", "valid", 1, output), ("TREADY", "ready", 1, not output),
            ):  # fmt: skip
                kernel.connect(f"{port}_{suffix}", self.wire(prefix + part, bits), bits, flow)
        bits = (depth - 1).bit_length()
        self.lines += [
            f"    tw_stream #(.WIDTH({width}), .DEPTH({depth}), .ADDRESS_BITS({bits})) {name}_queue (",
            "        .clk(clk), .rst(!kernel_rst_n),",
            *(f"        .in_{part}({name}_in_{part})," for part in ("data", "valid", "ready")),
            *(f"        .out_{part}({name}_{part})," for part in ("data", "valid")),
            f"        .out_ready({name}_ready)",
            "    );",
        ]

    # -- memories --------------------------------------------------------------------------------------

    def _memory(self, memory: dict[str, Any]) -> None:
        """One RAM per bank and slice; several kernels' ports meet in front of it.

        At any time one engine reads a bank and one writes it, as tokens order it, so the requests are combined
        without arbitration, and what is read goes to all.
        """
        found = {name: memory_ports(self.kernels[name], argument, memory["dims"])
                 for name, argument in memory["kernels"].items()}  # fmt: skip
        for index in itertools.product(*(range(n) for n in memory["dims"])):
            self._ram(memory, "_".join((memory["name"], *map(str, index))),
                      [(self.kernels[name], prefix, side) for name, places in found.items()
                       for prefix, sides in [places[index]] for side in sides])  # fmt: skip

    def _ram(self, memory: dict[str, Any], name: str, accesses: Sequence[tuple[Kernel, str, str]]) -> None:
        rows, width = memory["rows"], memory["width"]
        address_bits = max((rows - 1).bit_length(), 1)
        port_bits = rows.bit_length() if memory["spare"] else address_bits
        self.wire(f"{name}_q", width)
        enables = {kernel.ports[f"{prefix}_we{side}"].width for kernel, prefix, side in accesses
                   if f"{prefix}_we{side}" in kernel.ports}  # fmt: skip
        chunks = max(enables, default=0)
        if not chunks:
            raise JoinError(f"memory {name}: no kernel writes it")
        reads: list[tuple[str, str]] = []
        writes: list[tuple[str, str, str]] = []
        for kernel, prefix, side in accesses:
            base = f"{name}_{kernel.name}{side}"
            address = self.wire(f"{base}_address", port_bits)
            enable = self.wire(f"{base}_ce", 1)
            kernel.connect(f"{prefix}_address{side}", address, port_bits, True)
            kernel.connect(f"{prefix}_ce{side}", enable, 1, True)
            short = f"{address}[{address_bits - 1}:0]" if port_bits > 1 else address
            meant = f"{enable} & !{address}[{port_bits - 1}]" if memory["spare"] else enable
            writing = ""
            if f"{prefix}_we{side}" in kernel.ports:
                bits = kernel.ports[f"{prefix}_we{side}"].width
                if chunks % bits:
                    raise JoinError(f"kernel {kernel.name}: {prefix}_we{side} has {bits} bits, others have {chunks}")
                we, data = self.wire(f"{base}_we", bits), self.wire(f"{base}_d", width)
                kernel.connect(f"{prefix}_we{side}", we, bits, True)
                kernel.connect(f"{prefix}_d{side}", data, width, True)
                each = ", ".join(f"{{{chunks // bits}{{{we}[{b}]}}}}" if bits > 1 else f"{{{chunks}{{{we}}}}}"
                                 for b in reversed(range(bits)))  # fmt: skip
                mask = self.wire(f"{base}_write", chunks, f"{{{each}}} & {{{chunks}{{{meant}}}}}")
                writes.append((mask, short, data))
                writing = f" & !(|{we})"
            if f"{prefix}_q{side}" in kernel.ports:
                kernel.connect(f"{prefix}_q{side}", f"{name}_q", width, False)
                reads.append((self.wire(f"{base}_read", 1, meant + writing), short))
        if not reads:
            raise JoinError(f"memory {name}: no kernel reads it")
        style = "distributed" if rows <= SHALLOW else "block"
        self.lines += [
            f"    tw_ram #(.WIDTH({width}), .DEPTH({rows}), .ADDRESS_BITS({address_bits}), .CHUNKS({chunks}),",
            f'        .STYLE("{style}")) {name} (',
            "        .clk(clk),",
            f"        .write_enable({' | '.join(mask for mask, _, _ in writes)}),",
            f"        .write_address({_chosen([(f'|{mask}', address) for mask, address, _ in writes], address_bits)}),",
            f"        .write_data({_chosen([(f'|{mask}', data) for mask, _, data in writes], width)}),",
            f"        .read_enable({' | '.join(read for read, _ in reads)}),",
            f"        .read_address({_chosen(reads, address_bits)}),",
            f"        .read_data({name}_q)",
            "    );",
        ]

    # -- buses -----------------------------------------------------------------------------------------

    def _buses(self) -> None:
        busy: list[str] = []
        errors: list[str] = []
        for number in range(self.shapes["axi_ports"]):
            for kernel in MASTERS:
                bus = master(kernel, number, self.shapes["axi_ports"])
                self._bus(self.kernels[kernel], f"{KERNEL_BUS}{number or ''}_", bus)
                self._count(bus, busy, errors)
        self.control["bus_busy"] = self.wire("bus_busy", 1, " | ".join(busy))
        self.control["bus_error"] = self.wire("bus_error", 1, " | ".join(errors))
        for kernel, channel in (("dispatch", "r"), ("load", "r"), ("store", "w")):
            bus = master(kernel, 0, self.shapes["axi_ports"])  # of two ports each has a word of every beat
            seen = f"{MASTERS[kernel]}_beat"
            self.control[seen] = self.wire(seen, 1, f"{bus}_{channel}valid & {bus}_{channel}ready")

    def _bus(self, kernel: Kernel, prefix: str, bus: str) -> None:
        """Bring a kernel's master out as ``bus``."""
        signals = {name.removeprefix(prefix): port for name, port in kernel.ports.items() if name.startswith(prefix)}
        for channel in ("AR", "R", "AW", "W", "B"):
            kernel.find(f"{prefix}{channel}VALID")
        for name, port in signals.items():
            outside = inside = f"{bus}_{name.lower()}"
            if name in [f"{channel}{end}" for channel in GATED for end in ("VALID", "READY")]:
                inside = self.wire(f"{outside}_kernel", 1)
                source, target = (inside, outside) if port.output else (outside, inside)
                self.lines.append(f"    assign {target} = {source} & !gate;")
            if "USER" not in name and "REGION" not in name and name != "WID":
                # AXI4 as PS and SmartConnect have it knows no WID; users and regions mean nothing there
                self.port("output" if port.output else "input", outside, port.width)
            elif port.output:
                self.wire(outside, port.width)
            else:
                inside = f"{port.width}'d0"
            kernel.connect(port.name, inside, port.width, port.output)

    def _count(self, bus: str, busy: list[str], errors: list[str]) -> None:
        """Transactions of one master that have begun and not ended."""
        self.lines += [
            f"    reg [7:0] {bus}_reads;",
            f"    reg [7:0] {bus}_writes;",
            "    always @(posedge clk)",
            f"        if (!kernel_rst_n) begin {bus}_reads <= 0; {bus}_writes <= 0; end",
            "        else begin",
            f"            {bus}_reads <= {bus}_reads + {{7'd0, {bus}_arvalid & {bus}_arready}}",
            f"                - {{7'd0, {bus}_rvalid & {bus}_rready & {bus}_rlast}};",
            f"            {bus}_writes <= {bus}_writes + {{7'd0, {bus}_awvalid & {bus}_awready}}",
            f"                - {{7'd0, {bus}_bvalid & {bus}_bready}};",
            "        end",
        ]
        busy += [f"(|{bus}_reads)", f"(|{bus}_writes)", *(f"{bus}_{c.lower()}valid_kernel" for c in GATED)]
        errors += [f"({bus}_rvalid & {bus}_rready & {bus}_rresp[1])", f"({bus}_bvalid & {bus}_bready & {bus}_bresp[1])"]

    def _instances(self) -> None:
        for kernel in self.kernels.values():
            kernel.wires.update((port, "") for port in UNUSED & set(kernel.ports))
            left = sorted(set(kernel.ports) - set(kernel.wires))
            if left:
                raise JoinError(f"kernel {kernel.name}: port {left[0]} is not known: nothing to connect it to")
            self.lines += _instance(f"tilewright_{kernel.name}", kernel.name, kernel.wires)
        self.lines += _instance("tilewright_control", "control", self.control | self.unit.wires)


def several(core: Core) -> str:
    """The top module of several cores: their memory ports go straight outside, all else to what stands between them."""
    shapes = core.shapes
    cores, each = shapes["cores"], shapes["axi_ports"]
    ports = [("input", "clk", 1), ("input", "rst", 1), *((way, name, width) for name, way, width in shapes["host"])]
    inner = {name for name, *_ in shapes["control"]}
    window = {name: name for _, name, _ in ports}
    lines: list[str] = []
    for c in range(cores):
        outer = {f"{master(kernel, n, each)}_": f"{master(kernel, c * each + n, cores * each)}_"
                 for kernel in MASTERS for n in range(each)}  # fmt: skip
        wires = {"clk": "clk", "rst": "rst"}
        for way, name, width in core.ports:
            if name in inner:
                wires[name] = f"core_{c}_{name}"
                window[wires[name]] = wires[name]
                lines.append(f"    wire {_bits(width)}{wires[name]};")
            elif name not in wires:
                bus = next(prefix for prefix in outer if name.startswith(prefix))
                wires[name] = outer[bus] + name.removeprefix(bus)
                ports.append((way, wires[name], width))
        lines += _instance(CORE, f"core_{c}", wires)
    lines += _instance("tilewright_window", "window", window)
    return _module(TOP, ports, lines)


def _module(name: str, ports: Sequence[tuple[str, str, int]], lines: Sequence[str]) -> str:
    header = ",\n    ".join(f"{way} wire {_bits(width)}{port}" for way, port, width in ports)
    return (
        "// Generated by join.py from the kernels' Verilog; do not edit.\n"
        f"module {name} (\n    {header}\n);\n" + "\n".join(lines) + "\nendmodule\n"
    )


def _bits(width: int) -> str:
    """A declaration's range, nothing for one bit."""
    return f"[{width - 1}:0] " if width > 1 else ""


def _chosen(requests: Sequence[tuple[str, str]], width: int) -> str:
    """The operand of the one request that is made."""
    if len(requests) == 1:
        return requests[0][1]
    return " | ".join(f"({{{width}{{{condition}}}}} & {operand})" for condition, operand in requests)


def _instance(module: str, name: str, wires: Mapping[str, str]) -> Iterator[str]:
    yield f"    {module} {name} ("
    yield ",\n".join(f"        .{port}({wire})" for port, wire in sorted(wires.items()))
    yield "    );"


def join_kernels(shapes: dict[str, Any], texts: Mapping[str, str]) -> str:
    """The top module's Verilog, and of several cores a core's behind it.

    ``texts``: Verilog with the module ``tilewright_NAME`` of each kernel.
    """
    kernels = {name: Kernel(name, parse_ports(texts[name], f"tilewright_{name}")) for name in KERNELS}
    core = Core(shapes, kernels)
    if shapes["cores"] == 1:
        return core.text(TOP)
    text = core.text(CORE)  # first: its ports follow from the kernels'
    return several(core) + text


def main(folder: Path) -> None:
    """Join the kernels of a build folder's ``hls``."""
    shapes = json.loads((folder / "shapes.json").read_text())
    target = folder.parent / "rtl"
    texts = {}
    for name in KERNELS:
        made = folder / name / "solution" / "syn" / "verilog"
        top = made / f"tilewright_{name}.v"
        if not top.exists():
            raise JoinError(f"{top}: is missing: Vitis HLS has not synthesised the kernel {name}")
        texts[name] = top.read_text()
        for path in sorted(made.iterdir()):
            if path.suffix in (".v", ".dat"):
                shutil.copyfile(path, target / path.name)
    whole = target / "tilewright.v.part"
    whole.write_text(join_kernels(shapes, texts))
    whole.replace(target / "tilewright.v")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (JoinError, OSError) as error:
        sys.exit(f"ERROR: {error}")
