"""Every path of a mapped design from register to register: the clock, and the worst path of each pair of units."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tilewright.hw.timing.cells import CellTiming, UnknownCell, cell_timing
from tilewright.hw.timing.delays import DELAYS
from tilewright.hw.timing.graph import Graph
from tilewright.hw.timing.netlist import PORTS, Cell, Netlist, NetlistError

#: ns of a net: short to long. Clocks are judged at the last but one
NETS = (0.45, 0.60, 0.75, 0.90)
JUDGED = 0.75
#: ns of a net to one pin, and more for each doubling of its pins: least squares over the 39 nets, 0.75 ns on average,
#: of four longest paths that Vivado routed on 7 series of grade 1: one of a SHA-256 core on a Zynq, three of VexiiRiscv
#: systems on an Artix, as published on GitHub
NET_TO_ONE, PER_DOUBLING = 0.66, 0.044
#: "driver.pin sink.pin" joined by a wire of their own, or inside one slice: no net to cross
_DEDICATED = re.compile(
    r"CARRY4\.CO CARRY4\.CI|DSP48E[12]\.([ABP])COUT DSP48E[12]\.\1CIN|\S+ MUXF[789]\.I[01]|CARRY4\.(CO|O) FD.E\.D"
)


@dataclass(frozen=True)
class WorstPath:
    """The latest path from one unit to another at :data:`JUDGED` ns a net."""

    start: str  #: the unit, and the net or cell within
    end: str
    from_unit: str
    to_unit: str
    ns: float
    logic: float  #: ns of it in cells
    nets: int
    levels: int  #: LUTs and multiplexers
    carries: int


@dataclass(frozen=True)
class Timing:
    """``ns`` by net delay (two decimals), ``by_loads`` with nets by how many pins they go to, and the worst paths."""

    ns: dict[str, float]
    by_loads: float
    paths: list[WorstPath]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a report."""
        return asdict(self)

    @property
    def judged(self) -> float:
        """ns of the worst path at :data:`JUDGED` ns a net."""
        return self.ns[f"{JUDGED:.2f}"]


def analyse(netlist: Netlist, family: str, nets: Sequence[float] = NETS) -> Timing:
    """Time every path of a design whose cells are of a family of :data:`DELAYS`.

    Paths start and end at registers, memories and ports. Placement and skew are not in it, nor paths inside a cell.
    Raises :class:`NetlistError` for a combinational loop, a type of cell without delays, or if no path is there.
    """
    return _Analysis(netlist, family).timing(nets)


def _loads(netlist: Netlist) -> Counter[int]:
    """Pins that each net goes to, ports included."""
    bits = (bit for cell in netlist.cells for pin in cell.inputs.values() for bit in pin)
    return Counter(bit for bit in (*bits, *(bit for _, bit in netlist.ports("output"))) if isinstance(bit, int))


def _net_ns(loads: np.ndarray) -> np.ndarray:
    """ns of nets by the pins that they go to."""
    return NET_TO_ONE + PER_DOUBLING * np.log2(loads)


class _Analysis:
    def __init__(self, netlist: Netlist, family: str) -> None:
        self.netlist, self.delays = netlist, DELAYS[family]
        self.numbers: dict[int, int] = {}  #: of nets, as they come
        self.units: dict[str, int] = {}
        self.driver = {
            bit: (cell, pin)
            for cell in netlist.cells for pin, bits in cell.outputs.items() for bit in bits if isinstance(bit, int)
        }  # fmt: skip
        self.loads = _loads(netlist)
        self.launches: list[tuple[int, int, float]] = []  # net, unit, ns
        self.captures: list[tuple[int, int, float, int, str]] = []  # net, unit, ns, nets crossed, name
        arcs: list[tuple[int, int, float, int]] = []  # net, net, ns, nets crossed
        ports = self._unit(PORTS)
        # a port without a pin of the processor is the reset, which comes from a register
        port = self.delays.port
        self.launches += [
            (self._net(bit), ports, self.delays.ff_cq if (ns := port(name, "input")) is None else ns)
            for name, bit in netlist.ports("input")
        ]
        for cell in netlist.cells:
            timing = self._cell_timing(cell)
            if timing.launch or timing.capture:
                self._ends(cell, timing)
            for pin, i, sink, k, ns in timing.arcs:
                a, b = cell.inputs[pin][i], cell.outputs[sink][k]
                if isinstance(a, int) and isinstance(b, int):
                    arcs.append((self._net(a), self._net(b), ns, self._crosses(a, cell, pin)))
        self.captures += [
            (self._net(bit), ports, port(name, "output") or 0.0, 1, name) for name, bit in netlist.ports("output")
        ]
        if not self.launches or not self.captures:
            raise NetlistError("the design has no path: nothing starts one, or nothing ends one")
        columns = list(zip(*arcs)) or [(), (), (), ()]
        self.raw = list(self.numbers)
        self.graph = Graph(
            len(self.raw),
            np.array(columns[0], np.int64), np.array(columns[1], np.int64),
            np.array(columns[2], np.float64), np.array(columns[3], np.int64),
            np.array([self.loads[self.raw[number]] for number in columns[0]], np.int64),
            lambda number: self._name(self.raw[number]),
        )  # fmt: skip
        self.start = np.full((len(self.raw), len(self.units)), -np.inf)
        for number, unit, ns in self.launches:
            self.start[number, unit] = max(self.start[number, unit], ns)

    def timing(self, nets: Sequence[float]) -> Timing:
        worst = {}
        graph, hops = self.graph, np.array([capture[3] for capture in self.captures])
        for net in sorted({*nets, JUDGED}):
            delay = graph.logic + net * graph.hops
            when = graph.arrivals(self.start, delay)
            at_ends = self._at_ends(when, net * hops)
            worst[f"{net:.2f}"] = round(float(at_ends.max()), 3)
            if net == JUDGED:
                paths = self._paths(when, delay, at_ends)
        loads = np.array([self.loads[self.raw[capture[0]]] for capture in self.captures])
        when = graph.arrivals(self.start, graph.logic + _net_ns(graph.loads) * graph.hops)
        by_loads = round(float(self._at_ends(when, _net_ns(loads) * hops).max()), 3)
        return Timing(worst, by_loads, paths)

    def _at_ends(self, when: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Arrivals by starting unit at the registers' inputs, behind the ``last`` net and with setup."""
        numbers = [capture[0] for capture in self.captures]
        return when[numbers] + (np.array([capture[2] for capture in self.captures]) + last)[:, None]

    def _paths(self, when: np.ndarray, delay: np.ndarray, at_ends: np.ndarray) -> list[WorstPath]:
        owner = np.array([capture[1] for capture in self.captures])
        found = []
        for end in np.unique(owner):
            rows = np.flatnonzero(owner == end)
            for unit, row in enumerate(rows[at_ends[rows].argmax(axis=0)]):
                if at_ends[row, unit] > 0:
                    found.append(self._path(unit, int(row), when, delay, float(at_ends[row, unit])))
        return sorted(found, key=lambda path: (-path.ns, path.from_unit, path.to_unit))

    def _path(self, unit: int, row: int, when: np.ndarray, delay: np.ndarray, ns: float) -> WorstPath:
        number, end, _, last, name = self.captures[row]
        path, hops = self.graph.trace(number, unit, self.start, when, delay)
        kinds = [self.driver[self.raw[n]][0].kind for n in path[1:]]
        names = list(self.units)
        carries = kinds.count("CARRY4")
        return WorstPath(
            self._name(self.raw[path[0]]), name, names[unit], names[end], round(ns, 3),
            round(ns - (hops + last) * JUDGED, 3), hops + last,
            len(kinds) - carries - sum(kind.startswith("DSP") for kind in kinds), carries,
        )  # fmt: skip

    def _cell_timing(self, cell: Cell) -> CellTiming:
        inputs, outputs = ({pin: len(bits) for pin, bits in side.items()} for side in (cell.inputs, cell.outputs))
        try:
            return cell_timing(cell.kind, cell.parameters, inputs, outputs, self.delays)
        except UnknownCell as error:
            raise NetlistError(f"{cell.name}: no delays of a cell {error} are known") from error

    def _ends(self, cell: Cell, timing: CellTiming) -> None:
        unit = self._unit(self.netlist.unit(cell))
        label = self.netlist.describe(cell)[0]
        for pin, ns in timing.launch.items():
            self.launches += [(self._net(bit), unit, ns) for bit in cell.outputs[pin] if isinstance(bit, int)]
        for pin, ns in timing.capture.items():
            self.captures += [
                (self._net(bit), unit, ns, self._crosses(bit, cell, pin), f"{label}.{pin}")
                for bit in cell.inputs[pin] if isinstance(bit, int)
            ]  # fmt: skip

    def _crosses(self, bit: int, cell: Cell, pin: str) -> int:
        driver, out = self.driver.get(bit, (None, ""))
        return int(driver is None or not _DEDICATED.fullmatch(f"{driver.kind}.{out} {cell.kind}.{pin}"))

    def _name(self, bit: int) -> str:
        cell, pin = self.driver.get(bit, (None, ""))
        if cell is not None and cell.kind.startswith(("RA", "DS", "SRL")):
            return f"{self.netlist.describe(cell)[0]}.{pin}"
        return self.netlist.names.get(bit, [f"net {bit}"])[0]

    def _net(self, bit: int) -> int:
        return self.numbers.setdefault(bit, len(self.numbers))

    def _unit(self, name: str) -> int:
        return self.units.setdefault(name, len(self.units))
