"""What is left of a part of a network before it is planned: functions of one tensor are one table, and channels that
nobody needs are gone. The same for all inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tilewright.config import Config
from tilewright.jit.channels import WIDEST_BLOCK, reduce_channels
from tilewright.jit.composed import composed
from tilewright.jit.graph import Graph


class Simplified(NamedTuple):
    """``whole``: with tables joined, all channels there; ``graph``: what is planned, the same operators in the same
    order; ``dropped``: why channels of each operator's output went, and how many."""

    whole: Graph
    graph: Graph
    dropped: Mapping[str, Mapping[str, int]]


def simplified(part: Graph, config: Config | None = None) -> Simplified:
    """What is planned of a part on a Config; without one, what every Config can take."""
    whole = composed(part)
    block = WIDEST_BLOCK if config is None else max(config.block_in, config.block_out)
    reduced = reduce_channels(whole, block)
    return Simplified(whole, reduced.graph, reduced.dropped)
