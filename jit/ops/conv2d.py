"""Conv2D: dense, grouped and transposed convolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import wrap_int32
from tilewright.jit.errors import PlaceError
from tilewright.jit.ir.base import Graph, Mask, Op, Padding, keep_at_least
from tilewright.jit.ir.convolution import Convolution, selects
from tilewright.jit.ir.domain import Domain
from tilewright.jit.ir.facts import Facts, constants, first_equal, requantized
from tilewright.jit.ir.regions import Array, Range, image_shape, pad, windows
from tilewright.jit.ir.requant import Channels, Requant
from tilewright.jit.kernels.conv import ConvNode
from tilewright.jit.kernels.of_weights import of_weights
from tilewright.jit.kernels.transposed import TransposedNode, written_out
from tilewright.jit.lower.dense_weights import in_parts, mostly_zeros
from tilewright.jit.lower.lowering import Lowering
from tilewright.jit.lower.patches import lower_patches, packs_patches
from tilewright.jit.plan.layout import units_for


@dataclass(kw_only=True)
class Conv2D(Convolution):
    """Dense or grouped convolution. ``acc = sum x * w`` with padding contributing ``pad_value``.

    ``weight`` is (OC, KH, KW, IC / groups), int8, or int16 within -255..255 (uint8 less its zero point). Biases live
    in ``requant.bias``, with the input's zero point already folded in (so x is used as stored). ``padding`` is
    (top, left, bottom, right).

    A transposed convolution reads the image with ``spread`` - 1 pixels of ``pad_value`` between neighbours, in rows and
    columns (XLA's ``lhs_dilation``), and may leave out pixels of its result: ``padding`` is that of the image so
    spread, and may be negative. ``strides`` are (1, 1) then.
    """

    requant: Requant
    groups: int = 1
    spread: tuple[int, int] = (1, 1)

    @property
    def kernel(self) -> tuple[int, int]:
        return self.weight.shape[1], self.weight.shape[2]

    @property
    def row_spread(self) -> int:
        return self.spread[0]

    @property
    def transposed(self) -> bool:
        """Whether the kernel runs over other than the image with padding around it."""
        return self.spread != (1, 1) or min(self.padding) < 0

    # -- meaning -----------------------------------------------------------------------------------------

    def view(self, x: Array) -> Array:
        if self.spread == (1, 1):
            return super().view(x)
        n, height, width, channels = x.shape
        down, across = self.spread
        wide = np.full((n, (height - 1) * down + 1, (width - 1) * across + 1, channels), self.pad_value, x.dtype)
        wide[:, ::down, ::across] = x
        return windows(pad(wide, self.padding, self.pad_value), self.kernel, self.strides, self.dilation)

    def meaning(self, d: Domain, x: Any) -> Any:
        per_group, view = self.weight.shape[3], self.view(x)
        acc = np.concatenate(
            [
                d.convolve(view[:, :, :, k * per_group : (k + 1) * per_group], part)
                for k, part in enumerate(np.split(self.weight, self.groups))
            ],
            axis=-1,
        )
        if self.spread == (1, 1):
            return d.requantize(acc, self.requant, values=selects(self.weight.reshape(len(self.weight), -1)))
        result = np.empty(acc.shape, d.dtype)
        for phase in np.ndindex(*self.spread):
            places = (slice(None), *(slice(first, None, step) for first, step in zip(phase, self.spread, strict=True)))
            used = self._meeting(phase)
            # what lies between pixels is a constant, which the result does not hang on
            sums = (weight.sum(axis=(1, 2, 3), dtype=np.int64) for weight in (self.weight, used))
            between = self.pad_value * np.subtract(*sums)
            requant = replace(self.requant, bias=wrap_int32(self.requant.bias + between).astype(np.int32))
            values = selects(used.reshape(len(used), used[0].size))
            result[places] = d.requantize(acc[places] - between, requant, values=values)
        return result

    def _meeting(self, phase: tuple[int, ...]) -> NDArray[np.int8]:
        """The weights that meet pixels of the image, of pixels of the result at ``phase`` modulo ``spread``."""
        rows, columns = (
            (first - before + np.arange(kernel) * apart) % step == 0
            for first, before, kernel, apart, step in zip(
                phase, self.padding[:2], self.kernel, self.dilation, self.spread, strict=True
            )
        )
        return self.weight[:, rows][:, :, columns]

    def macs(self, graph: Graph) -> int:
        """Of a transposed one with pixels of the image and its padding, not with what lies between them."""
        if not self.transposed:
            return super().macs(graph)
        sides = zip(
            image_shape(graph.tensors[self.output].shape)[1:3], self.kernel, self.spread, self.dilation,
            self.padding[:2], strict=True,
        )  # fmt: skip
        return math.prod(_meetings(*side) for side in sides) * self.weight.shape[0] * self.weight.shape[3]

    def read_facts(self, x: Facts) -> Facts:
        """Of what the kernel runs over."""
        return x.padded((1, 1, 1, 1) if self.spread != (1, 1) else self.padding, self.pad_value)

    def facts(self, *inputs: Facts) -> Facts:
        x = self.read_facts(inputs[0])
        outputs, kh, kw, per_group = self.weight.shape
        taps = self.weight.reshape(self.groups, -1, kh * kw, per_group)
        middle, spread = ((end.reshape(self.groups, -1, 1)).astype(np.float64) for end in (x.hi + x.lo, x.hi - x.lo))
        # twice the sums' middle and spread, integers far below 2^53
        twice = (taps.sum(2, np.int32) @ middle).ravel()
        around = (np.abs(taps, dtype=np.int16).sum(2, np.int32) @ spread).ravel()
        lo, hi = ((twice + sign * around).astype(np.int64) // 2 for sign in (-1, 1))
        same = first_equal(np.arange(outputs) // taps.shape[1], lo, hi, constants(self.requant))
        repeated = np.flatnonzero(np.isin(same, same[same != np.arange(outputs)]))
        seen: dict[tuple[int, bytes], int] = {}
        same[repeated] = [seen.setdefault((int(same[k]), self.weight[k].tobytes()), k) for k in repeated.tolist()]
        return Facts(*requantized(self.requant, lo, hi), same)

    # -- regions and channels ----------------------------------------------------------------------------

    def of_channels(self, channels: Channels) -> Conv2D:
        return replace(self, weight=self.weight[channels], requant=self.requant.of(channels))

    def of_range(self, channels: Range | None, everything: list[Range]) -> tuple[Op, list[Range]]:
        if channels is None or self.groups > 1:
            return super().of_range(channels, everything)
        return self.of_channels(slice(*channels)), everything

    def by_pixel(self, shapes: list[tuple[int, ...]]) -> bool:
        return super().by_pixel(shapes) and self.spread == (1, 1)

    def keep(self, inputs: list[Mask], outputs: list[Mask], block: int) -> None:
        """The channels that it multiplies by anything but zero for an output channel that stays. Groups go as a whole
        or stay, with as many channels of each as of any other."""
        reads = of_weights(self.weight, "reads", lambda: np.any(self.weight, axis=(1, 2)))
        sides = source, out = inputs[0].reshape(self.groups, -1), outputs[0].reshape(self.groups, -1)
        for group, used in enumerate(reads.reshape(*out.shape, -1)):
            source[group] |= used[out[group]].any(axis=0)
        if self.groups > 1:
            stay = np.flatnonzero(source.any(axis=1) | out.any(axis=1))
            for side in sides:
                for number in stay:
                    keep_at_least(side[number], max(1, *side.sum(axis=1).tolist()))

    def narrowed(self, inputs: list[Mask], out: Mask, shape: tuple[int, ...]) -> Conv2D:
        """Groups without any channel go."""
        source, kept = inputs[0].reshape(self.groups, -1), out.reshape(self.groups, -1)
        weight = self.weight.reshape(*kept.shape, *self.weight.shape[1:])
        groups = np.flatnonzero(kept.any(axis=1))
        stay = np.concatenate([weight[k][kept[k]][..., source[k]] for k in groups])
        return replace(self, weight=stay, requant=self.requant.of(np.flatnonzero(kept)), groups=len(groups))

    def with_pad(self, pad: Padding) -> Conv2D | None:
        return None if self.transposed else super().with_pad(pad)

    # -- lowering ----------------------------------------------------------------------------------------

    def lower(self, at: Lowering) -> None:
        weight = self.expanded()
        source = at.spec(self.inputs[0])
        padding, strides, dilation, pad_constant = self.padding, self.strides, self.dilation, self.pad_value
        inputs = [at.resolve(t) for t in self.inputs]
        in_units = [units_for(at.spec(t).shape[3], at.config) for t in self.inputs]
        flat = at.flat.get(self.inputs[0])
        _, kh, kw, ic = weight.shape
        if flat is not None and (kh, kw) == (1, 1) and not self.transposed:
            if weight.shape[1:] != flat:
                weight = np.ascontiguousarray(weight.reshape(weight.shape[0], *flat))
            _, kh, kw, ic = weight.shape
        elif not self.transposed and packs_patches(at, self, kh, kw, ic):
            patched = lower_patches(at, self, weight)
            inputs, in_units, weight = [patched.name], [patched.units], patched.weight
            padding, strides, dilation, ic = (0, 0, 0, 0), (1, 1), (patched.dilation, 1), weight.shape[3]
        if ic > sum(in_units) * at.config.lanes:
            raise PlaceError(f"{self.name}: {ic} weight channels do not fit the input's {source.shape[3]}")
        if self.transposed:
            weight = written_out(weight, dilation, self.spread)
        weight, parts = in_parts(weight, at.config.weight_bits, sum(in_units) * at.config.lanes, self.name)
        inputs, in_units = inputs * parts, in_units * parts
        if self.transposed:
            node = TransposedNode(
                name=self.name, layer=at.layer, config=at.config, inputs=inputs, output=self.output,
                out=at.output(self), weight=weight, requant=self.requant, spread=self.spread, dilation=dilation,
                pad=padding[:2], pad_constant=pad_constant, in_units=in_units,
                in_size=(source.shape[1], source.shape[2]),
            )  # fmt: skip
            at.nodes += node.for_tiles() if at.tiled else [node]
            return
        at.nodes.append(
            ConvNode(
                name=self.name, layer=at.layer, config=at.config, inputs=inputs, output=self.output,
                out=at.output(self), weight=weight, requant=self.requant, strides=strides, dilation=dilation,
                pad=padding, pad_constant=pad_constant, in_units=in_units, in_width=at.specs[inputs[0]].shape[2],
            )
        )  # fmt: skip

    def expanded(self) -> NDArray[np.integer]:
        """Grouped weights as dense ones, zeros outside each group."""
        if self.groups == 1:
            return self.weight
        oc, kh, kw, ic = self.weight.shape
        dense = mostly_zeros((oc, kh, kw, ic * self.groups), self.weight.dtype)
        per_group = oc // self.groups
        for k in range(self.groups):
            own = slice(k * per_group, (k + 1) * per_group)
            dense[own, :, :, k * ic : (k + 1) * ic] = self.weight[own]
        return dense


def _meetings(size: int, kernel: int, spread: int, dilation: int, before: int) -> int:
    """How often a kernel's positions meet a pixel of the spread image, along an axis of ``size`` outputs."""
    places = np.arange(size)[:, None] - before + np.arange(kernel) * dilation
    return int((places % spread == 0).sum())


def diagonal(op: Op, taps: NDArray[np.integer], requant: Requant, strides: tuple[int, int]) -> Conv2D:
    """A layer on single channels, ``taps`` (KH, KW, C), as a convolution whose other weights are zero."""
    kh, kw, channels = taps.shape
    weight = mostly_zeros((channels, kh, kw, channels), taps.dtype)
    weight[np.arange(channels), :, :, np.arange(channels)] = taps.transpose(2, 0, 1)
    return Conv2D(name=op.name, inputs=op.inputs, output=op.output, weight=weight, requant=requant, strides=strides)
