"""What is left of a part of a network before it is planned: functions of one tensor are one table, pads are padding,
and channels that nobody needs are gone. The same for all inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tilewright.config import Config
from tilewright.jit.channels import WIDEST_BLOCK, reduce_channels
from tilewright.jit.composed import composed
from tilewright.jit.graph import Graph
from tilewright.jit.pads import without_pads


class Simplified(NamedTuple):
    """``whole``: of fewer operators, all channels there; ``graph``: what is planned, the same operators in the same
    order; ``dropped``: why channels of each operator's output went, and how many; ``pads``: the pads that became an
    operator's own padding."""

    whole: Graph
    graph: Graph
    dropped: Mapping[str, Mapping[str, int]]
    pads: Mapping[str, list[str]]


def simplified(part: Graph, config: Config | None = None) -> Simplified:
    """What is planned of a part on a Config; without one, what every Config can take."""
    whole, pads = without_pads(composed(part))
    block = WIDEST_BLOCK if config is None else max(config.block_in, config.block_out)
    reduced = reduce_channels(whole, block)
    return Simplified(whole, reduced.graph, reduced.dropped, pads)


def of_fewer_operators(part: Graph) -> Graph:
    """The part with all its channels, as which :func:`simplified` would plan it."""
    return without_pads(composed(part))[0]
