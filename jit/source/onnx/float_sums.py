"""Sums of products that ONNX Runtime takes in float32, in an order of its own, with whatever is added to them.

On the accelerator the sums are exact, and the bias is a whole number of their units and a fraction, which the
thresholds of the output stage have in them. Where no float32 operation can round, or none can carry a sum that occurs
across a tie, both are the same for every input; elsewhere a share of the sums is in doubt, which is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilewright.jit.errors import Unsupported
from tilewright.jit.graph import Maximum
from tilewright.jit.layers import pairwise
from tilewright.jit.layers.builder import Operand, Output, Quantisation, Weights
from tilewright.jit.numbers.scales import LEAST_FLOAT32, reachable
from tilewright.jit.source.onnx.site import Site

METHOD = "ONNX Runtime adds in float32 here, in an order of its own; exact sums on the accelerator"
_EPSILON = 2.0**-24  #: what rounding to float32 can change, relatively
_BITS = 24  #: of a float32 number
_LARGEST = 2.0**127  #: below all infinities of float32
_MOST = 1 << 30  #: largest bias in units of the sum


@dataclass(frozen=True)
class FloatSums:
    """``weights``: with what is whole of the bias. ``bias``: (OC,), all of it, as float32 has it. ``slope``: what the
    sums are multiplied by, in float32."""

    x: Quantisation
    weights: Weights
    bias: NDArray[np.float64]
    slope: float = 1.0

    @classmethod
    def of(
        cls, x: Quantisation, values: NDArray[np.integer], scales: NDArray[np.float64], bias: NDArray[np.float32]
    ) -> FloatSums:
        """``values``: (OC, ...), less their zero points. Raises Unsupported for a bias out of all proportion."""
        given = bias.astype(np.float64)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            whole = np.rint(given / (x.scale * scales))
        if not (np.abs(whole) <= _MOST).all():
            raise Unsupported("a bias that is large beside the unit of the sum")
        made = cls(x, Weights(values, scales, whole.astype(np.int64)), given)
        made._require_normal()
        return made

    def _require_normal(self) -> None:
        """Raises Unsupported where a term or a sum can be an infinity of float32, or lose digits next to zero."""
        far = max(127 - self.x.zero_point, 128 + self.x.zero_point)
        reach = np.abs(self._taps).sum(axis=1) * far * self._unit + np.abs(self.bias)
        most = np.abs(self._taps).max(axis=1, initial=0) * self.weights.scales
        least = np.minimum(np.minimum(self._unit, self._unit * self.slope), self.weights.scales).min(initial=1.0)
        if max(far * self.x.scale, most.max(initial=0), reach.max(initial=0)) >= _LARGEST or (
            min(self.x.scale, least) < LEAST_FLOAT32
        ):
            raise Unsupported("scales for which sums or their terms leave what float32 holds")

    @property
    def _taps(self) -> NDArray[np.int64]:
        return self.weights.values.reshape(len(self._unit), -1).astype(np.int64)

    @property
    def _unit(self) -> NDArray[np.float64]:
        return self.x.scale * self.weights.scales

    def sloped(self) -> Weights:
        """The weights, with scales that the output stage starts from."""
        return replace(self.weights, scales=self.weights.scales * self.slope)

    def to(self, out: Output) -> Output:
        """``out`` with the stage that quantises these sums: all of them float32 numbers, each rounded once."""
        unit, whole, bias = (v[:, None] for v in (self._unit, self.weights.bias, self.bias))
        step, slope = np.float32(out.quantisation.scale), np.float32(self.slope)

        def stage(acc: NDArray[np.int64], _scale: object, zero_point: int, lo: int, hi: int) -> NDArray[np.int64]:
            with np.errstate(over="ignore"):  # beyond float32 there is no level any more
                value = ((acc - whole) * unit + bias).astype(np.float32) * slope / step
            return np.rint(np.clip(value, lo - zero_point, hi - zero_point)).astype(np.int64) + zero_point

        return replace(out, stage=stage)

    def state(self, site: Site, out: Output) -> None:
        """Restates the exactness of the layer, which was noted as that of the stage."""
        self._require_normal()  # with the slope, too
        taps = self._taps
        far = max(127 - self.x.zero_point, 128 + self.x.zero_point)
        reach = np.abs(taps).sum(axis=1) * far + np.abs(self.bias) / self._unit
        # each term has three roundings behind it and as many as there are terms ahead; two are slope's and quotient's
        slack = (np.count_nonzero(taps, axis=1) + 4 + (self.slope != 1)) * _EPSILON * 1.001 * reach
        slack[self._never_rounds(reach)] = 0
        near = self._near_ties(taps, slack, out)
        entry = site.builder.exactness[-1]
        if not near.any():
            return
        step = self._unit * self.slope / out.quantisation.scale
        site.builder.exactness[-1] = replace(
            entry,
            exact=max(0, entry.exact - int((near > 0).sum())),
            bound=entry.bound + 1 + int((slack * step).max()),
            worst=float(min(1.0, entry.worst + near.max())),
            method=METHOD,
            compared=False,
        )

    def _never_rounds(self, reach: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Channels whose terms are so many multiples of one power of two that float32 has all sums of some."""
        grain = np.minimum(_grain(self._unit), np.where(self.bias == 0, np.inf, _grain(self.bias)))
        fine = _grain(np.asarray(float(np.float32(self.slope))))  # the slope takes digits as well
        exact = (reach * self._unit <= np.ldexp(grain, _BITS)) & (grain * fine >= LEAST_FLOAT32)
        return np.asarray(exact & (reach * self._unit * self.slope <= np.ldexp(grain * fine, _BITS)))

    def _near_ties(self, taps: NDArray[np.int64], slack: NDArray[np.float64], out: Output) -> NDArray[np.float64]:
        """(OC,): the share of a channel's sums that are so near a tie that float32 may carry them across."""
        q = out.quantisation
        low, high = (v[:, None] for v in reachable(taps.T, -self.x.zero_point * taps.sum(axis=1)))
        levels = np.arange(out.lo + 1, out.hi + 1) - q.zero_point - 0.5
        ties = (levels[None] * (q.scale / float(np.float32(self.slope))) - self.bias[:, None]) / self._unit[:, None]
        room = (slack + np.abs(ties).max(axis=1, initial=0) * 2.0**-50)[:, None]
        first, last = np.maximum(np.ceil(ties - room), low), np.minimum(np.floor(ties + room), high)
        count = np.maximum(last - first + 1, 0).sum(axis=1)
        return np.asarray(np.where(slack > 0, np.minimum(count / (high - low + 1)[:, 0], 1.0), 0.0))


def _grain(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest powers of two of which numbers are whole multiples; 0 of 0."""
    fraction, exponent = np.frexp(values)
    whole = np.ldexp(fraction, 53).astype(np.int64)
    return np.ldexp((whole & -whole).astype(np.float64), exponent - 53)


Finish = Callable[[Output], str]


def finished(site: Site, sums: FloatSums, lower: Callable[[Weights, Output], str]) -> Finish:
    """What lowers the layer once its result's numbers are known, and says what is known of its integers."""

    def made(variant: FloatSums, out: Output) -> str:
        tensor = lower(variant.sloped(), variant.to(out))
        variant.state(site, out)
        return tensor

    slope = _slope(site)
    if slope is None:
        return lambda out: made(sums, out)

    def leaky(out: Output) -> str:
        """The greater of the sum and of its share, each quantised first, which never decreases."""
        tensors = [made(variant, out) for variant in (sums, replace(sums, slope=slope))]
        a, b = (Operand(t, site.builder.tensors[t].shape, out.quantisation) for t in tensors)
        return pairwise.extreme(site, Maximum, a, b, out)

    return leaky


def _slope(site: Site) -> float | None:
    """Of a LeakyRelu that ONNX Runtime has fused into the layer; raises Unsupported for one that is no maximum."""
    if site.node.attribute("activation", "") != "LeakyRelu":
        return None
    slope = float(np.float32(site.node.attribute("activation_params", [0.01])[0]))
    if not 0 < slope < 1:
        raise Unsupported(f"LeakyRelu with the slope {slope}")
    return slope
