"""What a cell of the part means to timing: where its paths start and end, and which of its pins join."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tilewright.hw.timing.delays import Delays

#: of a mapped cell: pins by name, with their widths
Pins = Mapping[str, int]
#: an input's pin and bit, an output's pin and bit, nanoseconds between them
Arc = tuple[str, int, str, int, float]

_CLOCK_PINS = frozenset({"CLK", "WCLK", "CLKARDCLK", "CLKBWRCLK"})
_LUT_RAM_ADDRESS = re.compile(r"ADDR[A-H]|A\d?|DPRA\d?")
_DSP_MULTIPLIED = frozenset({"A", "B", "D", "INMODE"})


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
            pin: delays.bram_register_cq if _is_on(parameters, "DOB_REG" if pin[2:3] == "B" else "DOA_REG")
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


def _is_on(parameters: Mapping[str, str], name: str) -> bool:
    """Whether a parameter, text or bits, is neither absent nor zero."""
    return str(parameters.get(name, "0")).strip("0") not in ("", "FALSE")


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
    """A path ends at the first register that it meets: an input's, the pre-adder's, the multiplier's, P."""
    multiplies = parameters.get("USE_MULT") != "NONE"
    adds_before = _is_on(parameters, "USE_DPORT") or "AD" in (parameters.get("AMULTSEL"), parameters.get("BMULTSEL"))
    to_p = _is_on(parameters, "PREG")
    to_m = multiplies and _is_on(parameters, "MREG")
    sums = [pin for pin in outputs if pin not in ("ACOUT", "BCOUT")]
    found = CellTiming()
    for pin in inputs:
        if pin == "D" and not adds_before:
            continue
        port = pin[0] if pin in ("ACIN", "BCIN") else pin
        multiplied = multiplies and port in _DSP_MULTIPLIED
        control = pin.startswith(("CE", "RST"))
        held_before = port in ("A", "D") and adds_before and _is_on(parameters, "ADREG")
        if control:
            found.capture[pin] = delays.ff_control_su
        elif _is_on(parameters, f"{port}REG"):
            found.capture[pin] = delays.dsp_su
        else:
            ns = (
                delays.dsp_add if held_before or not multiplied
                else delays.dsp_to_m if to_m else delays.dsp_multiply
            )  # fmt: skip
            if held_before or (multiplied and to_m) or to_p:
                found.capture[pin] = ns
            else:
                found.arcs += _all(_only(inputs, [pin]), _only(outputs, sums), ns)
    inner = any(_is_on(parameters, name) for name in ("AREG", "BREG", "CREG", "DREG"))
    late = delays.dsp_p_cq if to_p else delays.dsp_m_cq if to_m else delays.dsp_multiply if inner else None
    for pin in outputs:
        if pin not in sums:
            found.launch[pin] = delays.dsp_p_cq
        elif late is not None:
            found.launch[pin] = late
    return found
