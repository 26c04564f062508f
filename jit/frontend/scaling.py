"""The output stage of the layers with weights, for either oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arithmetic import wrap_int32
from tilewright.jit.errors import Unsupported
from tilewright.jit.exactness import LayerExactness
from tilewright.jit.frontend.site import LITERT, Operand, QuantisedConstant, Site
from tilewright.jit.graph import Requant
from tilewright.jit.graph import Rounding as RoundingName
from tilewright.jit.numbers import make_requant, reachable

if TYPE_CHECKING:
    from tilewright.jit.frontend.rules.common import Result


def weighted_requant(
    site: Site,
    x: Operand,
    weight: NDArray[np.int8],
    weight_scales: NDArray[np.float64],
    bias: QuantisedConstant | None,
    tail: Result,
    *,
    rounding: RoundingName,
    count: int,
) -> Requant:
    """Requant of ``sum(x * w) + b`` with the input's zero point folded into the bias.

    ``weight``: (OC, taps). ``rounding`` is LiteRT's for this kind of layer. Adds the layer to the exactness report.
    """
    integer_bias = _integer_bias(bias, count)
    folded = integer_bias - x.zero_point * weight.astype(np.int64).sum(axis=1)
    low, high = reachable(weight.T, folded)
    if site.semantics != LITERT:
        raise Unsupported("float32 scaling")
    scales = np.float64(x.scale) * weight_scales / np.float64(tail.quantisation.scale)
    requant = make_requant(
        scales,
        bias=wrap_int32(folded),
        rounding=rounding,
        zero_point=tail.quantisation.zero_point,
        lo=tail.lo,
        hi=tail.hi,
        channels=count,
        reach=np.maximum(np.abs(low), np.abs(high)),
    )
    site.builder.exactness.append(LayerExactness(site.name, site.semantics, count, count))
    return requant


def _integer_bias(bias: QuantisedConstant | None, count: int) -> NDArray[np.int64]:
    if bias is None:
        return np.zeros(count, np.int64)
    values = bias.values.reshape(-1)
    if values.dtype not in (np.int32, np.int64) or values.size not in (1, count):
        raise Unsupported(f"a bias of {values.dtype}{bias.values.shape} for {count} channels")
    return np.broadcast_to(values.astype(np.int64), (count,))
