"""Cycles of a network on a Config without compiling it: the explorer's first fidelity.

A row-level model of the four engines (:mod:`tilewright.dse.timeline`) over tables of layers
(:mod:`tilewright.dse.lowering`), with the same decisions as the compiler: networks that stream through act as a whole
are tried with the same kinds of schedule, larger ones follow a plan (:mod:`tilewright.dse.plan`). What the model
leaves out is written in ``docs/explorer.md``, with its measured error. The second fidelity is the compiler and the
cycle simulator: :func:`simulated_cycles`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.dse import arrays as a
from tilewright.dse import buffers as b
from tilewright.dse import lowering as n
from tilewright.dse import plan as p
from tilewright.dse import timeline as t
from tilewright.dse.arrays import compiled, config_array, network_arrays
from tilewright.dse.buffers import room_for
from tilewright.dse.lowering import lowered
from tilewright.dse.shapes import NetworkShape
from tilewright.isa.timing import DONE_LATENCY
from tilewright.jit.actions import Policy
from tilewright.jit.capacity import INPUT_LEAD
from tilewright.jit.compiler import compile_graph
from tilewright.jit.graph import Graph
from tilewright.jit.kernels.base import PlaceError
from tilewright.jit.programs import CONSTANT_SHARES, PLANNED
from tilewright.sim import simulate_timing

#: a subset of the compiler's policies: the others are seldom best by more than a percent
SCHEDULES = (Policy(False, 0.25, 2), Policy(False, 0.25, 8), Policy(True, 0.5, 8))
#: spare rows tried when rings do not fit, from the policy's down
_TIGHTER = (8, 4, 2, 1, 0)
_ALL_ROWS = 1 << 30
_STUCK = {t.STUCK_WGT: ("wgt", "wgt_bytes"), t.STUCK_PRM: ("prm", "prm_entries")}


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


class Estimate:
    """Estimated cycles of a network, what keeps each engine busy, and which tensors go through DRAM."""

    def __init__(self, model: _Model, cycles: float, busy: NDArray[np.float64]) -> None:
        self.cycles = int(cycles) + DONE_LATENCY
        #: cycles of LOAD, GEMM, ALU, STORE
        self.busy = dict(zip(("LOAD", "GEMM", "ALU", "STORE"), busy.astype(np.int64).tolist(), strict=True))
        self._model = model

    @property
    def shape(self) -> NetworkShape:
        """The network that was estimated."""
        return self._model.shape

    @cached_property
    def layers(self) -> tuple[LayerEstimate, ...]:
        """What each layer asks for, in the network's order."""
        return self._model.layers()

    @cached_property
    def spilled(self) -> tuple[str, ...]:
        """Tensors that go through DRAM, by name; ``t.alu``: only what ALU reads of tensor t."""
        return self._model.spilled()


def estimate(shape: NetworkShape, config: Config, policies: tuple[Policy, ...] = SCHEDULES) -> Estimate:
    """The model's cycles with the best of ``policies``, which only networks that stream as a whole have use for.

    Raises :class:`PlaceError` naming memory, layer and amounts if the network cannot run.
    """
    model = _Model(shape, config)
    cycles = model.streaming(policies)
    if cycles is None:
        cycles = model.planned()
    return Estimate(model, cycles, model.busy)


def simulated_cycles(graph: Graph, config: Config) -> int:
    """Cycles of the compiled network on the cycle simulator. Raises :class:`PlaceError` if it does not fit."""
    return sum(simulate_timing(program).cycles for program in compile_graph(graph, config).programs)


class _Model:
    """One network on one Config."""

    def __init__(self, shape: NetworkShape, config: Config) -> None:
        self.shape, self.config = shape, config
        self.network, self.c = network_arrays(shape), config_array(config)
        self.nodes = lowered(shape, self.network, self.c)
        self.bound = room_for(self.network)
        self.spills = np.zeros(len(self.network.tensors), np.int64)
        self.busy = np.zeros(4)
        self.count = 0

    def streaming(self, policies: tuple[Policy, ...]) -> float | None:
        """Cycles of the best policy's schedule if the whole network streams; None if it does not."""
        network, bound = self.network, self.bound
        self.count, least = stream_rings(
            network.layers, network.edges, network.tensors, self.nodes, self.c, network.lags, self.spills,
            bound.buffers, bound.edge_buffer, bound.outputs, bound.windows, bound.readers,
        )  # fmt: skip
        if self._run(Policy(), planned=False)[0] != t.OK:
            return None
        best, best_busy = np.inf, self.busy
        for policy in policies:
            slack = _ALL_ROWS if policy.slack is None else policy.slack
            for spare in (slack, *(s for s in _TIGHTER if s < slack)):
                set_slack(bound.buffers[: self.count], least, spare)
                state, _, cycles = self._run(policy, planned=False)
                if state == t.OK:
                    if cycles < best:
                        best, best_busy = cycles, self.busy.copy()
                    break
        self.busy = best_busy
        return best

    def planned(self) -> float:
        """Cycles of a network that is cut into groups. Raises :class:`PlaceError`."""
        network, bound = self.network, self.bound
        group_of, policy = np.zeros(len(network.layers), np.int64), PLANNED[0]
        assert policy.slack is not None
        state, stuck = t.OK, 0
        for share in CONSTANT_SHARES:
            self.count, _, missing = p.make_plan(
                network.layers, network.edges, network.tensors, self.nodes, self.c, network.lags, share,
                policy.slack, self.spills, bound.buffers, bound.edge_buffer, bound.outputs, bound.windows,
                bound.readers, group_of,
            )  # fmt: skip
            if missing:
                raise self._act_failure(int(group_of[0]), int(missing))
            state, stuck, cycles = self._run(policy, planned=True)
            if state == t.OK:
                return cycles
        memory, parameter = _STUCK.get(state, ("act", "act_bytes"))
        raise PlaceError(
            f"{self.shape.layers[stuck].name}: its constants do not fit {memory} beside those of the layers still "
            f"running; raise {parameter}"
        )

    def _run(self, policy: Policy, planned: bool) -> tuple[int, int, float]:
        network, bound = self.network, self.bound
        state, layer, cycles = t.run_timeline(
            network.layers, network.edges, self.nodes, self.c, bound.buffers[: self.count], bound.edge_buffer,
            bound.outputs, bound.windows, bound.readers, planned, policy.deep, policy.constant_share, self.busy,
        )  # fmt: skip
        return int(state), int(layer), float(cycles)

    def _act_failure(self, group: int, missing: int) -> PlaceError:
        """What does not fit, where, and the way out."""
        buffers = self.bound.buffers[: self.count]
        live = buffers[(buffers[:, b.B_GROUP] <= group) & (buffers[:, b.B_LAST_GROUP] >= group)]
        sizes = live[:, b.B_CAPACITY] * live[:, b.B_UNITS]
        users = sorted({int(row[b.B_USER]) for row in live})
        held = ", ".join(
            f"{self.network.names[live[k, b.B_TENSOR]]} ({live[k, b.B_CAPACITY]} rows of {live[k, b.B_UNITS]} units)"
            for k in np.argsort(-sizes, kind="stable")[:4]
        )
        there = self.config.act_units
        return PlaceError(
            f"{', '.join(self.shape.layers[k].name for k in users)}: the rows of one task take {there + missing} units "
            f"of act, there are {there} ({self.config.act_bytes} bytes); the largest are {held}; raise act_bytes"
        )

    def layers(self) -> tuple[LayerEstimate, ...]:
        """What each layer asks for, as the network was bound last."""
        demand = np.zeros((len(self.nodes), 3))
        bound = self.bound
        layer_demand(
            self.network.layers, self.nodes, self.c, bound.buffers, bound.edge_buffer, bound.outputs, demand
        )  # fmt: skip
        return tuple(
            LayerEstimate(layer.name, *(round(v) for v in row))
            for layer, row in zip(self.shape.layers, demand.tolist(), strict=True)
        )

    def spilled(self) -> tuple[str, ...]:
        """Names of the tensors that go through DRAM."""
        marks = {b.SPILLED: "", b.ALU_SPILLED: ".alu"}
        return tuple(sorted(self.network.names[k] + marks[s] for k, s in enumerate(self.spills.tolist()) if s))


@compiled
def stream_rings(
    layers: Any, edges: Any, tensors: Any, nodes: Any, c: Any, lags: Any, spills: Any, buffers: Any, edge_buffer: Any,
    outputs: Any, windows: Any, readers: Any,
) -> tuple[int, Any]:  # fmt: skip
    """Binds with nothing in DRAM and every ring at its least; returns (buffers, their least rows)."""
    count = b.bind_buffers(
        layers, edges, tensors, nodes, c, spills, buffers, edge_buffer, outputs, windows, readers
    )  # fmt: skip
    window = p.window_rows(nodes, edges, buffers, edge_buffer, windows)
    least = np.empty(count, np.int64)
    for k in range(count):
        least[k] = p.least_rows(buffers[k], 0, len(layers) - 1, layers, nodes, edges, readers, window, lags)
        buffers[k, b.B_CAPACITY] = least[k]
        buffers[k, b.B_GROUP] = 0
    return count, least


@compiled
def set_slack(buffers: Any, least: Any, spare: int) -> None:
    """Rings of ``spare`` rows beyond the least."""
    for k in range(len(buffers)):
        more = min(spare, INPUT_LEAD) if buffers[k, b.B_LOADED] else spare
        buffers[k, b.B_CAPACITY] = min(buffers[k, b.B_ROWS], least[k] + more)


@compiled
def layer_demand(layers: Any, nodes: Any, c: Any, buffers: Any, edge_buffer: Any, outputs: Any, demand: Any) -> None:
    """Fills demand[layer] with cycles of array, ALU and bus."""
    for layer in range(len(layers)):
        node = nodes[layer]
        vectors, pieces = node[n.N_VECTORS], node[n.N_PIECES]
        parts = pieces * -(-vectors // (pieces * node[n.N_ROOM]))
        results = 1 if outputs[layer, 1] < 0 else 2
        work = vectors * node[n.N_GEMM_EACH] + parts * node[n.N_GEMM_FIXED]
        demand[layer, 0] = node[n.N_HEIGHT] * work if node[n.N_GEMM] else 0
        demand[layer, 1] = node[n.N_HEIGHT] * vectors * (node[n.N_TERMS_EACH] + results * node[n.N_OUT_EACH])
        for chunk in range(pieces):
            wgt, prm = t.chunk_size(node, chunk)
            cost = t.transfer_cycles(wgt * c[a.C_WGT_BYTES], c) + t.transfer_cycles(prm * c[a.C_PRM_BYTES], c)
            demand[layer, 2] += cost * max(1, node[n.N_GROUPS])
        for e in range(layers[layer, a.L_EDGE], layers[layer, a.L_EDGE] + layers[layer, a.L_EDGES]):
            row = buffers[edge_buffer[e]]
            if row[b.B_LOADED]:
                demand[layer, 2] += row[b.B_ROWS] * t.transfer_cycles(row[b.B_UNITS] * c[a.C_ACT_BYTES], c)
