"""Cycles of a network on a Config without compiling it: the explorer's first fidelity.

A row-level model of the four engines (:mod:`tilewright.dse.timeline`) over tables of tasks
(:mod:`tilewright.dse.tables`), tried with the same kinds of schedule as the compiler tries. What it leaves out
is written in ``docs/explorer.md``, with its measured error. The second fidelity is the compiler and the cycle
simulator: :func:`simulated_cycles`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.config import Config
from tilewright.dse import timeline as t
from tilewright.dse.shapes import NetworkShape
from tilewright.dse.tables import BufferRow, NodeRow, build
from tilewright.isa.spec import instruction_width
from tilewright.isa.timing import DONE_LATENCY, LOAD_SETUP
from tilewright.jit.compiler import compile_graph
from tilewright.jit.graph import Graph
from tilewright.jit.kernels.base import PlaceError
from tilewright.sim import simulate_timing

#: (deep, share of the bus for constants, spare rows of rings); a subset of the compiler's policies
SCHEDULES = ((False, 0.25, 2), (False, 0.25, 8), (True, 0.5, 8))
#: spare rows tried when rings do not fit, from the compiler's choice down
_TIGHTER = (4, 2, 1, 0)
_MOST_SPILLS = 200
_FEW = 3  #: layers worked on at once where more do not fit; at last one
_INPUT_LEAD = 4
_STUCK = {t.STUCK_ACT: ("act", "act_bytes"), t.STUCK_WGT: ("wgt", "wgt_bytes"), t.STUCK_PRM: ("prm", "prm_entries")}


@dataclass(frozen=True)
class LayerEstimate:
    """What one layer asks of each resource, in cycles."""

    name: str
    array: int
    alu: int
    bus: int

    @property
    def bound(self) -> str:
        """The resource that takes longest: array, alu or bus."""
        return max(("array", "alu", "bus"), key=lambda k: getattr(self, k))


@dataclass(frozen=True)
class Estimate:
    """Estimated cycles of a network, what keeps each engine busy, and which tensors go through DRAM."""

    cycles: int
    busy: dict[str, int]  #: cycles of LOAD, GEMM, ALU, STORE
    layers: tuple[LayerEstimate, ...]
    spilled: tuple[str, ...] = ()


def estimate(shape: NetworkShape, config: Config) -> Estimate:
    """The model's cycles. Raises :class:`PlaceError` naming memory, layer and amounts if the network cannot run."""
    nodes, buffers = build(shape, config)
    _check_least(nodes, buffers, config)
    model = _Model(shape, config)
    result = model.run(nodes, buffers)
    spilled: frozenset[str] = frozenset()
    ahead = t.FAR
    while result is None:
        choice = model.choose_spill(spilled)
        if choice is None or len(spilled) == _MOST_SPILLS:
            if ahead == 1:
                raise model.failure()
            ahead = 1 if ahead == _FEW else _FEW
        else:
            spilled |= {choice}
            nodes, buffers = build(shape, config, spilled)
        result = model.run(nodes, buffers, ahead)
    cycles, busy = result
    engines = dict(zip(("LOAD", "GEMM", "ALU", "STORE"), (int(v) for v in busy), strict=True))
    layers = tuple(_layer(node, buffers, config) for node in nodes)
    return Estimate(int(cycles) + DONE_LATENCY, engines, layers, tuple(sorted(spilled)))


def simulated_cycles(graph: Graph, config: Config) -> int:
    """Cycles of the compiled network on the cycle simulator. Raises :class:`PlaceError` if it does not fit."""
    return sum(simulate_timing(program).cycles for program in compile_graph(graph, config).programs)


class _Model:
    def __init__(self, shape: NetworkShape, config: Config) -> None:
        self.shape, self.config = shape, config
        self.state = t.OK
        self.held: list[BufferRow] = []

    def run(
        self, nodes: list[NodeRow], buffers: list[BufferRow], ahead: int = t.FAR
    ) -> tuple[float, np.ndarray] | None:
        """The best schedule's cycles and busy times; None if none fits."""
        tables = _Tables(nodes, buffers, self.shape, self.config)
        best: tuple[float, np.ndarray] | None = None
        for deep, share, slack in SCHEDULES:
            for spare in (slack, *(s for s in _TIGHTER if s < slack)):
                self._set_capacities(buffers, tables, spare)
                busy, held = np.zeros(4), np.zeros(len(buffers), np.bool_)
                self.state, cycles = tables.run(self.config, deep, share, ahead, held, busy)
                self.held = [buffers[b] for b in np.nonzero(held)[0]]
                if self.state == t.OK:
                    if best is None or cycles < best[0]:
                        best = cycles, busy
                    break
            else:
                return best
        return best

    def _set_capacities(self, buffers: list[BufferRow], tables: _Tables, spare: int) -> None:
        for number, row in enumerate(buffers):
            more = min(spare, _INPUT_LEAD) if row.loaded else spare
            row.capacity = min(row.rows, row.least + more)
            tables.buffers[number, t.B_CAPACITY] = row.capacity

    def choose_spill(self, spilled: frozenset[str]) -> str | None:
        """The largest tensor in the way that can go through DRAM."""
        made = {layer.output for layer in self.shape.layers}
        sizes = {b.name.removesuffix(".alu"): b.least * b.row_units for b in self.held}
        choices = {n: s for n, s in sizes.items() if n in made and n not in spilled and n not in self.shape.outputs}
        return max(choices, key=choices.__getitem__, default=None)

    def failure(self) -> PlaceError:
        """The named reason of the last attempt."""
        memory, parameter = _STUCK[self.state]
        need = sum(b.least * b.row_units for b in self.held)
        names = ", ".join(b.name for b in sorted(self.held, key=lambda b: -b.least * b.row_units)[:4])
        if memory == "act":
            return PlaceError(
                f"act: {need} units are needed at once by {names}, there are {self.config.act_units}; raise act_bytes"
            )
        return PlaceError(f"{memory}: the constants of the layers that run at once do not fit; raise {parameter}")


class _Tables:
    """The kernel's arguments."""

    def __init__(self, nodes: list[NodeRow], buffers: list[BufferRow], shape: NetworkShape, config: Config) -> None:
        transfer = _Transfer(config)
        node_rows: list[tuple[int, ...]] = []
        parts: list[tuple[int, ...]] = []
        chunks: list[tuple[int, int, int]] = []
        edges: list[tuple[int, int, int, int, int]] = []
        times = 0
        size = instruction_width(config) / 8 / config.beat_bytes
        for number, node in enumerate(nodes):
            count = len(node.chunks) * max(1, node.groups)
            node_rows.append(
                (node.layer.height, len(parts), len(node.parts), len(chunks), len(node.chunks), node.groups,
                 len(edges), len(node.edges), node.output, node.twin, node.gemm, times)
            )  # fmt: skip
            times += count
            fetched = node.gemm_instructions + node.layer.terms + 1 + (node.twin >= 0)
            parts += [(*part, round(1024 * size * fetched)) for part in node.parts]
            for wgt, prm, uops in node.chunks:
                bus = transfer(wgt * config.wgt_entry_bytes) + transfer(prm * config.prm_entry_bytes) + transfer(uops)
                chunks.append((wgt, prm, round(bus + 2 * size)))
            edges += [(number, *edge) for edge in node.edges]
        order = sorted(range(len(edges)), key=lambda e: edges[e][1])
        self.times = times
        unit, first, buffer_rows, position = config.act_unit_bytes, 0, [], 0
        sources = {row.source for row in buffers}
        for number, row in enumerate(buffers):
            reads = sum(edge[1] == number for edge in edges)
            load = round(transfer(row.row_units * unit) + size)
            stored = row.row_units * unit / config.beat_bytes + size
            buffer_rows.append(
                (row.height, row.top, row.rows, row.row_units, row.capacity, row.loaded, row.stored, row.source, load,
                 round(stored), first, first + row.rows, position, reads, number in sources)
            )  # fmt: skip
            first, position = first + row.rows, position + reads
        self.rows = first
        self.nodes, self.parts = t.int_table(node_rows, 12), t.int_table(parts, 5)
        self.chunks, self.edges = t.int_table(chunks, 3), t.int_table(edges, 5)
        self.buffers, self.readers = t.int_table(buffer_rows, 15), np.array(order, np.int64)

    def run(
        self, config: Config, deep: bool, share: float, ahead: int, held: np.ndarray, busy: np.ndarray
    ) -> tuple[int, float]:
        """One schedule: (state, cycles)."""
        start = config.dram_latency + instruction_width(config) / 8 / config.beat_bytes + LOAD_SETUP
        state, cycles = t.run_timeline(
            self.nodes, self.parts, self.chunks, self.edges, self.buffers, self.readers, config.act_units,
            config.wgt_entries, config.prm_entries, config.acc_banks, deep, share, ahead, float(config.dram_latency),
            start, np.empty(self.times), np.zeros(self.rows), held, busy,
        )  # fmt: skip
        return int(state), float(cycles)


class _Transfer:
    """Bus cycles of a transfer: its beats, its requests, or the latency that outstanding bursts leave uncovered."""

    def __init__(self, config: Config) -> None:
        self.beat, self.burst = config.beat_bytes, config.burst_beats
        self.latency, self.outstanding = config.dram_latency, config.outstanding

    def __call__(self, size: int) -> float:
        if size <= 0:
            return 0.0
        beats = -(-size // self.beat)
        bursts = -(-beats // self.burst)
        covered = bursts * (self.latency + min(beats, self.burst)) / self.outstanding
        return max(float(beats), bursts + LOAD_SETUP + 1.0, covered)


def _layer(node: NodeRow, buffers: list[BufferRow], config: Config) -> LayerEstimate:
    transfer = _Transfer(config)
    outputs = 1 + (node.twin >= 0)
    bus = sum(
        transfer(wgt * config.wgt_entry_bytes) + transfer(prm * config.prm_entry_bytes)
        for wgt, prm, _ in node.chunks * max(1, node.groups)
    )
    for number in {edge[0] for edge in node.edges}:
        if buffers[number].loaded:
            bus += buffers[number].rows * transfer(buffers[number].row_units * config.act_unit_bytes)
    height = node.layer.height
    return LayerEstimate(
        node.layer.name,
        height * sum(part[1] for part in node.parts),
        height * sum(part[2] + part[3] * outputs for part in node.parts),
        round(bus),
    )


def _check_least(nodes: list[NodeRow], buffers: list[BufferRow], config: Config) -> None:
    """A layer's own rows and constants must fit, whatever goes through DRAM."""
    for node in nodes:
        for wgt, prm, _ in node.chunks:
            if wgt > config.wgt_entries:
                raise PlaceError(
                    f"{node.layer.name}: {wgt} weight blocks exceed wgt ({config.wgt_entries}); raise wgt_bytes"
                )
            if prm > config.prm_entries:
                raise PlaceError(f"{node.layer.name}: {prm} prm entries exceed {config.prm_entries}; raise prm_entries")
        need = sum((edge[3]) * buffers[edge[0]].row_units for edge in node.edges)
        need += buffers[node.output].row_units
        if need > config.act_units:
            raise PlaceError(
                f"{node.layer.name}: the rows of one task take {need} units of act, there are {config.act_units} "
                f"({config.act_bytes} bytes); raise act_bytes"
            )
