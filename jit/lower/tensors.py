"""A lowered network: nodes over plain tensors, which a plan binds to buffers in act."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from tilewright.config import Config
from tilewright.jit.kernels.base import Node
from tilewright.jit.lower.blocked import Blocked
from tilewright.jit.plan import buffers as b
from tilewright.jit.plan.layout import Buffer, duplicate, units_for
from tilewright.jit.plan.network import NetworkTables, network_tables
from tilewright.jit.plan.planner import Plan
from tilewright.runtime.steps import PackStep, TensorSpec


@dataclass
class Lowered:
    """Nodes over on-chip tensors, and how inputs are packed. :meth:`bind` adds buffers, by name."""

    config: Config
    nodes: list[Node]
    packs: dict[str, PackStep]
    outputs: dict[str, list[str]]  #: graph tensor -> the on-chip tensor that holds it, or its slices
    specs: dict[str, TensorSpec]
    rows_inputs: list[str]  #: graph inputs that are packed row by row
    stored: list[str]  #: on-chip tensors that hold the graph's outputs
    blocked: dict[str, Blocked]  #: by name, tensors that are read as weights
    copies: frozenset[str] = frozenset()  #: tensors that are nothing but copies of others, padded otherwise
    buffers: dict[str, Buffer] = field(default_factory=dict)
    spills: dict[str, str] = field(default_factory=dict)  #: on-chip copy loaded from DRAM -> tensor stored there

    def __post_init__(self) -> None:
        self._plain = [list(node.inputs) for node in self.nodes]
        for name in self.rows_inputs:
            self._pack_rows(name, (0, 0, 0, 0), 0)

    def units(self, tensor: str) -> int:
        """Units per pixel of a tensor."""
        if tensor in self.packs:
            return self.packs[tensor].units
        return units_for(self.specs[tensor].shape[-1], self.config)

    @cached_property
    def tensors(self) -> dict[str, tuple[int, int, int]]:
        """(height, width, units per pixel) of each tensor that the nodes read or write, in their order."""
        names = dict.fromkeys(x for node, inputs in zip(self.nodes, self._plain, strict=True)
                              for x in (*inputs, node.output))  # fmt: skip
        return {x: (self.specs[x].shape[1], self.specs[x].shape[2], self.units(x)) for x in names}

    @cached_property
    def tables(self) -> NetworkTables:
        """What a planner needs of the network."""
        return network_tables(self.nodes, self._plain, self.tensors, self.stored)

    def bind(self, plan: Plan) -> None:
        """Cut the nodes as planned and bind their inputs to the plan's buffers (which have no places yet)."""
        network, bound = plan.network, plan.bound
        values: dict[str, int] = {}
        for node, inputs, row in zip(self.nodes, self._plain, plan.nodes, strict=True):
            node.cut(row)
            for k, tensor in enumerate(inputs):
                value = node.pad_value(k)
                if value is not None:
                    values.setdefault(tensor, value)
        self.buffers, self.spills = {}, {}
        names: list[str] = []
        for row in bound.buffers.tolist():
            tensor = network.tensor_names[row[b.B_TENSOR]]
            name = _name(tensor, row[b.B_KIND], network.names[row[b.B_USER]])
            pad: tuple[int, int, int, int] = tuple(row[b.B_TOP : b.B_RIGHT + 1])
            _, width, units = self.tensors[tensor]
            self.buffers[name] = Buffer(
                name,
                row[b.B_HEIGHT],
                width,
                units,
                pad,
                values.get(tensor, 0),
                row[b.B_CAPACITY],
                step=row[b.B_STEP],
            )
            names.append(name)
            if row[b.B_KIND] == b.COPY:
                self.spills[name] = tensor
        edge = iter(bound.edge_buffer.tolist())
        for node in self.nodes:
            node.inputs[:] = [names[next(edge)] for _ in node.inputs]
        for name in self.rows_inputs:
            self._pack_rows(name, self.buffers[name].pad, self.buffers[name].pad_value)

    def unbind(self) -> None:
        """Nodes over plain tensors again."""
        for node, inputs in zip(self.nodes, self._plain, strict=True):
            node.inputs[:] = inputs

    def _pack_rows(self, name: str, padding: tuple[int, int, int, int], value: int) -> None:
        shape = self.specs[name].shape
        if len(shape) != 4:
            raise AssertionError(f"{name}: on-chip tensors are images, not of shape {shape}")
        self.packs[name] = PackStep(
            tensor=name, segment=1, shape=shape, lanes=self.config.lanes,
            units=units_for(shape[3], self.config), batch=self.config.batch, padding=padding, pad_value=value,
        )  # fmt: skip


def _name(tensor: str, kind: int, reader: str) -> str:
    """A buffer's name: the tensor's for the first buffer that holds it."""
    return {b.PLAIN: tensor, b.DUPLICATE: duplicate(tensor), b.COPY: f"{tensor}@{reader}"}[kind]
