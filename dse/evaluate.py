"""One point of the space: its objectives, or the named reason why it is none.

Three fidelities: :class:`Evaluator` called on a point is the analytical models, :meth:`Evaluator.confirm` compiles and
runs the cycle simulator, :meth:`Evaluator.synthesise` counts resources with Yosys. None has side effects but the
synthesis cache, and an evaluator can be pickled, so that points may be evaluated anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tilewright.config import PARAMETERS, Config, ConfigError
from tilewright.dse import clock
from tilewright.dse.built import built
from tilewright.dse.networks import Network
from tilewright.dse.options import FASTEST, SCHEDULES, CompilerOptions
from tilewright.dse.resources import BOARDS, Resources, excess, limits, shared, shown
from tilewright.dse.space import Space, Value
from tilewright.dse.synthesis import synthesised
from tilewright.errors import TilewrightError
from tilewright.hw.parts import unknown_board
from tilewright.jit.compiler import compile_graph
from tilewright.jit.cost.estimate import SCHEDULES as SCHEDULES_TRIED
from tilewright.jit.cost.shared import shared_interval
from tilewright.jit.cost.tiles import AnyEstimate
from tilewright.jit.energy.actions import Counts, count_estimated, count_program
from tilewright.jit.energy.model import Energy, EnergyTable, default_table, energy
from tilewright.jit.errors import PlaceError
from tilewright.jit.graph import Graph
from tilewright.jit.plan.policy import Policy
from tilewright.sim import simulate_timing, steady_interval

__all__ = ["OBJECTIVES", "Evaluator", "Network", "Objective", "ObjectiveError", "Outcome", "cost"]


@dataclass(frozen=True)
class Objective:
    """What a point is judged by."""

    unit: str
    what: str
    maximise: bool = False


OBJECTIVES = {
    "latency": Objective("us", "time of one run of every network, each times its weight"),
    "throughput": Objective(
        "images/s", "images a second when each network gets its weight's share of them, all cores at work", True
    ),
    "energy": Objective("uJ", "energy of one run of every network, each times its weight"),
    "area": Objective("% of the board", "largest share of the board's DSP, block RAM, LUT and FF that is taken"),
    "dsp": Objective("DSP slices", "DSP slices"),
    "bram": Objective("36 Kbit blocks", "block RAMs; an 18 Kbit one counts one half"),
    "lut": Objective("LUTs", "look-up tables, LUT RAM included"),
    "ff": Objective("flip-flops", "flip-flops"),
}

#: percent of a board's LUTs that a design may take: what is fuller rarely routes at its clock
MAX_LUT = 80.0
ClockSource = Literal["config", "model"]
CLOCKS: tuple[ClockSource, ...] = ("model", "config")
#: a resource's name among the objectives -> in a Resources record and in a synthesis report
_RESOURCES = {"dsp": ("dsp", "DSP"), "bram": ("bram36", "BRAM"), "lut": ("lut", "LUT"), "ff": ("ff", "FF")}


class ObjectiveError(TilewrightError):
    """An unknown objective, board or clock, or ones that contradict the space."""


@dataclass
class Outcome:
    """What a point gives: ``values`` per objective, or ``reason`` why it cannot be had.

    ``excess`` is the largest share by which a board limit is passed (0: within all). ``metrics`` holds what is known
    of the objectives that were not asked for.
    """

    config: Config | None
    values: dict[str, float] = field(default_factory=dict)
    cycles: dict[str, int] = field(default_factory=dict)  #: per network
    reason: str | None = None
    excess: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)


def cost(objective: str, value: float) -> float:
    """What is minimised: the value, negated where more is better."""
    return -value if OBJECTIVES[objective].maximise else value


class Evaluator:
    """Objectives of a Config for a set of networks on a board (None: no limits).

    ``clock_source``: ``config`` takes every point at its ``clock_mhz``, ``model`` at what :mod:`tilewright.dse.clock`
    expects of it on the board. ``table``: energies per action (the built-in ones if not given). ``max_lut``: percent of
    the board's LUTs that a point may take.
    """

    def __init__(
        self,
        networks: list[Network],
        board: str | None,
        objectives: tuple[str, ...],
        clock_source: ClockSource = "config",
        table: EnergyTable | None = None,
        max_lut: float = MAX_LUT,
    ) -> None:
        for name in objectives:
            if name not in OBJECTIVES:
                raise ObjectiveError(
                    f"{name or repr(name)}: no such objective; the objectives are {', '.join(OBJECTIVES)}"
                )
        if len(set(objectives)) != len(objectives) or not objectives:
            raise ObjectiveError("objectives: one or more, each named once")
        if board is not None and board not in BOARDS:
            raise ObjectiveError(unknown_board(board))
        if clock_source not in CLOCKS:
            raise ObjectiveError(f"{clock_source}: no such clock; it is one of {', '.join(CLOCKS)}")
        for name, needs in (("area", "is a share of a board's resources"), ("model", "depends on the board's part")):
            if board is None and name in (*objectives, str(clock_source)):
                raise ObjectiveError(f"{name}: {needs}; name a board")
        if not 0 < max_lut <= 100:
            raise ObjectiveError(f"max_lut {max_lut:g}: must be above 0 and at most 100 percent")
        self.networks, self.board, self.objectives = networks, board, objectives
        self.clock_source, self.table, self.max_lut = clock_source, table or default_table(), max_lut

    @property
    def directions(self) -> list[str]:
        """``minimize`` or ``maximize`` per objective, as samplers want it."""
        return ["maximize" if OBJECTIVES[name].maximise else "minimize" for name in self.objectives]

    def identity(self) -> list[Any]:
        """What besides space and networks decides over values: plain data, equal for equal evaluators."""
        known: list[Any] = [self.board, list(self.objectives), self.max_lut]
        if self.clock_source != "config":
            known.append(self.clock_source)
        return known if self.table == default_table() else [*known, self.table.text]

    def config(self, space: Space, point: Mapping[str, Value]) -> Config:
        """The Config that a point stands for, clock included. Raises :class:`ConfigError` on a contradiction."""
        return self.clocked(space.config(point))

    def clocked(self, config: Config) -> Config:
        """``config`` with the clock that it is taken at."""
        if self.clock_source == "config" or self.board is None:
            return config
        allowed, estimated = PARAMETERS["clock_mhz"], int(clock.estimate(config, self.board).mhz)
        return config.replace(clock_mhz=min(allowed.high, max(allowed.low, estimated)))

    def __call__(self, space: Space, point: Mapping[str, Value]) -> Outcome:
        """Analytical evaluation; never raises for a point that cannot be built or cannot run a network."""
        try:
            config = self.config(space, point)
        except ConfigError as error:
            return Outcome(None, reason=str(error))
        counts = _counts(self.used(config))
        over = self._over(counts, config)
        reason = self.unfit(config) if over else None
        try:
            options = space.options(point)
            found = self.layers(config, options)
        except PlaceError as error:
            return Outcome(config, reason=str(error), excess=over)
        cycles = {name: e.cycles for name, e in found.items()}
        spent = self.spent(config, found, options) if "energy" in self.objectives else None
        return self._outcome(config, cycles, counts, spent, reason, over, self.intervals(config, cycles, found))

    def buildable(self, space: Space, point: Mapping[str, Value]) -> bool:
        """Whether a point contradicts nothing and fits the board; nothing is said about networks."""
        try:
            return self.unfit(self.config(space, point)) is None
        except ConfigError:
            return False

    def unfit(self, config: Config) -> str | None:
        """Why a Config cannot be built on the board: its bus, or too few of a resource; None if it can."""
        if self.board is None:
            return None
        limit = limits(self.board)
        if config.memory_ports > limit["axi_ports"]:
            pair, lower = ("", "") if config.axi_ports == 1 else (f", axi_ports = {config.axi_ports}", " or axi_ports")
            return (
                f"{self.board}: cores = {config.cores}{pair}: there are {limit['axi_ports']} memory ports; "
                f"lower cores{lower}"
            )
        widest = limit["axi_bits"]
        if config.axi_bits > widest:
            return f"{self.board}: axi_bits = {config.axi_bits}: the board's memory ports have {widest}; lower axi_bits"
        return excess(self.used(config), self.board, self.max_lut)

    def used(self, config: Config) -> Resources:
        """What a Config takes, the board's own logic included."""
        return built(config, self.board)

    def confirm(self, config: Config, options: CompilerOptions | None = None) -> Outcome:
        """The second fidelity: every network compiled and run on the cycle simulator."""
        options = options or CompilerOptions()
        cycles: dict[str, int] = {}
        intervals: dict[str, float] = {}
        spent: dict[str, Energy] | None = {} if "energy" in self.objectives else None
        for network in self.networks:
            try:
                programs = options.compile(network.graph, config).programs
            except PlaceError as error:
                return Outcome(config, reason=f"{network.name}: {error}")
            each = [simulate_timing(program).cycles for program in programs]
            cycles[network.name] = sum(each)
            intervals[network.name] = sum(steady_interval(config, program) for program in programs)
            if spent is not None:
                counts: Counts = sum((count_program(p, n) for p, n in zip(programs, each, strict=True)), Counts())
                spent[network.name] = energy(counts, config, self.table)
        return self._outcome(config, cycles, _counts(self.used(config)), spent, None, 0.0, intervals)

    def synthesise(self, config: Config) -> Outcome:
        """The third fidelity: resources by Yosys, for objectives that are resources; a kept report is used again.

        Raises :class:`ToolError` where Yosys is needed and missing.
        """
        report, more = synthesised(config.replace(cores=1)), Resources({"cores": shared(config.cores)})
        around = Resources({n: c for n, c in self.used(config).modules.items() if n.startswith("board.")})
        counts = {
            name: config.cores * float(report["used"][key]) + more.total(ours) + around.total(ours)
            for name, (ours, key) in _RESOURCES.items()
        }
        metrics = self._resource_metrics(counts)
        reason = self._too_large(counts, report["tool"])
        values = {name: metrics[name] for name in self.objectives if name in metrics}
        return Outcome(config, values, {}, reason, self._over(counts, config), metrics)

    def layers(self, config: Config, options: CompilerOptions | None = None) -> dict[str, AnyEstimate]:
        """Per network: cycles, and what binds each layer. Raises :class:`PlaceError` naming network and layer."""
        found = {}
        options = options or CompilerOptions()
        policies: tuple[Policy, ...] = SCHEDULES_TRIED if options.schedule == FASTEST else SCHEDULES[options.schedule]
        for network in self.networks:
            least = network.weight_reason(config)
            if least is not None:
                raise PlaceError(f"{network.name}: {least}")
            try:
                found[network.name] = network.estimate(config, policies, options.keep_intermediates)
                if options == CompilerOptions(substitutions=True):
                    changed = network.substituted(config).estimate(config, policies)
                    found[network.name] = min(found[network.name], changed, key=lambda estimate: estimate.cycles)
            except PlaceError as error:
                raise PlaceError(f"{network.name}: {error}") from error
        return found

    def spent(
        self, config: Config, found: Mapping[str, AnyEstimate], options: CompilerOptions | None = None
    ) -> dict[str, Energy]:
        """Per network: energy of one inference, counted from the tables behind ``found`` (:meth:`layers`)."""
        return {n.name: energy(count_estimated(found[n.name]), config, self.table) for n in self.networks}

    def intervals(
        self, config: Config, cycles: Mapping[str, int], found: Mapping[str, AnyEstimate]
    ) -> dict[str, float]:
        """Per network that takes ``cycles`` on a core alone: cycles from one result to the next with all at work."""
        if config.cores == 1:
            return {name: float(one) for name, one in cycles.items()}
        moved = {name: count_estimated(estimate)["dram_byte"] for name, estimate in found.items()}
        return {name: shared_interval(config, one, moved[name]) for name, one in cycles.items()}

    def metrics(
        self, config: Config, cycles: Mapping[str, int], spent: Mapping[str, Energy] | None,
        intervals: Mapping[str, float],
    ) -> dict[str, float]:  # fmt: skip
        """All objectives that are known of a Config whose networks take ``cycles``, and ``intervals`` of all cores."""
        return self._metrics(config, cycles, _counts(self.used(config)), spent, intervals)

    def _outcome(
        self, config: Config, cycles: dict[str, int], counts: Mapping[str, float],
        spent: Mapping[str, Energy] | None, reason: str | None, over: float, intervals: Mapping[str, float],
    ) -> Outcome:  # fmt: skip
        known = self._metrics(config, cycles, counts, spent, intervals)
        return Outcome(config, {name: known[name] for name in self.objectives}, cycles, reason, over, known)

    def _metrics(
        self, config: Config, cycles: Mapping[str, int], counts: Mapping[str, float],
        spent: Mapping[str, Energy] | None, intervals: Mapping[str, float],
    ) -> dict[str, float]:  # fmt: skip
        latency, busy = (
            sum(n.weight * each[n.name] for n in self.networks) / config.clock_mhz for each in (cycles, intervals)
        )
        images = sum(n.weight * n.images for n in self.networks)
        known = {"latency": round(latency, 3), "throughput": round(1e6 * images / busy, 3) if busy else 0.0}
        if spent is not None:
            known["energy"] = round(sum(n.weight * spent[n.name].total for n in self.networks), 4)
        return known | self._resource_metrics(counts)

    def _resource_metrics(self, counts: Mapping[str, float]) -> dict[str, float]:
        known = dict(counts)
        if self.board is not None:
            known["area"] = round(100 * max(self._shares(counts).values()), 2)
        return known

    def _shares(self, counts: Mapping[str, float]) -> dict[str, float]:
        limit = limits(self.board) if self.board is not None else {}
        return {
            name: counts[name] / limit[key] for name, (key, _) in _RESOURCES.items() if key in limit and name in counts
        }

    def _over(self, counts: Mapping[str, float], config: Config) -> float:
        """The largest share by which a limit is passed."""
        ports = {"axi_bits": config.axi_bits, "axi_ports": config.memory_ports}
        limit = ports if self.board is None else limits(self.board)
        over = [ports[name] / limit[name] - 1 for name in ports]
        shares = (share / self._allowed(name) for name, share in self._shares(counts).items())
        return max(0.0, *over, *(share - 1 for share in shares))

    def _allowed(self, name: str) -> float:
        """The share of a resource that may be taken."""
        return self.max_lut / 100 if name == "lut" else 1.0

    def _too_large(self, counts: Mapping[str, float], tool: str) -> str | None:
        shares = self._shares(counts)
        worst = max(shares, key=lambda name: shares[name] / self._allowed(name), default=None)
        if worst is None or shares[worst] <= self._allowed(worst):
            return None
        there = limits(str(self.board))[_RESOURCES[worst][0]]
        return (
            f"{self.board}: {shown(counts[worst])} {OBJECTIVES[worst].unit} are needed by {tool}, there are {there:g}"
            + (
                f", of which {self.max_lut:g} % may be used (--max-lut)"
                if worst == "lut" and shares[worst] <= 1
                else ""
            )
        )


def simulated_cycles(graph: Graph, config: Config) -> int:
    """Cycles of the compiled graph on the cycle simulator. Raises :class:`PlaceError` if it does not fit."""
    return sum(simulate_timing(program).cycles for program in compile_graph(graph, config).programs)


def _counts(used: Resources) -> dict[str, float]:
    return {name: float(getattr(used, key)) for name, (key, _) in _RESOURCES.items()}
