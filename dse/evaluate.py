"""One point of the space: its objectives, or the named reason why it is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.config import Config, ConfigError
from tilewright.dse.latency import Estimate, estimate, simulated_cycles
from tilewright.dse.resources import BOARDS, excess, limits, resources
from tilewright.dse.shapes import NetworkShape, network_shape
from tilewright.dse.space import Space, Value
from tilewright.errors import TilewrightError
from tilewright.jit.graph import Graph
from tilewright.jit.kernels.base import PlaceError

#: objective -> unit; all are minimised
OBJECTIVES = {"latency": "us", "dsp": "DSP slices", "bram": "36 Kbit blocks"}


class ObjectiveError(TilewrightError):
    """An unknown objective or board."""


@dataclass(frozen=True)
class Network:
    """A network of the sweep; ``weight`` is its share in the latency objective."""

    name: str
    graph: Graph
    shape: NetworkShape
    weight: float = 1.0

    @classmethod
    def of(cls, graph: Graph, name: str = "", weight: float = 1.0) -> Network:
        """A graph with its shape."""
        return cls(name or graph.name, graph, network_shape(graph), weight)


@dataclass
class Outcome:
    """What a point gives: ``values`` per objective, or ``reason`` why it cannot be had.

    ``excess`` is the largest share by which a board limit is passed (0: within all).
    """

    config: Config | None
    values: dict[str, float] = field(default_factory=dict)
    cycles: dict[str, int] = field(default_factory=dict)  #: per network
    reason: str | None = None
    excess: float = 0.0


class Evaluator:
    """Objectives of a Config for a set of networks on a board (None: no limits)."""

    def __init__(self, networks: list[Network], board: str | None, objectives: tuple[str, ...]) -> None:
        for name in objectives:
            if name not in OBJECTIVES:
                raise ObjectiveError(f"{name}: no such objective; the objectives are {', '.join(OBJECTIVES)}")
        if len(set(objectives)) != len(objectives) or not objectives:
            raise ObjectiveError("objectives: one or more, each named once")
        if board is not None and board not in BOARDS:
            raise ObjectiveError(f"{board}: no such board; the boards are {', '.join(BOARDS)}")
        self.networks, self.board, self.objectives = networks, board, objectives

    def __call__(self, space: Space, point: Mapping[str, Value]) -> Outcome:
        """Analytical evaluation; never raises for a point that cannot be built or cannot run a network."""
        try:
            config = space.config(point)
        except ConfigError as error:
            return Outcome(None, reason=str(error))
        used = resources(config)
        over, reason = 0.0, None
        if self.board is not None:
            limit = limits(self.board)
            over = max(0.0, used.dsp / limit["dsp"] - 1, used.bram36 / limit["bram36"] - 1)
            reason = excess(used, self.board)
        cycles = {}
        for network in self.networks:
            try:
                cycles[network.name] = estimate(network.shape, config).cycles
            except PlaceError as error:
                return Outcome(config, reason=f"{network.name}: {error}", excess=over)
        return Outcome(config, self._values(config, cycles), cycles, reason, over)

    def confirm(self, config: Config) -> Outcome:
        """The second fidelity: every network compiled and run on the cycle simulator."""
        cycles = {}
        for network in self.networks:
            try:
                cycles[network.name] = simulated_cycles(network.graph, config)
            except PlaceError as error:
                return Outcome(config, reason=f"{network.name}: {error}")
        return Outcome(config, self._values(config, cycles), cycles)

    def layers(self, config: Config) -> dict[str, Estimate]:
        """Per network: what binds each layer. Raises :class:`PlaceError`."""
        return {network.name: estimate(network.shape, config) for network in self.networks}

    def _values(self, config: Config, cycles: Mapping[str, int]) -> dict[str, float]:
        used = resources(config)
        latency = sum(n.weight * cycles[n.name] for n in self.networks) / config.clock_mhz
        known: dict[str, Any] = {"latency": round(latency, 3), "dsp": float(used.dsp), "bram": float(used.bram36)}
        return {name: known[name] for name in self.objectives}
