"""A flattened, mapped design as Yosys writes it (``write_json``): cells, nets, and the unit that each belongs to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tilewright.errors import TilewrightError

#: parts of a unit that are large enough to be told apart
PARTS = re.compile(r"(alu\.lane|gemm\.array|control\.counters)[^.]*")
PORTS = "ports"  #: the unit of the design's own ports
WRAPPED = "accelerator."  #: where the units are in a top module that converts their control port
_UNIT_OF_FILE = {"alu_lane": "alu.lane", "array": "gemm.array", "counters": "control.counters",
                 "tally": "control.counters", "trace": "control.counters"}  # fmt: skip
_SOURCE = re.compile(r"hw/rtl/(\w+)\.py")
_NOTES = frozenset({"$scopeinfo"})  #: cells that are none of the part's


class NetlistError(TilewrightError):
    """Not a design that can be timed."""


@dataclass(frozen=True)
class Cell:
    """One cell; a pin is a list of bits: a net's number, or a constant as text."""

    name: str
    kind: str
    parameters: Mapping[str, str]
    inputs: Mapping[str, list[int | str]]
    outputs: Mapping[str, list[int | str]]
    source: str  #: of the RTL's files, the one that it comes from; empty if none is known


class Netlist:
    """The one module of a flattened design. Raises :class:`NetlistError` if there are more."""

    def __init__(self, written: Mapping[str, Any], origin: str = "netlist") -> None:
        library = {"blackbox", "whitebox"}
        modules = [m for m in written["modules"].values() if not m.get("attributes", {}).keys() & library]
        if len(modules) != 1:
            raise NetlistError(f"{origin}: {len(modules)} modules; the design must be flattened and mapped")
        self._module = modules[0]
        self.cells = [_cell(name, c) for name, c in self._module["cells"].items() if c["type"] not in _NOTES]

    @classmethod
    def load(cls, path: Path) -> Netlist:
        """Read a file of ``write_json``."""
        return cls(json.loads(path.read_text()), str(path))

    def ports(self, direction: str) -> Iterator[tuple[str, int]]:
        """Name and net of each bit of the ports of a direction."""
        for name, port in self._module["ports"].items():
            if port["direction"] == direction:
                for k, bit in enumerate(port["bits"]):
                    if isinstance(bit, int):
                        yield (f"{name}[{k}]" if len(port["bits"]) > 1 else name), bit

    @cached_property
    def names(self) -> dict[int, list[str]]:
        """The names of each net, with index: those that people gave first, the shortest of them first."""
        found: dict[int, list[tuple[bool, int, str]]] = {}
        for name, net in self._module["netnames"].items():
            plain = _plain(name)
            rank = bool(net.get("hide_name", 0))
            for k, bit in enumerate(net["bits"]):
                if isinstance(bit, int):
                    text = f"{plain}[{k}]" if len(net["bits"]) > 1 else plain
                    found.setdefault(bit, []).append((rank or "$" in plain, len(text), text))
        return {bit: [text for *_, text in sorted(names)] for bit, names in found.items()}

    def unit(self, cell: Cell) -> str:
        """The unit of a cell: an engine, or one of :data:`PARTS`.

        A net that leaves a unit has a name in each that it reaches; the file that the cell comes from decides.
        """
        paths = [name for name in self.describe(cell) if "." in name and not name.startswith("$")]
        firsts = [re.split(r"[.$]", name)[0] for name in paths]
        for name, first in zip(paths, firsts):
            if first == cell.source or cell.source not in firsts:
                part = PARTS.match(name)
                return part.group(1) if part else first
        return _UNIT_OF_FILE.get(cell.source, cell.source) or "top"

    def describe(self, cell: Cell) -> list[str]:
        """Names for a cell, the best first: its own if a person gave it, else those of the nets that it drives."""
        own = _plain(cell.name)
        own = re.sub(r"\.?\$.*", "", own.removeprefix("$flatten")) if own.startswith("$flatten") else own
        if own and not own.startswith("$"):
            return [own]
        return [name for bits in cell.outputs.values() for bit in bits if isinstance(bit, int)
                for name in self.names.get(bit, ())] or [cell.name]  # fmt: skip


def _plain(name: str) -> str:
    """A name as if the accelerator were the top module."""
    plain = name.replace("\\", "")
    flattened = "$flatten" if plain.startswith("$flatten") else ""
    return flattened + plain.removeprefix(flattened).removeprefix(WRAPPED)


def _cell(name: str, written: Mapping[str, Any]) -> Cell:
    directions = written["port_directions"]
    pins = {side: {p: bits for p, bits in written["connections"].items() if (directions[p] == "input") == side}
            for side in (True, False)}  # fmt: skip
    source = _SOURCE.search(written.get("attributes", {}).get("src", ""))
    return Cell(
        name, written["type"], written["parameters"], pins[True], pins[False], source.group(1) if source else ""
    )
