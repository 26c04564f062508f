"""Which outputs of a design hang on which inputs within a cycle: on Yosys' word-level cells, before mapping."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tilewright.config import Config
from tilewright.hw.timing.whole import run_on_whole

SCRIPT = """\
read_verilog -sv {files}
hierarchy -top {top}
proc
flatten
opt_clean
write_json design.json
"""
REGISTERS = ("$dff", "$sdff", "$adff", "$memwr", "$scopeinfo")
BITWISE = ("$and", "$or", "$xor", "$xnor", "$not", "$mux", "$pmux", "$pos")


def elaborated(config: Config, folder: Path) -> dict[str, Any]:
    """The one module of a Config's design as boards have it."""
    run_on_whole(config, "xc7", SCRIPT, folder)
    modules = json.loads((folder / "design.json").read_text())["modules"].values()
    (top,) = (module for module in modules if "top" in module["attributes"])
    return dict(top)


def combinational(module: dict[str, Any]) -> set[tuple[str, str]]:
    """(input, output) of every path that meets no register. Of arithmetic all bits hang on all others."""
    driver: dict[int, list[int]] = {}  #: bits that a bit hangs on
    for cell in module["cells"].values():
        for pin, bits in cell["connections"].items():
            if cell["port_directions"][pin] == "output":
                nets = [(k, bit) for k, bit in enumerate(bits) if isinstance(bit, int)]
                if cell["type"] in BITWISE:
                    driver |= {bit: _numbers(_sources(cell, k)) for k, bit in nets}
                elif nets:  # all hang on the same, which has a number of its own
                    whole = -nets[0][1]
                    driver |= {bit: [whole] for _, bit in nets} | {whole: _numbers(_sources(cell, 0))}
    reached: dict[int, frozenset[str]] = {
        bit: frozenset({name})
        for name, port in module["ports"].items() if port["direction"] == "input" for bit in port["bits"]
    }  # fmt: skip
    found = set()
    for name, port in module["ports"].items():
        if port["direction"] == "output":
            for bit in port["bits"]:
                found |= {(source, name) for source in _reach(bit, driver, reached)}
    return found


def _reach(bit: int | str, driver: dict[int, list[int]], reached: dict[int, frozenset[str]]) -> frozenset[str]:
    """Inputs that a bit hangs on; ``reached`` keeps what is known."""
    stack = [bit] if isinstance(bit, int) else []
    while stack:
        now = stack[-1]
        sources = driver.get(now, [])
        missing = [source for source in sources if source not in reached] if now not in reached else []
        if missing:
            stack += missing
            continue
        if now not in reached:
            reached[now] = frozenset().union(*(reached[source] for source in sources))
        stack.pop()
    return reached[bit] if isinstance(bit, int) else frozenset()


def _numbers(bits: Iterable[int | str]) -> list[int]:
    """The nets among bits; others are constants."""
    return list({bit for bit in bits if isinstance(bit, int)})


def _sources(cell: dict[str, Any], k: int) -> Iterator[int | str]:
    """Bits that bit k of a cell's output hangs on."""
    kind, pins = cell["type"], cell["connections"]
    inputs = {pin: bits for pin, bits in pins.items() if cell["port_directions"][pin] == "input"}
    if kind.startswith(REGISTERS):
        return
    if kind not in BITWISE:
        for bits in inputs.values():
            yield from bits
        return
    width = len(pins["Y"])
    for pin, bits in inputs.items():
        if pin == "S":
            yield from bits
        elif kind == "$pmux" and pin == "B":
            yield from bits[k::width]
        else:
            yield bits[min(k, len(bits) - 1)]
