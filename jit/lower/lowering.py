"""A graph to nodes: each operator lowers itself; tensors that two consumers want padded with different values are
copied.

A fully connected layer behind a flatten becomes a convolution with the image's size as kernel; the first
convolution on few channels runs on patches that the host packs.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.config import Config
from tilewright.isa.spec import Combine, roundings
from tilewright.jit.defects import why_not
from tilewright.jit.errors import PlaceError
from tilewright.jit.ir.base import Graph, Op, Sliced, requants_of
from tilewright.jit.ir.regions import image_shape
from tilewright.jit.ir.requant import Requant
from tilewright.jit.kernels.base import Node
from tilewright.jit.kernels.elementwise import ElementwiseNode, Term
from tilewright.jit.kernels.window import WindowNode
from tilewright.jit.lower.blocked import Blocked
from tilewright.jit.lower.tensors import Lowered
from tilewright.jit.lower.token_rows import folded, folds
from tilewright.jit.numbers.scales import IDENTITY_SCALE, identity_requant
from tilewright.jit.plan.layout import units_for
from tilewright.runtime.steps import PackStep, TensorSpec

#: Bytes of a tensor in DRAM: all the contiguous memory that PYNQ gives a process by default. Planning takes longer
#: with every row, so what no board holds is not planned.
MOST_BYTES = 1 << 27


class Lowering:
    """Nodes so far, and the tensors on the chip that hold the graph's: what operators work with when they are lowered.

    ``layer`` is the number of the operator that is lowered; ``flat`` has the tensors that are a flattened image, and
    its (H, W, C).
    """

    def __init__(self, sliced: Sliced, config: Config, tiled: bool, joined: bool) -> None:
        self.tiled, self.joined = tiled, joined
        self.sliced, self.graph, self.config = sliced, sliced.graph, config
        self.folds = not tiled and folds(self.graph)
        self.nodes: list[Node] = []
        self.alias: dict[str, str] = {}
        self.specs: dict[str, TensorSpec] = {}
        self.packs: dict[str, PackStep] = {}
        self.blocked: dict[str, Blocked] = {}
        self.copies: set[str] = set()
        self.layer = 0
        self.flat: dict[str, tuple[int, int, int]] = {}

    def run(self) -> Lowered:
        for name in self.graph.inputs:
            self._declare(name, self.graph.tensors[name].shape)
        for op in self.graph.ops:
            self.lower(op)
        if not self.tiled:
            self._separate_pads()
        held = {t for n in self.nodes for t in [*n.inputs, n.output]}
        outputs = {t: [self.resolve(t)] for t in self.graph.tensors if self.resolve(t) in held}
        outputs |= {t: [self.resolve(part) for part in parts] for t, parts in self.sliced.parts.items()}
        rows_inputs = [t for t in self.graph.inputs if t in held]
        weights = [b.tensor for b in self.blocked.values() if not b.packed]
        stored = list(dict.fromkeys([*(self.resolve(t) for t in self.graph.outputs), *weights]))
        copies = frozenset(self.copies)
        if not self.tiled:
            reads = Counter(t for n in self.nodes for t in n.inputs)
            for node in self.nodes:
                source = node.inputs[0]
                if isinstance(node, WindowNode) and reads[source] == 1 and source not in stored:
                    node.allow_twins(self.specs[source].shape[1])
        return Lowered(
            self.config, self.nodes, self.packs, outputs, self.specs, rows_inputs, stored, self.blocked, copies
        )

    def lower(self, op: Op) -> None:
        """One operator's nodes. Raises :class:`PlaceError`."""
        self.layer = self.sliced.layers[op.name]
        missing = {r.rounding.name for r in requants_of(op) if r.rounding not in roundings(self.config)}
        if missing:
            raise PlaceError(
                f"{op.name}: scales as ONNX Runtime does, in the rounding mode {min(missing)}, which this Config has "
                "not; set float32_scaling = true"
            )
        try:
            op.lower(self)
        except PlaceError as error:
            shape = self.graph.tensors[op.inputs[0]].shape
            message = str(error)
            prefix = "" if message.startswith(op.name) else f"{op.name}: "
            raise PlaceError(f"{prefix}{message} (input {'x'.join(map(str, shape))})") from error

    def refusals(self) -> dict[str, PlaceError]:
        """Operators that no rule can place, each by itself, and why."""
        found: dict[str, PlaceError] = {}
        for op in self.graph.ops:
            try:
                for name in (*op.inputs, *op.outputs):
                    self._declare(name, self.graph.tensors[name].shape)
                if op.refusable:
                    self.lower(op)
            except Exception as error:  # noqa: BLE001 - why_not() raises or reports all but refusals
                reason = why_not(error, op.name)
                if op.refusable:
                    found[op.name] = error if isinstance(error, PlaceError) else PlaceError(f"{op.name}: {reason}")
        return found

    # -- names -----------------------------------------------------------------------------------------

    def resolve(self, name: str) -> str:
        """The on-chip tensor that holds a graph tensor."""
        return self.alias.get(name, name)

    def spec(self, name: str) -> TensorSpec:
        """On-chip spec, shape (1, H, W, C)."""
        return self.specs[self.resolve(name)]

    def _declare(self, name: str, shape: tuple[int, ...]) -> TensorSpec:
        old = self.graph.tensors.get(name)
        zero, scale = (old.zero_point, old.scale) if old else (0, 1.0)
        image = self.image(shape)
        stored = math.prod(image[:3]) * units_for(image[3], self.config) * self.config.lanes
        if stored > MOST_BYTES:
            raise PlaceError(f"tensor {name!r} takes {stored:,} bytes in DRAM; at most {MOST_BYTES:,} are planned")
        self.specs[name] = TensorSpec(name, image, "int8", scale, zero)
        return self.specs[name]

    def image(self, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
        """A tensor's shape on the chip."""
        return folded(image_shape(shape)) if self.folds else image_shape(shape)

    def output(self, op: Op) -> TensorSpec:
        """Declare an operator's output."""
        return self._declare(op.output, self.graph.tensors[op.output].shape)

    def require_whole(self, op: Op, channels: int) -> None:
        """Raises :class:`PlaceError` for channels beside others that are no whole vectors."""
        block = self.config.widest_block
        if channels % block:
            raise PlaceError(f"{op.name}: {channels} channels beside others are no whole vectors of {block}")

    # -- nodes -----------------------------------------------------------------------------------------

    def window(
        self, op: Op, out: TensorSpec, taps: NDArray[np.int8], requants: dict[int, Requant], counts: NDArray[np.int64],
        strides: tuple[int, int], dilation_y: int, pad: tuple[int, int, int, int], pad_constant: int,
    ) -> None:  # fmt: skip
        """Append a node of windows over single channels."""
        self.nodes.append(
            WindowNode(
                name=op.name, layer=self.layer, config=self.config, inputs=[self.resolve(op.inputs[0])],
                output=op.output, out=out, taps=taps, requants=requants, counts=counts, strides=strides,
                dilation_y=dilation_y, pad=pad, pad_constant=pad_constant,
            )
        )  # fmt: skip

    def elementwise(
        self, op: Op, inputs: list[str], out: TensorSpec, terms: list[Term], requant: Requant, suffix: str = "",
        channels: int = 0, **extra: Any,
    ) -> None:  # fmt: skip
        """Append a node of ALU work."""
        self.nodes.append(
            ElementwiseNode(
                name=op.name + suffix, layer=self.layer, config=self.config, inputs=[self.resolve(t) for t in inputs],
                output=op.output, out=out, terms=terms, requant=requant, channels=channels or out.shape[3], **extra,
            )
        )  # fmt: skip

    # -- buffers ---------------------------------------------------------------------------------------

    def _separate_pads(self) -> None:
        """Give consumers that want another padding value than the first one their own copy."""
        reads = Counter(t for n in self.nodes for t in n.inputs)
        for name in [name for name in self.specs if reads[name] > 1]:
            values = [(n, k, n.pad_value(k)) for n in self.nodes for k, t in enumerate(n.inputs) if t == name]
            wanted = list(dict.fromkeys(v for _, _, v in values if v is not None))
            for value in wanted[1:]:
                copy = f"{name}.pad{value}"
                spec = TensorSpec(copy, self.specs[name].shape, "int8")
                self.specs[copy] = spec
                self.copies.add(copy)
                users = [(n, k) for n, k, v in values if v == value]
                node = ElementwiseNode(
                    name=copy, layer=users[0][0].layer, config=self.config, inputs=[name], output=copy, out=spec,
                    terms=[Term(0, IDENTITY_SCALE, Combine.WRITE)], requant=identity_requant(spec.shape[3]),
                    channels=spec.shape[3],
                )  # fmt: skip
                self.nodes.insert(self.nodes.index(users[0][0]), node)
                for user, k in users:
                    user.inputs[k] = copy


def lower(graph: Graph | Sliced, config: Config, tiled: bool = False, joined: bool = False) -> Lowered:
    """Lower a graph of accelerator operators (or a sliced one), no tensor going through DRAM.

    ``tiled``: for the tiled plan, which pads each patch as it loads it and needs no copies for that.
    ``joined``: parts of concatenations are written in place where they can be, without a copy.
    Raises :class:`PlaceError` for the first operator that cannot be placed.
    """
    return Lowering(graph if isinstance(graph, Sliced) else _whole(graph), config, tiled, joined).run()


def refusals(graph: Graph, config: Config) -> dict[str, PlaceError]:
    """Why operators have no lowering, by name. Operators of the host are left out."""
    return Lowering(_whole(graph), config, tiled=False, joined=False).refusals()


def _whole(graph: Graph) -> Sliced:
    return Sliced(graph, {}, {op.name: index for index, op in enumerate(graph.ops)})
