"""LUT and flip-flops of a Config: counts of what the RTL builds, times weights fitted on whole designs.

Each module of the RTL has *terms*: how much of something it holds (bits of a multiplexer, of a queue, lanes), read off
``hw/rtl``. A module's LUT and FF are the amounts times weights. The weights, which differ by FPGA family, are in
``data/area.json``, written by ``make calibrate`` (``bench/calibration.py``) with the error on designs left
out of the fit.
"""

from __future__ import annotations

import json
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


def terms(config: Config) -> dict[str, tuple[float, ...]]:
    """Terms of every module of ``hw/rtl``; an amount of 1 that stands first is the module's constant."""
    c = config
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
    pick_unit = unit * mux_luts(row_units)
    pick_segment = 64 * mux_luts(c.segments)
    # a bit's choice among three writers is one LUT6 if two more can tell it that the first one writes to this bank: by
    # half of that writer's enables and the bank's bits of the address each; else Yosys spends a second LUT on speed
    enables = 4 * act_parts * c.out_units
    joined = enables // 2 + bits_for(c.acc_banks) <= 6
    return {
        "alu": (1, lanes, 8 * lanes * mux_luts(c.in_units), addresses),
        "alu.lane": (lanes, lanes * int(c.float32_scaling)),
        "control": (1, c.segments),
        "dispatch": (1, queued * lut_ram(c.queue_depth), queued),
        "fetch": (
            1, granule * fetch_banks * lut_ram(c.fetch_beats * c.bus_bits // granule // fetch_banks),
            word * mux_luts(fetch_banks),
        ),
        "gemm": (
            1, plain * window, packed * window, vector, acc_row, acc_row * (c.out_units > 1), pick_unit, addresses,
        ),
        # one output of its own: sums of four products, the sum's tree, its register, and the registers of a multiplier,
        # all of which DSP48E1 takes; two outputs that share multipliers likewise, with both weights made one operand,
        # last: which is in no DSP48E1 if images share it
        "gemm.dot": (
            plain * taps / 4 * (w + 10), plain * dots * (groups - 1) * (w + 11), plain * dots * (w + 10 + levels),
            plain * taps * (w + 8), packed * taps, packed * taps * w, packed * dots * (groups - 1), packed * dots,
            packed * dots * pair_registers, packed * taps * min(32, w + 25),
            packed * (c.batch > 1) * taps // c.batch * w,
        ),
        "issue": (1, c.token_depth.bit_length()),
        "load": (1, pick_segment, sram_bits(c)),
        "load_data": (1, queued * lut_ram(c.outstanding + 2), queued, c.bus_bits, sram_bits(c)),
        "memories": (
            1, 8 * lanes * c.act_banks + acc_row * c.acc_banks,
            act_row * mux_luts(c.act_banks) + acc_row * mux_luts(c.acc_banks), acc_row * c.acc_banks * (not joined),
            act_row * c.act_banks + acc_row * c.acc_banks, 8 * c.wgt_entry_bytes,
            102 * c.block_out * lut_ram(c.prm_entries), 102 * c.block_out, (c.act_banks + c.acc_banks) * addresses / 2,
            c.act_banks * act_parts * row_units + 4 * c.acc_banks * act_parts * c.out_units,
            c.wgt_entry_bytes // c.beat_bytes, lanes,
        ),
        "read_channel": (1, c.outstanding.bit_length()),
        "store": (1, c.bus_bits, c.bus_bits * mux_luts(act_parts), pick_segment, sram_bits(c)),
        "top": (1, pick_unit),
    }  # fmt: skip


def area(config: Config) -> dict[str, dict[str, float]]:
    """LUT and FF of every module of a Config in the family of its board's part."""
    return weighed(config, fitted(config.board)["weights"])


def weighed(config: Config, weights: Weights) -> dict[str, dict[str, float]]:
    """LUT and FF of every module of a Config by given weights; never below 0."""
    return {
        module: {
            kind: max(0.0, sum(w * t for w, t in zip(weights[module][kind], found, strict=True))) for kind in KINDS
        }
        for module, found in terms(config).items()
    }


def fitted(board: str) -> dict[str, Any]:
    """The fit for the family of a board's part; 7 series for no board.

    ``weights`` by module and kind; ``error``: the ``worst`` and ``mean`` relative one by kind, on designs left out.
    """
    found: dict[str, Any] = _families()[FAMILIES[part_of(board)]]
    return found


@cache
def _families() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(AREA.read_text())
    return found
