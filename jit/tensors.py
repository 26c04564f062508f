"""Nodes to buffers: which tensors act holds, in which form, and which go through DRAM.

Lowering leaves nodes over plain tensors. Here their inputs are bound to buffers: a tensor that goes through
DRAM is read from a copy per consumer, one that both GEMM and ALU read gets a twin. Binding again with other
spills is cheap, so a planner may try many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from tilewright.config import Config
from tilewright.jit.graph import TensorSpec
from tilewright.jit.kernels.base import Node
from tilewright.jit.layout import Buffer, twin, units_for
from tilewright.runtime.steps import PackStep

#: who reads a tensor from DRAM: every consumer, or only those on ALU (which then need no twin)
Spill = Literal["all", "alu"]


@dataclass
class Lowered:
    """Nodes over on-chip tensors, their buffers (capacity not yet chosen), and how inputs are packed."""

    config: Config
    nodes: list[Node]
    packs: dict[str, PackStep]
    outputs: dict[str, list[str]]  #: graph tensor -> the on-chip tensor that holds it, or its slices
    specs: dict[str, TensorSpec]
    rows_inputs: list[str]  #: graph inputs that are packed row by row
    buffers: dict[str, Buffer] = field(default_factory=dict)
    spills: dict[str, str] = field(default_factory=dict)  #: on-chip copy loaded from DRAM -> tensor stored there
    twins: bool = True  #: whether a tensor that both GEMM and ALU read lies in act twice
    _plain: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._plain = [list(node.inputs) for node in self.nodes]
        self.bind({})

    def bind(self, spilled: Mapping[str, Spill]) -> None:
        """Bind the nodes' inputs to buffers, with these tensors going through DRAM."""
        for node, names in zip(self.nodes, self._plain, strict=True):
            node.inputs[:] = names
        self._spill(spilled)
        if self.twins:
            self._add_twins()
        self._make_buffers()
        for name in self.rows_inputs:
            if name in self.buffers:
                self._pack_rows(name, self.buffers[name])

    def _spill(self, spilled: Mapping[str, Spill]) -> None:
        """Consumers of a spilled tensor read a copy of their own, loaded from DRAM."""
        self.spills = {}
        for node in self.nodes:
            for k, tensor in enumerate(node.inputs):
                if spilled.get(tensor) == "all" or (tensor in spilled and not node.uses_gemm):
                    copy = f"{tensor}@{node.name}"
                    self.specs[copy] = replace(self.specs[tensor], name=copy)
                    self.spills[copy] = tensor
                    node.inputs[k] = copy

    def _add_twins(self) -> None:
        """A tensor made on the chip that both GEMM and ALU read gets a twin for ALU."""
        readers: dict[str, list[tuple[Node, int]]] = {}
        for node in self.nodes:
            for k, tensor in enumerate(node.inputs):
                readers.setdefault(tensor, []).append((node, k))
        for name in dict.fromkeys(n.output for n in self.nodes):
            users = readers.get(name, [])
            if len({n.uses_gemm for n, _ in users}) < 2:
                continue
            self.specs[twin(name)] = replace(self.specs[name], name=twin(name))
            for node, k in users:
                if not node.uses_gemm:
                    node.inputs[k] = twin(name)

    def _make_buffers(self) -> None:
        uses: dict[str, list[tuple[Node, int]]] = {}
        for node in self.nodes:
            for k, tensor in enumerate(node.inputs):
                uses.setdefault(tensor, []).append((node, k))
            uses.setdefault(node.output, [])
        self.buffers = {}
        for name, users in uses.items():
            _, height, width, channels = self.specs[name].shape
            pads = [n.padding(k) for n, k in users]
            pad = tuple(max((p[side] for p in pads), default=0) for side in range(4))
            value = next((v for n, k in users if (v := n.pad_value(k)) is not None), 0)
            units = self.packs[name].units if name in self.packs else units_for(channels, self.config)
            self.buffers[name] = Buffer(name, height, width, units, pad, value)  # type: ignore[arg-type]
        for tensor in dict.fromkeys(self.spills.values()):
            copies = [self.buffers[copy] for copy, source in self.spills.items() if source == tensor]
            alike = [self.buffers[tensor], *copies]
            pad = tuple(max(b.pad[side] for b in alike) for side in range(4))
            value = next((b.pad_value for b in alike if any(b.pad)), 0)
            for buffer in alike:
                buffer.pad, buffer.pad_value = pad, value  # type: ignore[assignment]

    def _pack_rows(self, name: str, buffer: Buffer) -> None:
        shape = self.specs[name].shape
        assert len(shape) == 4, "on-chip tensors are images"
        self.packs[name] = PackStep(
            tensor=name, segment=1, shape=shape, lanes=self.config.lanes, units=buffer.units, batch=self.config.batch,
            padding=buffer.pad, pad_value=buffer.pad_value,
        )  # fmt: skip
