"""The same integers from a smaller graph: functions of one tensor become one table, pads become padding, operators
take their cheapest form, and channels that nobody needs go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tilewright.config import Config
from tilewright.jit.channels import WIDEST_BLOCK, reduce_channels
from tilewright.jit.cost.forms import Forms
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.jit.simplify.composed import composed
from tilewright.jit.simplify.pads import without_pads
from tilewright.jit.substitute import Found, Substitutions, search, substituted


class Simplified(NamedTuple):
    """``whole``: of fewer operators, all channels there; ``graph``: what is planned, the same operators in the same
    order; ``dropped``: why channels of each operator's output went, and how many; ``pads``: the pads that became an
    operator's own padding."""

    whole: Graph
    graph: Graph
    dropped: Mapping[str, Mapping[str, int]]
    pads: Mapping[str, list[str]]


def simplified(part: Graph, config: Config | None = None, substitutions: Substitutions = ()) -> Simplified:
    """What is planned of a part on a Config, with these substitutions; without a Config, what every one can take."""
    whole, pads = without_pads(composed(part))
    whole = substituted(whole, substitutions)
    reduced = reduce_channels(whole, _block(config))
    return Simplified(whole, reduced.graph, reduced.dropped, pads)


def of_fewer_operators(part: Graph, substitutions: Substitutions = ()) -> Graph:
    """The part with all its channels, as which :func:`simplified` would plan it."""
    return substituted(without_pads(composed(part))[0], substitutions)


def best_substitutions(part: Graph, config: Config) -> Found | None:
    """Those with which a part is estimated to take the fewest cycles on a Config; None where there are none."""

    def cycles(graph: Graph) -> int | None:
        try:
            return Forms(reduce_channels(graph, _block(config)).graph).estimate(config).cycles
        except PlaceError:
            return None

    return search(of_fewer_operators(part), cycles)


def _block(config: Config | None) -> int:
    return WIDEST_BLOCK if config is None else config.widest_block
