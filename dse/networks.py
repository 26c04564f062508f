"""The networks of a sweep: graphs with their tables, their weights, and what of a model file they leave out."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tilewright.config import Config
from tilewright.dse.identity import graph_digest
from tilewright.errors import TilewrightError
from tilewright.files import name_of
from tilewright.jit.cost.estimate import SCHEDULES, estimate
from tilewright.jit.cost.forms import Forms
from tilewright.jit.cost.lower_bound import LowerBound, layer_bounds
from tilewright.jit.cost.tiles import AnyEstimate
from tilewright.jit.graph import Conv2D, DepthwiseConv2D, Graph, Recurrent
from tilewright.jit.kernels.weight_bits import WIDTHS, fits
from tilewright.jit.plan.network import NetworkTables
from tilewright.jit.plan.policy import Policy
from tilewright.jit.sides import accelerator_graphs, accelerator_part
from tilewright.jit.simplify import best_substitutions, of_fewer_operators, simplified

PART = ":"  #: between a model's name and the number of its part


class NetworkError(TilewrightError):
    """A model with nothing to explore, or a weight that is none."""


@dataclass(frozen=True)
class Network:
    """A network of the sweep. ``weight``: how often it runs, relative to the others.

    ``images``: inferences that one run completes: 1, or 0 for the later parts of a model that operators on the CPU
    cut into several.
    """

    name: str
    graph: Graph
    weight: float = 1.0
    images: float = 1.0
    host_ops: tuple[tuple[str, str], ...] = ()  #: operators elsewhere and why; their time is not counted
    bits: tuple[int, str] = field(default=(2, ""))  #: least weight_bits that holds all weights, and the layer

    @classmethod
    def of(
        cls,
        graph: Graph,
        name: str = "",
        weight: float = 1.0,
        images: float = 1.0,
        host_ops: tuple[tuple[str, str], ...] = (),
    ) -> Network:
        """A graph with what it asks of weights."""
        return cls(name or graph.name, graph, weight, images, host_ops, _weight_bits(graph))

    @property
    def model(self) -> str:
        """The model's name, which its parts share."""
        return self.name.partition(PART)[0]

    def tables(self, config: Config, keep: bool = False) -> NetworkTables:
        """What planning needs of the network, lowered once for every shape of block and width of weight.

        ``keep``: every layer's output is stored (``keep_intermediates``). Raises :class:`PlaceError`.
        """
        return (self._kept if keep else self.forms).rows(config)

    def estimate(self, config: Config, policies: Sequence[Policy] = SCHEDULES, keep: bool = False) -> AnyEstimate:
        """Cycles of what the compiler would make of the network, by the cost model. Raises :class:`PlaceError`.

        ``policies``: those tried where it streams as a whole; ``keep``: every layer's output is stored.
        """
        if keep:
            return estimate(self.tables(config, keep=True), config, policies)
        return self.forms.estimate(config, policies)

    def bounds(self, config: Config) -> list[tuple[str, LowerBound]]:
        """Of each layer its name and what it cannot do without, as reports of a run have them. Raises
        :class:`PlaceError`."""
        part = simplified(accelerator_part(self.graph), config).graph
        return [(op.name, bound) for op, bound in zip(part.ops, layer_bounds(part, config), strict=True)]

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal networks, weights included: blocks of zeros, for one, take no cycles."""
        return hashlib.sha256(repr((graph_digest(self.graph), self.images, self.bits)).encode()).hexdigest()

    @cached_property
    def forms(self) -> Forms:
        """Those of what the accelerator takes of the graph, without the channels that nobody needs."""
        return Forms(simplified(accelerator_part(self.graph)).graph)

    def substituted(self, config: Config) -> Network:
        """The network with the substitutions that are estimated to pay on a Config."""
        part = accelerator_part(self.graph)
        found = best_substitutions(part, config)
        return self if found is None else dataclasses.replace(self, graph=of_fewer_operators(part, found.steps))

    @cached_property
    def _kept(self) -> Forms:
        """The same with every operator's output among its outputs, which keeps all channels."""
        part = accelerator_part(self.graph)
        return Forms(dataclasses.replace(part, outputs=[op.output for op in part.ops]))

    def weight_reason(self, config: Config) -> str | None:
        """Why a Config's weights are too narrow for the network; None if they are not."""
        bits, layer = self.bits
        if config.weight_bits >= bits:
            return None
        return f"{layer}: its weights need {bits} bits, wgt holds {config.weight_bits}; raise weight_bits"


def _weight_bits(graph: Graph) -> tuple[int, str]:
    """The least of 2, 4 and 8 bits that hold all weights, and the first layer that needs them."""
    least = (2, "")
    for op in graph.ops:
        if isinstance(op, Conv2D | DepthwiseConv2D):
            bits = next(b for b in WIDTHS if fits(op.weight, b))
            least = max(least, (bits, op.name), key=lambda pair: pair[0])
    return least


def load_networks(path: Path, weight: float = 1.0) -> list[Network]:
    """The networks of a model file: one, or one per region between operators that only the CPU runs.

    Raises :class:`NetworkError` if all of it would run on the CPU or is recurrent layers, naming the operators, and
    what the importer raises for a file that it cannot read.
    """
    from tilewright.jit.importer import import_model

    model = import_model(path)
    alone = [
        (op.name, "a recurrent layer: its program is not explored")
        for op in model.graph.ops
        if isinstance(op, Recurrent)
    ]
    host_ops = (*model.host_ops, *alone)
    if not host_ops:
        return [Network.of(model.graph, name_of(path), weight)]
    parts = accelerator_graphs(model.graph)
    if not parts:
        shown = "; ".join(f"{name}: {reason}" for name, reason in host_ops[:4])
        more = len(host_ops) - 4
        raise NetworkError(
            f"{path}: no operator can run on the accelerator, recurrent layers aside, so there is nothing to explore: "
            f"{shown}" + (f"; and {more} more" if more > 0 else "")
        )
    return [
        Network.of(part, f"{name_of(path)}{PART}{number}", weight, float(number == 1), host_ops if number == 1 else ())
        for number, part in enumerate(parts, 1)
    ]


def split_weight(text: str) -> tuple[str, float]:
    """``MODEL[=WEIGHT]`` of a command line. Raises :class:`NetworkError`."""
    path, separator, weight = text.rpartition("=")
    if not separator or Path(text).exists():
        return text, 1.0
    return path, parse_weight(text, weight)


def parse_weight(text: str, weight: str) -> float:
    """A weight: a positive number. Raises :class:`NetworkError` naming ``text``."""
    try:
        value = float(weight)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise NetworkError(f"{text}: the weight must be a positive number, e.g. {text.partition('=')[0]}=2")
    return value
