"""What a cell of the part means to timing: where its paths start and end, and which of its pins join."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tilewright.hw.timing.delays import Delays
from tilewright.hw.timing.dsp48 import is_on, ways

#: of a mapped cell: pins by name, with their widths
Pins = Mapping[str, int]
#: an input's pin and bit, an output's pin and bit, nanoseconds between them
Arc = tuple[str, int, str, int, float]

_CLOCK_PINS = frozenset({"CLK", "WCLK", "CLKARDCLK", "CLKBWRCLK"})
_LUT_RAM_ADDRESS = re.compile(r"ADDR[A-H]|A\d?|DPRA\d?")


class UnknownCell(Exception):
    """A type of cell without a model; the timing of a design that has one would be too good."""


@dataclass
class CellTiming:
    """``launch``: ns from the clock by output; ``capture``: setup by input; ``arcs``: what is combinational."""

    launch: dict[str, float] = field(default_factory=dict)
    capture: dict[str, float] = field(default_factory=dict)
    arcs: list[Arc] = field(default_factory=list)


def cell_timing(kind: str, parameters: Mapping[str, str], inputs: Pins, outputs: Pins, delays: Delays) -> CellTiming:
    """The timing of a cell. Raises :class:`UnknownCell` for a type without a model."""
    inputs = {pin: width for pin, width in inputs.items() if pin not in _CLOCK_PINS}
    if re.fullmatch(r"LUT[1-6]|INV", kind):
        return CellTiming(arcs=list(_all(inputs, outputs, delays.lut)))
    if re.fullmatch(r"MUXF[789]", kind):
        return CellTiming(arcs=list(_all(inputs, outputs, delays.muxf)))
    if kind == "CARRY4":
        return CellTiming(arcs=list(_carry(inputs, outputs, delays)))
    if re.fullmatch(r"FD[RSCP]E", kind):
        setup = {pin: delays.ff_su if pin == "D" else delays.ff_control_su for pin in inputs if pin != "C"}
        return CellTiming(dict.fromkeys(outputs, delays.ff_cq), setup)
    if re.fullmatch(r"RAMB(18|36)E[12]", kind):
        launch = {
            pin: delays.bram_register_cq if is_on(parameters, "DOB_REG" if pin[2:3] == "B" else "DOA_REG")
            else delays.bram_cq
            for pin in outputs
        }  # fmt: skip
        return CellTiming(launch, dict.fromkeys(inputs, delays.bram_su))
    if re.match(r"RAM\d|SRL", kind):
        return _lut_ram(kind, inputs, outputs, delays)
    if re.fullmatch(r"DSP48E[12]", kind):
        return _dsp(parameters, inputs, outputs, delays)
    if re.fullmatch(r"GND|VCC", kind):
        return CellTiming()
    raise UnknownCell(kind)


def _all(inputs: Pins, outputs: Pins, ns: float) -> Iterator[Arc]:
    """Every bit of the inputs to every bit of the outputs."""
    for source, width in inputs.items():
        for sink, depth in outputs.items():
            for bit in range(width):
                for k in range(depth):
                    yield source, bit, sink, k, ns


def _only(pins: Pins, names: Iterable[str]) -> Pins:
    return {name: pins[name] for name in names if name in pins}


def _carry(inputs: Pins, outputs: Pins, delays: Delays) -> Iterator[Arc]:
    """Bit k of O hangs on S up to k and on DI below it; bit k of CO on both up to k."""
    for sink in outputs:
        from_carry = delays.carry_chain if sink == "CO" else delays.carry_out
        for k in range(outputs[sink]):
            for pin, bits, ns in (
                ("CI", 1, from_carry), ("CYINIT", 1, delays.carry_in), ("S", k + 1, delays.carry_in),
                ("DI", k + 1 if sink == "CO" else k, delays.carry_in),
            ):  # fmt: skip
                for bit in range(min(bits, inputs.get(pin, 0))):
                    yield pin, bit, sink, k, ns


def _lut_ram(kind: str, inputs: Pins, outputs: Pins, delays: Delays) -> CellTiming:
    """An address port reads the output of its letter; that of the last letter, or ``A``, is the write port's too."""
    shift = kind.startswith("SRL")
    addresses = [pin for pin in inputs if _LUT_RAM_ADDRESS.fullmatch(pin)]
    last = max((pin for pin in addresses if pin.startswith("ADDR")), default="A")
    arcs: list[Arc] = []
    for pin in addresses:
        read = [f"DO{pin[-1]}"] if pin.startswith("ADDR") else ["DPO"] if pin.startswith("DPRA") else ["SPO", "O", "Q"]
        arcs += _all(_only(inputs, [pin]), _only(outputs, read), delays.lutram_read)
    ends = [pin for pin in inputs if pin not in addresses or (pin.startswith(last) and not shift)]
    launch = dict.fromkeys(outputs, delays.srl_cq if shift else delays.lutram_cq)
    return CellTiming(launch, dict.fromkeys(ends, delays.lutram_su), arcs)


def _dsp(parameters: Mapping[str, str], inputs: Pins, outputs: Pins, delays: Delays) -> CellTiming:
    """Delays to the outputs: to P and its companions by :func:`ways`, to the cascades of A and B by their registers."""
    slice_, found = delays.dsp, CellTiming()
    sums = [pin for pin in outputs if pin not in ("ACOUT", "BCOUT")]
    has = ways(parameters, frozenset(inputs), slice_)
    found.capture = has.ends
    later = {pin: 0.0 if is_on(parameters, "PREG") or pin != "PCOUT" else slice_.cascade for pin in sums}
    for pin, ns in has.through.items():
        for sink in sums:
            found.arcs += _all(_only(inputs, [pin]), _only(outputs, [sink]), ns + later[sink])
    if has.starts is not None:
        found.launch = {pin: has.starts + later[pin] for pin in sums}
    for sink in (pin for pin in outputs if pin not in sums):
        if is_on(parameters, f"{sink[0]}REG"):
            found.launch[sink] = slice_.cascade_cq[sink]
            continue
        for pin in (sink[0], f"{sink[0]}CIN"):
            found.arcs += _all(_only(inputs, [pin]), _only(outputs, [sink]), slice_.cascade_through[pin])
    return found
