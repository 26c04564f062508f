"""LUT and flip-flops of a Config: counts of what the RTL builds, times weights fitted on Yosys runs.

Each module of the RTL has *terms*: how much of something it holds (bits of a multiplexer, of a queue, lanes), read off
``hw/rtl``. A module's LUT and FF are the amounts times weights. The weights, which differ by FPGA family, are in
``data/area.json``, written by ``make calibrate`` (``bench/calibration.py``) with the error on Configs left
out of the fit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from math import gcd
from pathlib import Path
from typing import Any

from tilewright.config import Config
from tilewright.hw.parts import FAMILIES, part_of
from tilewright.isa.registers import TAG_BITS
from tilewright.isa.spec import (
    FORMATS,
    HEADER,
    acc_bits,
    act_bits,
    bits_for,
    instruction_width,
    sram_bits,
)

AREA = Path(__file__).resolve().parent / "data" / "area.json"
KINDS = ("lut", "ff")
Weights = dict[str, dict[str, list[float]]]  #: of a family: one per term, by module and kind

#: LUTs per bit of an n:1 multiplexer: a LUT6 is 4:1, and one more 2:1 or 4:1 of those; ABC does not look for MUXF7
_MUX = {1: 0, 2: 1, 4: 1, 8: 3, 16: 5, 32: 11, 64: 21, 128: 43}


def mux_luts(ways: int) -> int:
    """LUTs per bit of a multiplexer of 2^n ways."""
    return _MUX[min(128, ways)]


def lut_ram(depth: int) -> float:
    """LUTs per bit of a LUT RAM with one write and one read port: RAM32M, RAM64M, RAM128X1D, RAM256X1D."""
    if depth <= 32:
        return 4 / 6
    return 4 / 3 if depth <= 64 else 4.0 * -(-depth // 128)


@lru_cache(maxsize=1024)
def _format_bits(config: Config) -> tuple[int, ...]:
    header = sum(field.bits(config) for field in HEADER)
    return tuple(header + sum(field.bits(config) for field in fmt.fields) for fmt in FORMATS)


@dataclass(frozen=True)
class Term:
    """How much of something a module holds, and the LUTs and flip-flops of one by the RTL's own account."""

    amount: float
    lut: float = 0.0
    ff: float = 0.0


def terms(config: Config) -> dict[str, tuple[Term, ...]]:
    """Terms of every module, named as in the reports of :mod:`tilewright.hw.synthesis`.

    An amount of 1 that stands first is the module's constant, which the fit alone decides.
    """
    c = config
    one = Term(1)
    lanes = c.batch * c.block_out
    row_units = max(c.in_units, c.out_units)
    unit, vector, acc_row = 8 * c.act_unit_bytes, 8 * c.batch * c.block_in, 32 * lanes
    act_row = unit * row_units
    packed, w = int(c.dsp_packing), c.weight_bits
    plain = 1 - packed
    window = vector * c.lanes
    dots = lanes // 2 if packed else lanes
    taps = dots * c.block_in
    groups = c.block_in // 4
    levels = groups.bit_length() - 1
    # one group's sum waits in a shift register of LUTs; the other output's has a multiplexer on its way
    pair_registers = 36 * groups + 4 * (18 + levels) if groups > 1 else 3 * 18
    queued = max(_format_bits(c)) + TAG_BITS
    word = instruction_width(c)
    act_parts = c.act_unit_bytes // c.beat_bytes
    granule = gcd(word, c.bus_bits)
    per_row = max(word, c.bus_bits) // granule
    fetch_banks = 1 << bits_for(per_row) if per_row > 1 else 1
    addresses = act_bits(c) + acc_bits(c)
    pick_unit = Term(unit * mux_luts(row_units), 1)
    pick_segment = Term(64 * mux_luts(c.segments), 1)
    # a bit's choice among three writers is one LUT6 if two more can tell it that the first one writes to this bank: by
    # half of that writer's enables and the bank's bits of the address each; else Yosys spends a second LUT on speed
    enables = 4 * act_parts * c.out_units
    joined = enables // 2 + bits_for(c.acc_banks) <= 6
    return {
        "alu": (one, Term(lanes, 40, 144), Term(8 * lanes * mux_luts(c.in_units), 1), Term(addresses, 4, 6)),
        "alu.lane": (Term(lanes, 1249, 973),),
        "control": (one, Term(c.segments, 120, 150)),
        "dispatch": (one, Term(queued * lut_ram(c.queue_depth), 4), Term(queued, 4, 4)),
        "fetch": (
            one, Term(granule * fetch_banks * lut_ram(c.fetch_beats * c.bus_bits // granule // fetch_banks), 1),
            Term(word * mux_luts(fetch_banks), 1),
        ),
        "gemm": (
            one, Term(plain * window, 1, 1), Term(packed * window, 0.5, 1.5), Term(vector, 0, 1),
            Term(acc_row, 3, 4), Term(acc_row * (c.out_units > 1), 1), pick_unit, Term(addresses, 10, 8),
        ),
        # one output of its own: sums of four products, the sum's tree, its register, and the registers of a multiplier,
        # all of which DSP48E1 takes; two outputs that share multipliers likewise, with both weights made one operand
        "gemm.dot": (
            Term(plain * taps / 4 * (w + 10), 1, 1), Term(plain * dots * (groups - 1) * (w + 11), 1),
            Term(plain * dots * (w + 10 + levels), 0, 1), Term(plain * taps * (w + 8)),
            Term(packed * taps, 27), Term(packed * taps * w, 1), Term(packed * dots * (groups - 1), 40),
            Term(packed * dots, 18), Term(packed * dots * pair_registers, 0, 1), Term(packed * taps * min(32, w + 25)),
        ),
        "issue": (one, Term(c.token_depth.bit_length(), 24, 12)),
        "load": (one, pick_segment, Term(sram_bits(c), 2, 1)),
        "load_data": (
            one, Term(queued * lut_ram(c.outstanding + 2), 1), Term(queued, 1, 1), Term(c.bus_bits, 0, 2),
            Term(sram_bits(c), 12, 8),
        ),
        "memories": (
            one, Term(8 * lanes * c.act_banks + acc_row * c.acc_banks, 1),
            Term(act_row * mux_luts(c.act_banks) + acc_row * mux_luts(c.acc_banks), 3),
            Term(acc_row * c.acc_banks * (not joined), 1), Term(act_row * c.act_banks + acc_row * c.acc_banks, 0, 1),
            Term(8 * c.wgt_entry_bytes, 0, 1), Term(102 * c.block_out * lut_ram(c.prm_entries), 1),
            Term(102 * c.block_out, 0, 2), Term((c.act_banks + c.acc_banks) * addresses / 2, 2),
            Term(c.act_banks * act_parts * row_units + 4 * c.acc_banks * act_parts * c.out_units, 2),
            Term(c.wgt_entry_bytes // c.beat_bytes, 1),
        ),
        "read_channel": (one, Term(c.outstanding.bit_length(), 4, 3)),
        "store": (
            one, Term(c.bus_bits, 2, 1), Term(c.bus_bits * mux_luts(act_parts), 1), pick_segment,
            Term(sram_bits(c), 20, 12),
        ),
        "top": (one, pick_unit),
    }  # fmt: skip


def area(config: Config) -> dict[str, dict[str, float]]:
    """LUT and FF of every module of a Config in the family of its board's part."""
    return weighed(config, fitted(config.board)["weights"])


def weighed(config: Config, weights: Weights) -> dict[str, dict[str, float]]:
    """LUT and FF of every module of a Config by given weights; never below 0."""
    return {
        module: {
            kind: max(0.0, sum(w * t.amount for w, t in zip(weights[module][kind], found, strict=True)))
            for kind in KINDS
        }
        for module, found in terms(config).items()
    }


def fitted(board: str) -> dict[str, Any]:
    """The fit for the family of a board's part; 7 series for no board.

    ``weights`` by module and kind; ``error``: the ``worst`` and ``mean`` relative one by kind, on Configs left out.
    """
    found: dict[str, Any] = _families()[FAMILIES[part_of(board)]]
    return found


@cache
def _families() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(AREA.read_text())
    return found
