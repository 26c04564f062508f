"""Cycles of a network on a Config without compiling it: what a plan costs, and the least over plans.

A row-level model of the four engines (:mod:`tilewright.jit.cost.timeline`) runs over the plan's tables, or those of its
tiles. Left out are the places of buffers, replacement of micro-ops, tokens and queues; instruction fetch is a share of
the bus, and fewer schedules are tried than by the compiler. ``docs/explorer.md`` has the measured error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import PARAMETERS, Config
from tilewright.isa.timing import DONE_LATENCY
from tilewright.jit.cost.state import STUCK_PRM, STUCK_WGT, Work, chunk_size, transfer_cycles
from tilewright.jit.cost.timeline import OK, run_timeline
from tilewright.jit.errors import PlaceError
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.native import compiled
from tilewright.jit.plan.network import NetworkTables
from tilewright.jit.plan.planner import Plan, Planner
from tilewright.jit.plan.policy import BEST, CONSTANT_SHARES, PLANNED, STEEP, Policy
from tilewright.jit.plan.refusal import Refusal

#: a subset of the compiler's policies: the others are seldom best by more than a percent
SCHEDULES = (Policy(False, 0.25, 2), Policy(False, 0.25, 8), Policy(True, 0.5, 8))
#: spare rows tried when rings do not fit, from the policy's down
_TIGHTER = (8, 4, 2, 1, 0)
_ALL_ROWS = 1 << 30
_STUCK = {STUCK_WGT: ("wgt", "wgt_bytes"), STUCK_PRM: ("prm", "prm_entries")}


@dataclass(frozen=True)
class Demand:
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
    """Estimated cycles of a plan, and the cycles that keep each engine (LOAD, GEMM, ALU, STORE) busy."""

    plan: Plan
    cycles: int
    busy: dict[str, int]

    @cached_property
    def layers(self) -> tuple[Demand, ...]:
        """What each layer asks for, in the network's order."""
        plan = self.plan
        demand = np.zeros((len(plan.nodes), 3))
        _demand(
            plan.network.layers, plan.nodes, plan.c, plan.bound.buffers, plan.bound.edge_buffer, plan.bound.outputs,
            demand,
        )  # fmt: skip
        return tuple(
            Demand(name, *(round(v) for v in row))
            for name, row in zip(plan.network.names, demand.tolist(), strict=True)
        )

    @cached_property
    def spilled(self) -> tuple[str, ...]:
        """Tensors that go through DRAM, by name; ``t.alu``: only what ALU reads of tensor t."""
        marks = {b.SPILLED: "", b.ALU_SPILLED: ".alu"}
        names = self.plan.network.tensor_names
        return tuple(sorted(names[k] + marks[s] for k, s in enumerate(self.plan.spills.tolist()) if s))


def run(plan: Plan, policy: Policy) -> Estimate | Refusal:
    """What a plan costs with a policy, or the memory for want of which it ends nowhere."""
    network, bound, busy = plan.network, plan.bound, np.zeros(4)
    work = Work(
        network.layers, network.edges, network.makers, plan.nodes, plan.c, bound.buffers, bound.edge_buffer,
        bound.outputs, bound.readers,
    )  # fmt: skip
    state, layer, cycles = run_timeline(work, plan.groups > 0, policy.deep, policy.constant_share, busy)
    if state != OK:
        memory, parameter = _STUCK.get(state, ("act", "act_bytes"))
        reason = f"its constants do not fit {memory} beside those of the layers still running; raise {parameter}"
        return Refusal(network.names[layer], memory, 0, 0, reason)
    return Estimate(plan, int(cycles) + DONE_LATENCY, _busy(busy))


def _busy(cycles: NDArray[np.float64]) -> dict[str, int]:
    return dict(zip(("LOAD", "GEMM", "ALU", "STORE"), cycles.astype(np.int64).tolist(), strict=True))


def estimate(network: NetworkTables, config: Config, policies: Sequence[Policy] = SCHEDULES) -> Estimate:
    """The model's cycles with the best of ``policies``, which only networks that stream as a whole have use for.

    Raises :class:`PlaceError` naming memory, layer and amounts if the network cannot run.
    """
    planner = Planner(network, config)
    found = streaming(planner, policies) or grouped(planner)
    if isinstance(found, Refusal):
        raise PlaceError(str(found))
    return found


def streams(planner: Planner) -> bool:
    """Whether the network streams through act as a whole, with no more than the least of every ring."""
    least = planner.whole()
    if isinstance(least, Refusal):
        return False
    rings = least.bound.buffers[:, b.B_CAPACITY] * least.bound.buffers[:, b.B_UNITS]
    fits = int(rings.sum()) <= planner.config.act_units and streams_constants(least)
    return fits or isinstance(run(least, Policy()), Estimate)


def streams_constants(plan: Plan) -> bool:
    """Whether all constants lie in wgt and prm together, so that no layer waits for another's room."""
    nodes = plan.nodes
    repeats = np.maximum(1, nodes[:, t.N_GROUPS])
    wgt = (nodes[:, t.N_VECTORS] * nodes[:, t.N_WGT_EACH] + nodes[:, t.N_PIECES] * nodes[:, t.N_WGT_FIXED]) * repeats
    prm = (nodes[:, t.N_VECTORS] * nodes[:, t.N_PRM_EACH] + nodes[:, t.N_PIECES] * nodes[:, t.N_PRM_FIXED]) * repeats
    return bool(wgt.sum() <= plan.c[t.C_WGT] and prm.sum() <= plan.c[t.C_PRM])


def streaming(planner: Planner, policies: Sequence[Policy]) -> Estimate | None:
    """The best policy's estimate if the network streams as a whole; None if it does not."""
    if not streams(planner):
        return None
    best: Estimate | None = None
    fastest = policies[0]
    for policy in policies:
        found = _streamed(planner, policy)
        if found is not None and (best is None or found.cycles < best.cycles):
            best, fastest = found, policy
    if policies == SCHEDULES and best is not None and best.cycles > BEST * max(best.busy.values()):
        return _of_less_prm(planner, fastest, best)
    return best


def _of_less_prm(planner: Planner, policy: Policy, best: Estimate) -> Estimate:
    """The least over plans for less and less of prm, whose chunks of constants are smaller, so that the array works
    earlier: as the compiler tries them."""
    nodes, entries = best.plan.nodes, planner.config.prm_entries
    while entries > PARAMETERS["prm_entries"].low:
        entries //= 2
        smaller = Planner(planner.network, planner.config, prm=entries)
        if isinstance(smaller.nodes, Refusal):
            break
        if np.array_equal(smaller.nodes, nodes):
            continue
        nodes, found = smaller.nodes, _streamed(smaller, policy)
        if found is None or found.cycles > STEEP * best.cycles:
            break
        best = min(best, found, key=lambda each: each.cycles)
    return best


def _streamed(planner: Planner, policy: Policy) -> Estimate | None:
    """The estimate of one policy, with as many spare rows as it asks for, or as there is room for."""
    slack = _ALL_ROWS if policy.slack is None else policy.slack
    for spare in (slack, *(s for s in _TIGHTER if s < slack)):
        plan = planner.whole(spare)
        found = run(plan, policy) if isinstance(plan, Plan) else plan
        if isinstance(found, Estimate):
            return found
    return None


def grouped(planner: Planner) -> Estimate | Refusal:
    """The estimate of a network that is cut into groups, or why it cannot be."""
    policy, found = PLANNED, None
    assert policy.slack is not None
    for share in CONSTANT_SHARES:
        plan = planner.grouped(share, policy.slack)
        if isinstance(plan, Refusal):
            return plan
        found = run(plan, policy)
        if isinstance(found, Estimate):
            return found
    assert found is not None
    return found


@compiled
def _demand(layers: Any, nodes: Any, c: Any, buffers: Any, edge_buffer: Any, outputs: Any, demand: Any) -> None:
    """Fills demand[layer] with cycles of array, ALU and bus."""
    for layer in range(len(layers)):
        node = nodes[layer]
        vectors, pieces = node[t.N_VECTORS], node[t.N_PIECES]
        parts = pieces * -(-vectors // (pieces * node[t.N_ROOM]))
        results = 1 if outputs[layer, 1] < 0 else 2
        work = vectors * node[t.N_GEMM_EACH] + parts * node[t.N_GEMM_FIXED]
        tasks = -(-node[t.N_HEIGHT] // node[t.N_ROWS])
        demand[layer, 0] = tasks * work - vectors * node[t.N_LESS] if node[t.N_GEMM] else 0
        demand[layer, 1] = node[t.N_HEIGHT] * vectors * (node[t.N_TERMS_EACH] + results * node[t.N_OUT_EACH])
        for chunk in range(pieces):
            wgt, prm = chunk_size(node, chunk)
            cost = transfer_cycles(wgt * c[t.C_WGT_BYTES], c)
            cost += transfer_cycles(prm * c[t.C_PRM_BYTES], c)
            demand[layer, 2] += cost * max(1, node[t.N_GROUPS])
        for e in range(layers[layer, t.L_EDGE], layers[layer, t.L_EDGE] + layers[layer, t.L_EDGES]):
            row = buffers[edge_buffer[e]]
            if row[b.B_LOADED]:
                demand[layer, 2] += row[b.B_ROWS] * transfer_cycles(row[b.B_UNITS] * c[t.C_ACT_BYTES], c)
