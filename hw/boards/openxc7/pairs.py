"""DSP slices in pairs: nextpnr-xilinx puts one without a cascade into the lower half of a tile, half of the places.

A cascade stands in neighbouring slices, so two slices are joined by one that neither looks at: PCOUT of the first to
PCIN of the second, whose OPMODE takes C or nothing in its place. What the slices compute is what it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SLICE = "DSP48E1"
CASCADES = (
    "ACIN",
    "BCIN",
    "PCIN",
    "CARRYCASCIN",
    "MULTSIGNIN",
    "ACOUT",
    "BCOUT",
    "PCOUT",
    "CARRYCASCOUT",
    "MULTSIGNOUT",
)
WIDTH = 48
_IGNORES_PCIN = (["0", "0", "0"], ["1", "1", "0"])  #: OPMODE[6:4], the lowest bit first: Z is 0, or C


def pair_slices(source: Path, target: Path) -> int:
    """Write a netlist of Yosys with its free DSP slices in pairs; how many pairs were made.

    A slice and the one that its sum goes to make a pair where they can.
    """
    written = json.loads(source.read_text())
    pairs = 0
    for module in written["modules"].values():
        free = {name: cell for name, cell in module["cells"].items() if cell["type"] == SLICE and not _cascaded(cell)}
        bit = 1 + max((b for net in module["netnames"].values() for b in net["bits"] if isinstance(b, int)), default=1)
        for first, second in _pairs(free):
            bits = list(range(bit, bit + WIDTH))
            bit += WIDTH
            for name, pin, direction in ((first, "PCOUT", "output"), (second, "PCIN", "input")):
                module["cells"][name]["connections"][pin] = bits
                module["cells"][name]["port_directions"][pin] = direction
            module["netnames"][f"pair_{pairs}"] = {"hide_name": 0, "bits": bits, "attributes": {}}
            pairs += 1
    target.write_text(json.dumps(written))
    return pairs


def _cascaded(cell: Mapping[str, Any]) -> bool:
    pins = cell["connections"]
    return any(isinstance(bit, int) for name in CASCADES for bit in pins.get(name, ()))


def _pairs(free: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    driver = {
        bit: name for name, cell in free.items() for bit in cell["connections"].get("P", ()) if isinstance(bit, int)
    }
    left = dict.fromkeys(free)  # in order
    found: list[tuple[str, str]] = []

    def take(first: str, second: str) -> None:
        found.append((first, second))
        del left[first], left[second]

    for name, cell in free.items():
        if name in left and _may_be_second(cell):
            before = [
                driver[bit] for bit in cell["connections"].get("C", ()) if driver.get(bit) in left.keys() - {name}
            ]
            if before:
                take(before[0], name)
    for name in list(left):
        second = next((n for n in left if n != name and _may_be_second(free[n])), None) if name in left else None
        if second is not None:
            take(name, second)
    return found


def _may_be_second(cell: Mapping[str, Any]) -> bool:
    return cell["connections"]["OPMODE"][4:7] in _IGNORES_PCIN
