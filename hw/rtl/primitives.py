"""The hand-written Verilog primitives as Amaranth instances: memories and multipliers.

Plain Verilog arrays keep block RAM inference and output registers in plain sight, and elaborate fast.
"""

from __future__ import annotations

from pathlib import Path

from amaranth.hdl import ClockSignal, Elaboratable, Instance, Module, Signal, Value, signed

from tilewright.isa.spec import bits_for

VERILOG_DIR = Path(__file__).parent / "verilog"
PRIMITIVES = ("tw_ram", "tw_ram_async", "tw_dot", "tw_dot_pair", "tw_multiply_add")


def primitive_sources() -> dict[str, str]:
    """Verilog text of every primitive by file name."""
    return {f"{name}.v": (VERILOG_DIR / f"{name}.v").read_text() for name in PRIMITIVES}


class Ram(Elaboratable):
    """One write port with chunk enables, one read port of latency 1, or 2 with ``registered``.

    Reading the word being written gives the old word. ``style``: "block" or "distributed".
    """

    def __init__(
        self, width: int, depth: int, *, chunks: int = 1, registered: bool = False, style: str = "block"
    ) -> None:
        self.width, self.depth, self.chunks, self.registered, self.style = width, depth, chunks, registered, style
        self.address_bits = bits_for(depth)
        self.write_enable = Signal(chunks)
        self.write_address = Signal(self.address_bits)
        self.write_data = Signal(width)
        self.read_enable = Signal()
        self.read_address = Signal(self.address_bits)
        self.read_data = Signal(width)

    def elaborate(self, platform: object) -> Module:
        """Instance of tw_ram."""
        m = Module()
        m.submodules.ram = Instance(
            "tw_ram",
            p_WIDTH=self.width, p_DEPTH=self.depth, p_ADDRESS_BITS=self.address_bits, p_CHUNKS=self.chunks,
            p_OUTPUT_REGISTER=int(self.registered), p_STYLE=self.style,
            i_clk=ClockSignal(), i_write_enable=self.write_enable, i_write_address=self.write_address,
            i_write_data=self.write_data, i_read_enable=self.read_enable, i_read_address=self.read_address,
            o_read_data=self.read_data,
        )  # fmt: skip
        return m


class AsyncRam(Elaboratable):
    """LUT RAM: one write port, one combinational read port."""

    def __init__(self, width: int, depth: int) -> None:
        self.width, self.depth = width, depth
        self.address_bits = bits_for(depth)
        self.write_enable = Signal()
        self.write_address = Signal(self.address_bits)
        self.write_data = Signal(width)
        self.read_address = Signal(self.address_bits)
        self.read_data = Signal(width)

    def elaborate(self, platform: object) -> Module:
        """Instance of tw_ram_async."""
        m = Module()
        m.submodules.ram = Instance(
            "tw_ram_async",
            p_WIDTH=self.width, p_DEPTH=self.depth, p_ADDRESS_BITS=self.address_bits,
            i_clk=ClockSignal(), i_write_enable=self.write_enable, i_write_address=self.write_address,
            i_write_data=self.write_data, i_read_address=self.read_address, o_read_data=self.read_data,
        )  # fmt: skip
        return m


def dot(m: Module, name: str, taps: int, weight_bits: int, x: Value, w: Value) -> Signal:
    """The dot product of ``taps`` int8 in x and weights in w, int32, four cycles later."""
    total = Signal(32, name=f"{name}_sum")
    m.submodules[name] = Instance(
        "tw_dot", p_TAPS=taps, p_WEIGHT_BITS=weight_bits, i_clk=ClockSignal(), i_x=x, i_w=w, o_sum=total
    )
    return total


def dot_pair(
    m: Module, name: str, taps: int, weight_bits: int, x: Value, w0: Value, w1: Value, late: Value, firsts: Value,
    seconds: Value,
) -> tuple[Signal, Signal]:  # fmt: skip
    """Two dot products with x, each less one, four cycles later, on one multiplier per tap; weights a cycle before x.

    ``late``, three cycles later: the second is that of the x given a cycle later instead. ``firsts`` at that time: the
    first products of this x and of the next; ``seconds``, a cycle after it: their second products.
    """
    sums = Signal(32, name=f"{name}_sum_0"), Signal(32, name=f"{name}_sum_1")
    m.submodules[name] = Instance(
        "tw_dot_pair", p_TAPS=taps, p_WEIGHT_BITS=weight_bits, i_clk=ClockSignal(), i_x=x, i_w0=w0, i_w1=w1,
        i_late=late, i_firsts=firsts, i_seconds=seconds, o_sum0=sums[0], o_sum1=sums[1],
    )  # fmt: skip
    return sums


def multiply_add(m: Module, name: str, valid: Value, a: Value, b: Value, c: Value) -> Signal:
    """a * b + c modulo 2^64, signed, four cycles later; a of 32 bits, b of 34, c of at most 47.

    Bit k of ``valid``: its k-th stage is clocked.
    """
    total = Signal(signed(64), name=f"{name}_total")
    m.submodules[name] = Instance(
        "tw_multiply_add", p_C_BITS=len(c), i_clk=ClockSignal(), i_valid=valid, i_a=a, i_b=b, i_c=c, o_total=total
    )
    return total
