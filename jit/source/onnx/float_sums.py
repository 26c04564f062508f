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
from tilewright.jit.frontend.builder import Output, Quantisation, Weights
from tilewright.jit.numbers import reachable
from tilewright.jit.source.onnx.site import Site

METHOD = "ONNX Runtime adds in float32 here, in an order of its own; exact sums on the accelerator"
_EPSILON = 2.0**-24  #: what rounding to float32 can change, relatively
_BITS = 24  #: of a float32 number
_LEAST = 2.0**-126  #: normal number of float32
_MOST = 1 << 30  #: largest bias in units of the sum


@dataclass(frozen=True)
class FloatSums:
    """``weights``: with what is whole of the bias. ``bias``: (OC,), all of it, as float32 has it. ``usual``: whether it
    is given in units of the sum, as quantisers write it."""

    x: Quantisation
    weights: Weights
    bias: NDArray[np.float64]
    usual: bool

    @classmethod
    def of(
        cls, x: Quantisation, values: NDArray[np.integer], scales: NDArray[np.float64], bias: NDArray[np.float32],
        usual: bool,
    ) -> FloatSums:  # fmt: skip
        """``values``: (OC, ...), less their zero points. Raises Unsupported for a bias out of all proportion."""
        given = bias.astype(np.float64)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            whole = np.rint(given / (x.scale * scales))
        if not (np.abs(whole) <= _MOST).all():
            raise Unsupported("a bias that is large beside the unit of the sum")
        return cls(x, Weights(values, scales, whole.astype(np.int64)), given, usual)

    @property
    def _unit(self) -> NDArray[np.float64]:
        return self.x.scale * self.weights.scales

    def to(self, out: Output) -> Output:
        """``out`` with the stage that quantises these sums: all of them float32 numbers, each rounded once."""
        unit, whole, bias = (v[:, None] for v in (self._unit, self.weights.bias, self.bias))
        step = np.float32(out.quantisation.scale)

        def stage(acc: NDArray[np.int64], _scale: object, zero_point: int, lo: int, hi: int) -> NDArray[np.int64]:
            with np.errstate(over="ignore"):  # beyond float32 there is no level any more
                value = ((acc - whole) * unit + bias).astype(np.float32) / step
            return np.rint(np.clip(value, lo - zero_point, hi - zero_point)).astype(np.int64) + zero_point

        return replace(out, stage=stage)

    def state(self, site: Site, out: Output) -> None:
        """Restates the exactness of the layer, which was noted as that of the stage.

        Raises Unsupported where sums are in doubt for the sake of a bias that no quantiser writes.
        """
        taps = self.weights.values.reshape(len(self._unit), -1).astype(np.int64)
        far = max(127 - self.x.zero_point, 128 + self.x.zero_point)
        reach = np.abs(taps).sum(axis=1) * far + np.abs(self.bias) / self._unit
        # each term has three roundings behind it and as many as there are terms ahead; one is the quotient's
        slack = (np.count_nonzero(taps, axis=1) + 4) * _EPSILON * 1.001 * reach
        slack[self._never_rounds(reach)] = 0
        near = self._near_ties(taps, slack, out)
        entry = site.builder.exactness[-1]
        wrong = set(entry.wrong)
        sure = sum(not near[c] and c not in wrong for c in range(len(near)))
        if not near.any():
            return
        if not self.usual:
            raise Unsupported(
                f"a bias with a scale or zero point of its own, beside which ONNX Runtime's float32 sums may round "
                f"otherwise ({100 * near.max():.2g} % of the sums that a channel can reach)"
            )
        step = self._unit / out.quantisation.scale
        site.builder.exactness[-1] = replace(
            entry,
            exact=sure,
            bound=entry.bound + 1 + int((slack * step).max()),
            worst=float(min(1.0, entry.worst + near.max())),
            method=METHOD,
            wrong=(),
            compared=False,
        )

    def _never_rounds(self, reach: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Channels whose terms are so many multiples of one power of two that float32 has all sums of some."""
        grain = np.minimum(_grain(self._unit), np.where(self.bias == 0, np.inf, _grain(self.bias)))
        return np.asarray((reach * self._unit <= np.ldexp(grain, _BITS)) & (grain >= _LEAST))

    def _near_ties(self, taps: NDArray[np.int64], slack: NDArray[np.float64], out: Output) -> NDArray[np.float64]:
        """(OC,): the share of a channel's sums that are so near a tie that float32 may carry them across."""
        q = out.quantisation
        low, high = (v[:, None] for v in reachable(taps.T, -self.x.zero_point * taps.sum(axis=1)))
        levels = np.arange(out.lo + 1, out.hi + 1) - q.zero_point - 0.5
        ties = (levels[None] * q.scale - self.bias[:, None]) / self._unit[:, None]
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

    def finish(out: Output) -> str:
        tensor = lower(sums.weights, sums.to(out))
        sums.state(site, out)
        return tensor

    return finish
