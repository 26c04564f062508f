"""What every operator of the integer graph declares, and the graph.

An operator is one class in one file of this package: its meaning, the rows and channels it reads, what is known of its
channels, its lowering, its step on the host, its multiply-accumulates. Passes ask the operator; none has a table of
operators of its own. ``docs/architecture.md`` says how to add one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import PlaceError
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.facts import Facts
from tilewright.jit.ir.regions import Range, Sides, Uncut, rows_of_windows
from tilewright.jit.ir.requant import Channels, Requant
from tilewright.runtime.steps import Step, TensorSpec

Mask = NDArray[np.bool_]  #: whether each channel stays


@dataclass(kw_only=True)
class Op:
    """Base of all operators: ``name`` is unique, ``inputs``/``output`` are tensor names.

    What a class does not declare, it does not have: an operator without ``facts`` may give anything, one without
    ``of_rows`` makes its rows together.
    """

    name: str
    inputs: list[str]
    output: str
    source: str = ""  #: the operator's name in the model file, for reports (e.g. ``op003 CONV_2D``)
    covers: tuple[int, ...] = ()  #: positions in the model file of the operators that this one stands for

    #: whether channel c of the result depends on channel c of the inputs alone
    per_channel: ClassVar[bool] = False
    #: whether its program takes the whole accelerator
    alone: ClassVar[bool] = False
    #: whether the accelerator must take it, or say why it cannot
    refusable: ClassVar[bool] = True
    #: whether it reads a tensor of activations as weights
    multiplies_tensors: ClassVar[bool] = False

    @property
    def kind(self) -> str:
        return type(self).__name__

    @property
    def outputs(self) -> tuple[str, ...]:
        """All tensors it writes; only ``output`` unless a class says otherwise."""
        return (self.output,)

    # -- meaning -----------------------------------------------------------------------------------------

    def meaning(self, d: Domain, *inputs: Any) -> Any:
        """The result, or a tuple of one for each of ``outputs``, in the numbers of a domain.

        Raises :class:`~tilewright.jit.errors.Unfollowed` where the domain has no form of it.
        """
        raise NotImplementedError(f"{self.kind} declares no meaning")

    def macs(self, graph: Graph) -> int:
        """Multiply-accumulates, zero weights included."""
        return 0

    def additions(self, graph: Graph) -> int:
        """Values that the array adds up without multiplying them."""
        return 0

    def facts(self, *inputs: Facts) -> Facts | None:
        """What is known of the result's channels for all inputs; None for nothing."""
        return None

    # -- regions -----------------------------------------------------------------------------------------

    @property
    def window_rows(self) -> int:
        """Rows of the input that one row of the result reads."""
        return 1

    def of_rows(self, rows: Range, out: int, heights: list[int]) -> tuple[Op, list[Range]]:
        """The operator that makes some rows of a result of ``out`` rows, and the rows that it reads of inputs of so
        many. Raises :class:`Uncut`."""
        raise Uncut(f"{self.name} ({self.kind}): makes its rows together")

    def of_channels(self, channels: Channels) -> Self:
        """The operator that makes some channels of its result."""
        return self

    def of_range(self, channels: Range | None, everything: list[Range]) -> tuple[Op, list[Range]]:
        """The operator that makes a range of its channels (None: all), and the ranges that it reads of inputs that have
        ``everything``. Raises :class:`Uncut`."""
        if channels is None:
            return self, everything
        if not self.per_channel:
            raise Uncut(f"{self.name} ({self.kind}): makes its channels together")
        return self.of_channels(slice(*channels)), [channels] * len(everything)

    def by_pixel(self, shapes: list[tuple[int, ...]]) -> bool:
        """Whether each pixel of the result depends on the same pixel of the inputs alone; ``shapes``: of inputs and
        outputs."""
        return False

    # -- channels ----------------------------------------------------------------------------------------

    def keep(self, inputs: list[Mask], outputs: list[Mask], block: int) -> None:
        """Add to the masks the channels that must stay because others do; ``block``: channels of an array's block."""
        masks = [*inputs, *outputs]
        if self.per_channel:
            keep_alike(masks)
        else:
            for mask in masks:
                mask[:] = True

    def narrowed(self, inputs: list[Mask], out: Mask, shape: tuple[int, ...]) -> Op:
        """The operator over the channels that stay; ``shape``: of the result then."""
        return self.of_channels(np.flatnonzero(out)) if self.per_channel else self

    def with_pad(self, pad: Padding) -> Op | None:
        """The operator that reads what a pad reads, and pads by itself; None if it cannot."""
        return None

    # -- place -------------------------------------------------------------------------------------------

    def why_host(self, graph: Graph) -> str | None:
        """Why the host computes it; None if the accelerator can."""
        return None

    def host_step(self, graph: Graph) -> Step:
        """The step that computes it in NumPy. Raises :class:`PlaceError`."""
        raise PlaceError(f"{self.name} ({self.kind}): has neither a lowering nor a host step")

    def lower(self, at: Any) -> None:
        """Append its nodes; ``at``: :class:`tilewright.jit.lower.lowering.Lowering`. Raises :class:`PlaceError`."""
        raise PlaceError(f"{self.name} ({self.kind}): has no lowering to the accelerator; it runs on the host")


@dataclass(frozen=True)
class Padding:
    """What a pad puts around what it reads: ``value`` in ``padding`` = (top, left, bottom, right) pixels."""

    inputs: list[str]
    padding: Sides
    value: int

    def around(self, own: Sides) -> Sides:
        """This padding with an operator's own inside."""
        top, left, bottom, right = (a + b for a, b in zip(own, self.padding, strict=True))
        return top, left, bottom, right


def of_windows(op: Any, rows: Range, height: int, extent: int, stride: int, spread: int = 1) -> tuple[Any, list[Range]]:
    """:meth:`Op.of_rows` of an operator on windows, which has ``padding``."""
    what = f"{op.name} ({op.kind})"
    padding, taken = rows_of_windows(what, rows, height, extent, stride, op.padding, spread)
    return replace(op, padding=padding), [taken]


def same_pixels(shapes: list[tuple[int, ...]]) -> bool:
    """Whether all shapes have the same rows and columns."""
    return len({shape[-3:-1] for shape in shapes}) == 1


def keep_alike(masks: list[Mask]) -> None:
    """Let a channel stay in all of the masks where it stays in one."""
    together = np.logical_or.reduce(masks)
    for mask in masks:
        mask[:] = together


def keep_at_least(mask: Mask, count: int) -> None:
    """More channels, the first that are not there, up to a count."""
    mask[np.flatnonzero(~mask)[: max(0, count - int(mask.sum()))]] = True


def requants_of(op: Op) -> Iterator[Requant]:
    """All that an operator requantises with."""

    def within(value: object) -> Iterator[Requant]:
        if isinstance(value, Requant):
            yield value
        elif isinstance(value, (tuple, list, dict)):
            for part in value.values() if isinstance(value, dict) else value:
                yield from within(part)

    return within(list(vars(op).values()))


@dataclass
class Graph:
    """A topologically ordered list of operators over named tensors."""

    name: str
    inputs: list[str]
    outputs: list[str]
    tensors: dict[str, TensorSpec]
    ops: list[Op]

    def producer(self, tensor: str) -> Op | None:
        """The operator that writes ``tensor``; None for a graph input."""
        return next((op for op in self.ops if tensor in op.outputs), None)

    def consumers(self, tensor: str) -> list[Op]:
        """The operators that read ``tensor``, in order."""
        return [op for op in self.ops if tensor in op.inputs]


@dataclass(frozen=True)
class Sliced:
    """A graph whose wide tensors are slices. Tensors and operators that are not cut keep their names."""

    graph: Graph
    parts: dict[str, list[str]]  #: tensor of the original graph -> its slices, in channel order
    layers: dict[str, int]  #: operator name -> index of the original operator it belongs to
