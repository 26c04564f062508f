"""Channels chosen one by one: a 1x1 convolution with a single weight of 1 for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.jit.kernels.conv import ConvNode
from tilewright.jit.lower.dense_weights import mostly_zeros
from tilewright.jit.lower.lowering import Lowering
from tilewright.jit.numbers.scales import identity_requant
from tilewright.jit.plan.layout import units_for


def select(at: Lowering, name: str, sources: Sequence[str], result: str, chosen: Sequence[int]) -> None:
    """Append the node that makes ``result`` of channels of the ``sources``, one behind the other in whole vectors.

    ``chosen``: for each channel of the result the one that it is, -1 for one of zeros.
    """
    in_units = [units_for(at.specs[source].shape[3], at.config) for source in sources]
    places = np.asarray(chosen)
    filled = np.flatnonzero(places >= 0)
    weight = mostly_zeros((len(places), 1, 1, sum(in_units) * at.config.lanes), np.int8)
    weight[filled, 0, 0, places[filled]] = 1
    at.nodes.append(
        ConvNode(
            name=name, layer=at.layer, config=at.config, inputs=[*sources], output=result, out=at.specs[result],
            weight=weight, requant=identity_requant(len(places)), strides=(1, 1), dilation=(1, 1), pad=(0, 0, 0, 0),
            pad_constant=0, in_units=in_units, in_width=at.specs[sources[0]].shape[2],
        )
    )  # fmt: skip
