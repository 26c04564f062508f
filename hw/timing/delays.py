"""Delays of the parts' cells in nanoseconds, slowest speed grade, by Yosys' name of the family.

``xc7``: Artix-7 and Zynq-7000, rounded from the SDF files of Project X-Ray. ``xcup``: Zynq UltraScale+, from Vivado's
routed timing reports of an XCZU3EG of grade 1 that were published with Lakeroad's evaluation (what nine in ten of the
cells seen keep to, and no setup below 0), with a block RAM's from another design's report of grade 2, a sixth added.
The cells in no such report (LUT RAM, shift registers, a RAM's inputs and output register, a DSP slice's outer
registers) are 0.72 of ``xc7``, as the periods of DSP slices in the data sheets are (DS187: 464 MHz, DS925: 645 MHz).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Delays:
    """``_cq``: from the clock to an output; ``_su``: setup; others: through the cell."""

    lut: float
    muxf: float  #: MUXF7, MUXF8, MUXF9
    ff_cq: float
    ff_su: float
    ff_control_su: float  #: clock enable, set, reset
    carry_in: float  #: DI, S or CYINIT to any output
    carry_chain: float  #: CI to CO
    carry_out: float  #: CI to O
    bram_cq: float
    bram_register_cq: float  #: with the RAM's output register
    bram_su: float
    lutram_read: float  #: address to output
    lutram_cq: float  #: written data to output
    lutram_su: float
    srl_cq: float
    dsp_p_cq: float  #: from register P
    dsp_m_cq: float  #: from register M, through the adder
    dsp_su: float  #: of an input with a register
    dsp_to_m: float  #: from an input without one through the multiplier to register M
    dsp_multiply: float  #: ... or on to P
    dsp_add: float  #: C or PCIN to P; through the pre-adder


DELAYS = {
    "xc7": Delays(
        lut=0.124, muxf=0.25, ff_cq=0.46, ff_su=0.06, ff_control_su=0.20,
        carry_in=0.55, carry_chain=0.12, carry_out=0.25,
        bram_cq=2.45, bram_register_cq=0.88, bram_su=0.60,
        lutram_read=0.30, lutram_cq=1.30, lutram_su=0.40, srl_cq=1.60,
        dsp_p_cq=0.43, dsp_m_cq=2.00, dsp_su=0.50, dsp_to_m=2.60, dsp_multiply=3.90, dsp_add=1.30,
    ),
    "xcup": Delays(
        lut=0.18, muxf=0.08, ff_cq=0.10, ff_su=0.03, ff_control_su=0.0,
        carry_in=0.30, carry_chain=0.03, carry_out=0.15,
        bram_cq=0.97, bram_register_cq=0.63, bram_su=0.43,
        lutram_read=0.22, lutram_cq=0.94, lutram_su=0.29, srl_cq=1.15,
        dsp_p_cq=0.31, dsp_m_cq=0.98, dsp_su=0.36, dsp_to_m=1.02, dsp_multiply=1.92, dsp_add=0.84,
    ),
}  # fmt: skip
