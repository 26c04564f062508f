"""The forms a model's tensor can have: the file's own, and NHWC int8 as the accelerator holds it.

Conversions are host operators, added where a form is first asked for. What nobody reads is dropped at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import ModelError, Unsupported
from tilewright.jit.graph import Constant, Graph, HostCast, Interpreted, Op, Reshape, Transpose
from tilewright.jit.layers.builder import GraphBuilder, Operand, Quantisation, nhwc, stacked
from tilewright.runtime.step_base import DTYPES

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True)
class FileTensor:
    """A tensor as the file has it. ``order``: its axes as NHWC has them (NCHW files: (0, 2, 3, 1)); None as they are.

    ``quantisation`` as of int8 (uint8 less 128); None where it is no 8-bit activation. ``wider``: that of an integer of
    more bits, which nothing but its user reads.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantisation: Quantisation | None = None
    order: tuple[int, ...] | None = None
    wider: Quantisation | None = None

    def chip_shape(self) -> tuple[int, int, int, int]:
        """NHWC; raises Unsupported where there is none."""
        return nhwc(self._ordered())

    def has_image(self) -> bool:
        """Whether there is NHWC: of up to 4 axes and batch 1."""
        return len(self.shape) < 4 or (len(self.shape) == 4 and self._ordered()[0] == 1)

    def file_numbers(self) -> Quantisation | None:
        """Scale and zero point as of the file's own type."""
        q = self.quantisation or self.wider
        return Quantisation(q.scale, q.zero_point + 128) if q is not None and self.dtype == "uint8" else q

    def _ordered(self) -> tuple[int, ...]:
        return self.shape if self.order is None else tuple(self.shape[a] for a in self.order)


@dataclass(frozen=True)
class View:
    """A file tensor that is another arrangement of an NHWC int8 ``tensor``: its axes are those of the latter in the
    order ``axes`` (of all four), but for ones."""

    tensor: str
    axes: tuple[int, int, int, int]


@dataclass(frozen=True)
class Rearranged:
    """A file tensor whose elements, in its shape, are those of an NHWC int8 ``tensor`` at ``positions``.

    ``before``: the file tensor that it comes from in one step, a reshape or (``permutation``) a transpose.
    """

    tensor: str
    positions: NDArray[np.int64]
    before: object
    permutation: tuple[int, ...] | None = None


@dataclass
class Values:
    """Graph tensors of each file tensor, by the file's key for it.

    ``views``, ``rearranged``: file tensors that nobody has asked for in a form of their own; the host computes them for
    those who do.
    """

    builder: GraphBuilder
    specs: dict[object, FileTensor] = field(default_factory=dict)
    files: dict[object, str] = field(default_factory=dict)  #: graph tensor in the file's own form
    chips: dict[object, str] = field(default_factory=dict)  #: graph tensor in NHWC int8
    views: dict[object, View] = field(default_factory=dict)
    rearranged: dict[object, Rearranged] = field(default_factory=dict)

    def declare_file(self, key: object) -> str:
        """The graph tensor that will hold ``key`` in the file's form: an input, or what a host operator makes."""
        spec = self.specs[key]
        self.files[key] = self.builder.declare(spec.name, spec.shape, spec.dtype, spec.file_numbers())
        return self.files[key]

    def held_shape(self, key: object) -> tuple[int, int, int, int]:
        """How the accelerator holds ``key``: as an image, or tensors of more axes or another batch as rows of pixels.

        Raises Unsupported where it does not.
        """
        _require_elements(self.specs[key].shape)
        return stacked(self.specs[key].shape) if self.specs[key].order is None else self.specs[key].chip_shape()

    def set_chip(self, key: object, tensor: str) -> None:
        """``key`` is computed on the chip, in ``tensor``. Raises Unsupported where that has another shape."""
        have, wanted = self.builder.tensors[tensor].shape, self.held_shape(key)
        if have != wanted:
            raise Unsupported(f"a result of shape {have} where {wanted} is expected")
        self.chips[key] = tensor

    def view(self, key: object) -> View:
        """``key`` as the accelerator holds it already, however arranged. Raises Unsupported as :meth:`stack`."""
        if key not in self.chips and key in self.views:
            return self.views[key]
        return View(self.held(key).name, (0, 1, 2, 3))

    def set_view(self, key: object, view: View) -> None:
        """``key`` is a view; where that is its NHWC form, it is computed with it. Raises Unsupported for another
        shape."""
        have, wanted = self.builder.tensors[view.tensor].shape, self.held_shape(key)
        if tuple(have[axis] for axis in view.axes) != wanted:
            raise Unsupported(f"a result of shape {have} where {wanted} is expected")
        moving = [axis for axis in view.axes if have[axis] > 1]
        if have == wanted and moving == sorted(moving):
            self.chips[key] = view.tensor
        else:
            self.views[key] = view

    def _arranged(self, key: object) -> str:
        """A view as an NHWC tensor of its own, made by the host."""
        view, spec = self.views[key], self.specs[key]
        return self._append(
            Transpose, f"{spec.name}_arranged", view.tensor, self.held_shape(key), spec, permutation=view.axes
        )

    def forget(self, key: object) -> None:
        """Nothing is known of ``key`` any more."""
        forms: tuple[dict[object, Any], ...] = (self.chips, self.views, self.rearranged)
        for form in forms:
            form.pop(key, None)

    def places(self, key: object) -> tuple[str, NDArray[np.int64]]:
        """A tensor of the accelerator, and where in it each element of ``key`` is, in the file's shape.

        A rearranged tensor is read where it comes from even if the host has made it: so nobody waits for the host.
        Raises Unsupported as :meth:`chip`.
        """
        if key in self.rearranged:
            return self.rearranged[key].tensor, self.rearranged[key].positions
        view = self.view(key)
        shape = self.builder.tensors[view.tensor].shape
        positions = np.arange(math.prod(shape)).reshape(shape).transpose(view.axes)
        return view.tensor, positions.reshape(-1)[self.own_places(key)]

    def own_places(self, key: object) -> NDArray[np.int64]:
        """Where in its own NHWC form each element of ``key`` is, in the file's shape."""
        spec = self.specs[key]
        order = spec.order or tuple(range(len(spec.shape)))
        positions = np.arange(math.prod(spec.shape)).reshape([spec.shape[axis] for axis in order])
        return positions.transpose([order.index(axis) for axis in range(len(order))])

    def arrangement(self, key: object, before: object, permutation: tuple[int, ...] | None) -> Rearranged:
        """What ``key`` is if it is ``before`` with its axes in another order, or (None) under another shape.

        Raises Unsupported where the file says another shape.
        """
        _require_elements(self.specs[key].shape)
        shape, (tensor, positions) = self.specs[key].shape, self.places(before)
        positions = positions.reshape(shape) if permutation is None else positions.transpose(permutation)
        if positions.shape != shape:
            raise Unsupported(f"a result of shape {shape} of {positions.shape}")
        return Rearranged(tensor, positions, before, permutation)

    def rearrange(self, key: object, before: object, permutation: tuple[int, ...] | None) -> None:
        """``key`` is such an arrangement; where a tensor of the accelerator is the same, it is computed with that."""
        found = self.arrangement(key, before, permutation)
        if self.is_image(key, found.tensor, found.positions):
            self.chips[key] = found.tensor
        else:
            self.rearranged[key] = found

    def gather(self, key: object, tensor: str, positions: NDArray[np.int64]) -> None:
        """``key`` has all elements of an NHWC int8 ``tensor``, once each: ``positions``, in its shape.

        Raises Unsupported where these are no transposed axes of the tensor.
        """
        spec, order = self.specs[key], outwards(positions)
        if order is None:
            raise Unsupported("elements whose order is not that of transposed axes")
        shape = tuple(spec.shape[axis] for axis in order)
        part, turned = (key, "part"), (key, "turned")
        whole = self.builder.tensors[tensor].shape
        self.specs[part] = FileTensor(f"{spec.name}_part", whole, spec.dtype, spec.quantisation)
        self.chips[part] = tensor
        self.specs[turned] = replace(spec, name=f"{spec.name}_turned", shape=shape, order=None)
        self.rearrange(turned, part, None)
        self.rearrange(key, turned, tuple(order.index(axis) for axis in range(len(order))))

    def taken(self, key: object) -> View | Rearranged:
        """What is known of ``key`` so far."""
        return self.rearranged[key] if key in self.rearranged else View(self.chips[key], (0, 1, 2, 3))

    def is_image(self, key: object, tensor: str, positions: NDArray[np.int64]) -> bool:
        """Whether ``tensor`` is ``key`` in NHWC, of which it has the elements at ``positions``, in the file's shape."""
        spec = self.specs[key]
        order = spec.order or tuple(range(len(spec.shape)))
        natural = (np.diff(positions.transpose(order).reshape(-1)) == 1).all()
        return bool(natural) and spec.has_image() and self.builder.tensors[tensor].shape == spec.chip_shape()

    def _step(self, key: object) -> str:
        """A rearranged tensor in the file's form, made by the host of the one before it."""
        found = self.rearranged[key]
        before = self.file(found.before)
        return self._moved(self.specs[key], before, found.permutation, self.specs[key].file_numbers())

    def _moved(
        self, spec: FileTensor, read: str, permutation: tuple[int, ...] | None, like: Quantisation | None
    ) -> str:
        """A tensor ``read`` transposed or (without ``permutation``) reshaped by the host."""
        made, dtype = (spec.name, [read], spec.shape), self.builder.tensors[read].dtype
        if permutation is None:
            return self.builder.append(Reshape, *made, dtype, like=like, shape=spec.shape)
        return self.builder.append(Transpose, *made, dtype, like=like, permutation=permutation)

    def chip(self, key: object) -> Operand:
        """``key`` as an operand of the accelerator. Raises Unsupported where it is no 8-bit image of batch 1."""
        return self._held(key, self.specs[key].chip_shape)

    def stack(self, key: object) -> Operand:
        """``key``, of any shape, as an operand for what works on its last axis, or its last two, alone. Raises
        Unsupported where it is no tensor of 8 bits."""
        return self._held(key, lambda: self.held_shape(key))

    def held(self, key: object) -> Operand:
        """``key``, of any shape, as the accelerator holds it. Raises Unsupported as :meth:`stack`."""
        return self.stack(key)

    def _held(self, key: object, shaped: Callable[[], tuple[int, int, int, int]]) -> Operand:
        spec = self.specs[key]
        _require_elements(spec.shape)
        if key not in self.chips and key in self.views:
            self.chips[key] = self._arranged(key)
        if key not in self.chips and key in self.rearranged:
            self.file(key)
        if spec.quantisation is None or spec.dtype not in ("int8", "uint8"):
            raise Unsupported(f"an operand of type {spec.dtype or 'unknown'} without 8-bit quantisation")
        shape = shaped()
        if key not in self.chips:
            current = self._made(self.files, key)
            if spec.dtype == "uint8":
                current = self._append(
                    HostCast, f"cast_{current}", current, spec.shape, spec, offset=-128, dtype="int8"
                )
            if spec.order is not None and spec.order != tuple(range(len(spec.order))):
                moved = tuple(spec.shape[a] for a in spec.order)
                current = self._append(Transpose, f"nhwc_{current}", current, moved, spec, permutation=spec.order)
            if self.builder.tensors[current].shape != shape:
                current = self._append(Reshape, f"reshape_{current}", current, shape, spec, shape=shape)
            self.chips[key] = current
        return Operand(self.chips[key], shape, spec.quantisation)

    def fixed(self, name: str, image: NDArray[np.int8], quantisation: Quantisation) -> Operand:
        """A constant image, NHWC, as an operand: it comes into a program as the network's inputs do."""
        if not self.builder.inputs:
            raise Unsupported("a constant where an activation is expected")
        made = self.builder.append(
            Constant, f"constant_{name}", self.builder.inputs[:1], image.shape, like=quantisation, values=image
        )
        return Operand(made, stacked(image.shape), quantisation)

    def constant(self, spec: FileTensor, value: NDArray[Any]) -> str:
        """A constant of the file as an output: the host gives it with every inference. Raises Unsupported for types
        that no output has."""
        if spec.dtype not in DTYPES or spec.dtype != value.dtype.name:
            raise Unsupported(f"of type {spec.dtype}")
        if not self.builder.inputs:
            raise Unsupported("of a model without inputs")
        made = self.builder.declare(spec.name, value.shape, spec.dtype, spec.file_numbers())
        self.builder.ops.append(Constant(name=made, inputs=self.builder.inputs[:1], output=made, values=value))
        return made

    def file(self, key: object) -> str:
        """``key`` in the file's own form."""
        if key not in self.files and key not in self.chips and key in self.views:
            self.chips[key] = self._arranged(key)
        if key not in self.files and key in self.rearranged:
            self.files[key] = self._step(key)
        if key not in self.files:
            spec = self.specs[key]
            current = self._made(self.chips, key)
            order = spec.order or tuple(range(len(spec.shape)))
            moved = tuple(spec.shape[a] for a in order)
            if self.builder.tensors[current].shape != moved or self._reads_otherwise(current, spec):
                current = self._append(Reshape, f"reshape_{current}", current, moved, spec, shape=moved)
            if order != tuple(range(len(order))):
                inverse = tuple(order.index(axis) for axis in range(len(order)))
                current = self._append(Transpose, spec.name, current, spec.shape, spec, permutation=inverse)
            if spec.dtype == "uint8":
                current = self.builder.append(
                    HostCast, spec.name, [current], spec.shape, "uint8", like=spec.file_numbers(), offset=128,
                    dtype="uint8",
                )  # fmt: skip
            self.files[key] = current
        return self.files[key]

    def _reads_otherwise(self, tensor: str, spec: FileTensor) -> bool:
        """Whether the file gives ``tensor`` another scale or zero point, or none, under the name of ``spec``, as behind
        a reshape; who reads the file's form reads these too."""
        return spec.quantisation != self.builder.quantisation(tensor)

    def _made(self, forms: Mapping[Any, str], key: object) -> str:
        if key not in forms:
            raise ModelError(f"tensor {self.specs[key].name}: nothing gives it before it is read, and it holds no data")
        return forms[key]

    def _append(
        self, kind: type[Op], name: str, read: str, result: tuple[int, ...], spec: FileTensor, **fields: Any
    ) -> str:
        return self.builder.append(kind, name, [read], result, like=spec.quantisation, **fields)


def _require_elements(shape: tuple[int, ...]) -> None:
    """Raises Unsupported for a tensor without any, which the accelerator holds in no form: it is the interpreter's."""
    if 0 in shape:
        raise Unsupported("a tensor without elements")


def outwards(positions: NDArray[np.int64]) -> list[int] | None:
    """The order of axes, the outermost first, in which the positions count up from 0; None where there is none."""
    shape, corner = positions.shape, (0,) * positions.ndim
    seconds = [(*corner[:axis], min(1, n - 1), *corner[axis + 1 :]) for axis, n in enumerate(shape)]
    steps = [int(positions[second]) for second in seconds]  # the larger, the further out the axis
    order = sorted(range(len(shape)), key=lambda axis: -steps[axis])
    return order if (positions.transpose(order).reshape(-1) == np.arange(positions.size)).all() else None


def by_name(files: Mapping[_Key, str]) -> tuple[dict[str, _Key], dict[_Key, _Key]]:
    """(graph tensor -> the file's first tensor that it holds, each of the file's tensors -> that first one)."""
    first: dict[str, _Key] = {}
    return first, {key: first.setdefault(name, key) for key, name in files.items()}


def without_dead(graph: Graph) -> Graph:
    """The graph without operators whose results nobody reads; what keeps state stays."""
    needed = set(graph.outputs)
    kept: list[Op] = []
    for op in reversed(graph.ops):
        lasting = isinstance(op, Interpreted) and (op.state or not op.results)
        if lasting or needed & set(op.outputs):
            kept.append(op)
            needed |= set(op.inputs)
    kept.reverse()
    used = needed | set(graph.inputs) | {t for op in kept for t in op.outputs}
    return Graph(graph.name, graph.inputs, graph.outputs, {n: t for n, t in graph.tensors.items() if n in used}, kept)
