"""Plans: what lies in act and for how long, decided on shapes alone.

A network streams through act as a whole, or it is cut into groups (:mod:`tilewright.jit.plan.groups`) whose tensors go
through DRAM as far as there is no room. Plans know neither constants nor places: what a plan costs is estimated from
its tables (:mod:`tilewright.jit.cost`), and what is emitted from it gets places first
(:mod:`tilewright.jit.plan.places`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.config import Config
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan import tables as t
from tilewright.jit.plan.buffers import Bound, bind_buffers, room_for
from tilewright.jit.plan.cut import cut
from tilewright.jit.plan.groups import group_layers
from tilewright.jit.plan.native import compiled
from tilewright.jit.plan.network import NetworkTables
from tilewright.jit.plan.refusal import Refusal
from tilewright.jit.plan.rings import in_twos, join_lags, least_rows, window_rows
from tilewright.jit.plan.spills import fit_groups
from tilewright.jit.plan.strips import MOST_ROWS
from tilewright.jit.plan.tables import Table, config_table

INPUT_LEAD = 4  #: rows of a network input that may be loaded ahead of need


@dataclass(frozen=True)
class Plan:
    """A network's cut layers and bound buffers. ``groups``: the number of groups, 0 where the network streams whole.

    ``spills`` says for each tensor whether it goes through DRAM.
    """

    network: NetworkTables
    config: Config
    c: Table
    nodes: Table
    bound: Bound
    spills: Table
    groups: int


class Planner:
    """Plans of one network for one Config. ``nodes``: how its layers are cut, or why one is not.

    ``strip``: the most rows that a layer in window mode computes together; ``prm``: entries, where not all there are.
    """

    def __init__(self, network: NetworkTables, config: Config, strip: int = MOST_ROWS, prm: int = 0) -> None:
        self.network, self.config, self.c = network, config, config_table(config, strip)
        self.c[t.C_PRM] = prm or config.prm_entries
        self.nodes = cut(network, self.c)
        self._room = room_for(network)
        self.lags = np.ones((0, 0), np.int64)
        if not isinstance(self.nodes, Refusal):
            self.lags = join_lags(network.layers, network.edges, self.nodes, len(network.tensors))

    def whole(self, slack: int = 0) -> Plan | Refusal:
        """The network streaming as a whole, rings ``slack`` rows longer than the least."""
        if isinstance(self.nodes, Refusal):
            return self.nodes
        n, room = self.network, self._room
        spills = np.zeros(len(n.tensors), np.int64)
        count = _whole(
            n.layers, n.edges, n.tensors, n.makers, self.nodes, self.lags, slack, spills, room.buffers,
            room.edge_buffer, room.outputs, room.readers,
        )  # fmt: skip
        return Plan(n, self.config, self.c, self.nodes, room.first(count), spills, 0)

    def grouped(self, share: float, slack: int, draft: Draft | None = None) -> Plan | Refusal:
        """The network in groups whose constants take at most ``share`` of wgt and of prm.

        ``draft`` keeps the groups and what went through DRAM, and lowers the groups' budgets, from plan to plan.
        """
        if isinstance(self.nodes, Refusal):
            return self.nodes
        n, room = self.network, self._room
        draft = draft or self.draft(share)
        count, group, needed = fit_groups(
            n.layers, n.edges, n.tensors, n.makers, self.nodes, self.c, self.lags, draft.group_of, draft.budget, slack,
            draft.spills, room.buffers, room.edge_buffer, room.outputs, room.readers,
        )  # fmt: skip
        plan = Plan(n, self.config, self.c, self.nodes, room.first(count), draft.spills, len(draft.budget))
        return plan if group < 0 else act_refusal(plan, int(group), int(needed))

    def draft(self, share: float) -> Draft:
        """Groups, with all of act for each and nothing through DRAM yet."""
        assert not isinstance(self.nodes, Refusal)
        n, room = self.network, self._room
        group_of, spills = np.zeros(len(n.layers), np.int64), np.zeros(len(n.tensors), np.int64)
        groups = _groups(
            n.layers, n.edges, n.tensors, n.makers, self.nodes, self.c, self.lags, share, spills, room.buffers,
            room.edge_buffer, room.outputs, room.readers, group_of,
        )  # fmt: skip
        return Draft(group_of, np.full(groups, self.c[t.C_ACT]), spills)


@dataclass(frozen=True)
class Draft:
    """What plans in groups start from: the group of each layer, units of act for each group, and what is in DRAM."""

    group_of: Table
    budget: Table
    spills: Table


def act_refusal(plan: Plan, group: int, needed: int) -> Refusal:
    """A group does not fit act: who needs how much, and the way out."""
    rows = plan.bound.buffers
    live = rows[(rows[:, b.B_GROUP] <= group) & (rows[:, b.B_LAST_GROUP] >= group)]
    sizes = live[:, b.B_CAPACITY] * live[:, b.B_UNITS]
    users = sorted({int(row[b.B_USER]) for row in live})
    held = ", ".join(
        f"{plan.network.tensor_names[live[k, b.B_TENSOR]]} ({live[k, b.B_CAPACITY]} rows of {live[k, b.B_UNITS]} units)"
        for k in np.argsort(-sizes, kind="stable")[:4]
    )
    there = plan.config.act_units
    return Refusal(
        ", ".join(plan.network.names[k] for k in users), "act", needed, there,
        f"{needed} units of act are needed at once, there are {there} ({plan.config.act_bytes} bytes); the largest "
        f"are {held}; raise act_bytes",
    )  # fmt: skip


@compiled
def _whole(
    layers: Any, edges: Any, tensors: Any, makers: Any, nodes: Any, lags: Any, slack: int, spills: Any, buffers: Any,
    edge_buffer: Any, outputs: Any, readers: Any,
) -> int:  # fmt: skip
    """Binds with nothing in DRAM and sets capacities; returns how many buffers there are."""
    count = bind_buffers(layers, edges, tensors, spills, buffers, edge_buffer, outputs, readers)
    window = window_rows(nodes, edges, buffers, edge_buffer)
    for k in range(count):
        row = buffers[k]
        least = least_rows(row, 0, len(layers) - 1, layers, nodes, edges, readers, makers, window, lags)
        more = min(slack, INPUT_LEAD) if row[b.B_LOADED] else slack
        row[b.B_CAPACITY], row[b.B_GROUP], row[b.B_LAST_GROUP] = min(row[b.B_ROWS], in_twos(least + more, row)), 0, 0
    return count


@compiled
def _groups(
    layers: Any, edges: Any, tensors: Any, makers: Any, nodes: Any, c: Any, lags: Any, share: float, spills: Any,
    buffers: Any, edge_buffer: Any, outputs: Any, readers: Any, group_of: Any,
) -> int:  # fmt: skip
    count = bind_buffers(layers, edges, tensors, spills, buffers, edge_buffer, outputs, readers)
    window = window_rows(nodes, edges, buffers, edge_buffer)
    return group_layers(
        layers, nodes, edges, c, buffers[:count], edge_buffer, outputs, readers, makers, window, lags, share, group_of
    )  # fmt: skip
