"""What the boards' parts hold: LUT, flip-flops, DSP slices, block RAM in 36 Kbit blocks (AMD DS190, DS891, DS987).

``axi_bits`` is the width of the memory ports to the processor's DRAM (UG585: 64 on Zynq-7000, UG1085: 128 on Zynq
UltraScale+); wider masters would need converters. ``axi_ports`` is how many there are: HP0 to HP3, on UltraScale+ also
HPC0 and HPC1, which pass by the processor's caches for what is not marked to be looked up there.
"""

from __future__ import annotations

from difflib import get_close_matches

PARTS: dict[str, dict[str, int]] = {
    "XC7Z020": {"lut": 53200, "ff": 106400, "dsp": 220, "bram36": 140, "axi_bits": 64, "axi_ports": 4},
    "XCZU3EG": {"lut": 70560, "ff": 141120, "dsp": 360, "bram36": 216, "axi_bits": 128, "axi_ports": 6},
    "XCZU7EV": {"lut": 230400, "ff": 460800, "dsp": 1728, "bram36": 312, "axi_bits": 128, "axi_ports": 6},
    "XCK26": {"lut": 117120, "ff": 234240, "dsp": 1248, "bram36": 144, "axi_bits": 128, "axi_ports": 6},
}

#: part of each board
BOARDS = {
    "pynq-z1": "XC7Z020", "pynq-z2": "XC7Z020", "ultra96": "XCZU3EG", "zcu104": "XCZU7EV", "kv260": "XCK26",
}  # fmt: skip

#: Yosys' name of each part's family
FAMILIES = {"XC7Z020": "xc7", "XCZU3EG": "xcup", "XCZU7EV": "xcup", "XCK26": "xcup"}

DEFAULT_PART = "XC7Z020"  #: of a Config that names no board


def unknown_board(name: str) -> str:
    """What is said of a name that no board has: which there are, and how one is added."""
    near = get_close_matches(name, BOARDS, n=1)
    known = ", ".join(f"{board} ({part})" for board, part in BOARDS.items())
    return (
        f"{name}: no such board; {f'did you mean {near[0]}? The' if near else 'the'} boards are {known}; take one with "
        "the part of yours, or add a file to hw/boards/data, a line to hw/parts.py and a preset"
    )


def part_of(board: str) -> str:
    """The part of a board; :data:`DEFAULT_PART` for none."""
    return BOARDS.get(board, DEFAULT_PART)
