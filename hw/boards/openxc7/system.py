"""The top module for the open flow: accelerator, PS7, one clock through a BUFG, and its reset."""

from __future__ import annotations

from tilewright.config import Config
from tilewright.hw.rtl.axi3_ports import AXI3, ID_BITS, board_ports
from tilewright.hw.rtl.ports import Port, masters

TOP = "system"
CLOCK = "fabric_clock"  #: the net that everything is clocked by; the constraints and the routed report name it
#: pins of the PS7 primitive for a bus of ours (UG585, the PS-PL interfaces); all are in capitals there
PS_BUSES = {AXI3: "MAXIGP0", "m_axi": "SAXIHP0", "m_axi_0": "SAXIHP0", "m_axi_1": "SAXIHP1"}
#: widths of its pins that may differ from those of our ports, by signal, and bits of an ID there
PS_WIDTHS = {"addr": 32, "size": 2}
PS_IDS = {"MAXIGP0": ID_BITS, "SAXIHP0": 6, "SAXIHP1": 6}


def ps_width(port: Port) -> int:
    """Bits of the PS7 pin that a port of a bus is connected to."""
    bus, signal = port.name.rsplit("_", 1)
    channel = 2 if signal.startswith(("ar", "aw")) else 1
    return {**PS_WIDTHS, "id": PS_IDS[PS_BUSES[bus]]}.get(signal[channel:], port.width)


def ps_pin(port: Port) -> str:
    """Its name."""
    bus, signal = port.name.rsplit("_", 1)
    return PS_BUSES[bus] + signal.upper()


def system_verilog(config: Config) -> str:
    """Verilog of the top module. It has no ports: the PS's own pins are not the PL's to assign.

    PS7 inputs that are left open are tied to 0 by nextpnr. There is no interrupt controller, so the interrupt
    goes nowhere and the driver polls. The reset begins with the configuration, as PYNQ need not pulse the PS's.
    """
    wires, core = [], []
    memories = masters(config)
    pins = [PS_BUSES[prefix.rstrip("_")] for prefix in memories]
    ps7 = [f".{pin}ACLK({CLOCK})" for pin in pins]
    dram = " and ".join(pin.removeprefix("SAXI") for pin in pins)
    for port in board_ports(config, 3):
        if not port.name.startswith((f"{AXI3}_", *memories)):
            continue
        width = max(port.width, ps_width(port))
        wires.append(f"  wire [{width - 1}:0] {port.name};")
        core.append(f".{port.name}({port.name}[{port.width - 1}:0])")
        ps7.append(f".{ps_pin(port)}({port.name}[{ps_width(port) - 1}:0])")
        inside, outside = (port.width, ps_width(port)) if port.direction == "out" else (ps_width(port), port.width)
        if outside > inside:  # the driver is narrower than what it drives
            wires.append(f"  assign {port.name}[{outside - 1}:{inside}] = 0;")
    joint = ",\n    "
    return f"""\
// {TOP}: PS7 with GP0 for the registers, {dram} for DRAM and FCLK0; generated for config {config.name}.
module {TOP};
  wire [3:0] fclk, fclk_reset_n;
  wire {CLOCK};
  BUFG clock_buffer(.I(fclk[0]), .O({CLOCK}));
  reg [2:0] reset = 3'b111;
  always @(posedge {CLOCK}) reset <= {{reset[1:0], ~fclk_reset_n[0]}};
{chr(10).join(wires)}
  tilewright tilewright_0(
    .clk({CLOCK}),
    .rst(reset[2]),
    {joint.join(core)}
  );
  (* keep *)
  PS7 ps(
    .FCLKCLK(fclk),
    .FCLKRESETN(fclk_reset_n),
    .MAXIGP0ACLK({CLOCK}),
    {joint.join(ps7)}
  );
endmodule
"""


def constraints(clock_mhz: float) -> str:
    """XDC as nextpnr reads it: no pin, one clock."""
    return f"create_clock -period {1000 / clock_mhz:.3f} [get_nets {CLOCK}]\n"
