"""Delays of the parts' cells in nanoseconds, slowest speed grade, by Yosys' name of the family.

``xc7``: Artix-7 and Zynq-7000, from Project X-Ray's SDF files (github.com/f4pga/prjxray-db, ``zynq7/timings``), slow
corner. LUT6, CARRY4 and SELMUX2_1 of ``CLBLL_L.sdf`` and ``CLBLM_L.sdf`` are rounded, as a pin's place in its slice is
not known; so are LUT_OR_MEM's and RAMBFIFO36E1's (``BRAM_L.sdf``). A flip-flop's includes the way out of its slice. DSP
slices (:mod:`dsp48`) and the processor's pins (:mod:`ps7`) are pin by pin.

``xcup``: Zynq UltraScale+, from Vivado's routed timing reports of an XCZU3EG of grade 1 that were published with
Lakeroad's evaluation (what nine in ten of the cells seen keep to, and no setup below 0), with a block RAM's from
another design's report of grade 2, a sixth added. The cells in no such report (LUT RAM, shift registers, a RAM's
inputs and output register, a DSP slice's outer registers) are 0.72 of ``xc7``, as the periods of DSP slices in the
data sheets are (DS187: 464 MHz, DS925: 645 MHz). Of the processor's pins nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.hw.timing import dsp48, ps7
from tilewright.hw.timing.dsp48 import SliceDelays


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
    dsp: SliceDelays
    port: Callable[[str, str], float | None]  #: of what is behind a port of the top module: :func:`ps7.port_delay`


def _unknown(name: str, direction: str) -> float | None:
    return None


DELAYS = {
    "xc7": Delays(
        lut=0.124, muxf=0.25, ff_cq=0.46, ff_su=0.06, ff_control_su=0.20,
        carry_in=0.55, carry_chain=0.12, carry_out=0.25,
        bram_cq=2.45, bram_register_cq=0.88, bram_su=0.60,
        lutram_read=0.30, lutram_cq=1.30, lutram_su=0.40, srl_cq=1.60,
        dsp=dsp48.XC7, port=ps7.port_delay,
    ),
    "xcup": Delays(
        lut=0.18, muxf=0.08, ff_cq=0.10, ff_su=0.03, ff_control_su=0.0,
        carry_in=0.30, carry_chain=0.03, carry_out=0.15,
        bram_cq=0.97, bram_register_cq=0.63, bram_su=0.43,
        lutram_read=0.22, lutram_cq=0.94, lutram_su=0.29, srl_cq=1.15,
        dsp=dsp48.coarse(setup=0.36, control=0.0, product=1.02, multiplied=1.92, direct=0.84, m_cq=0.98, p_cq=0.31),
        port=_unknown,
    ),
}  # fmt: skip
