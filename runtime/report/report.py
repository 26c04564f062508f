"""The report of a run: what it cost, per layer, against its lower bound. ``docs/reports.md`` explains every number."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tilewright.files import write_atomic, write_files
from tilewright.isa.spec import Engine
from tilewright.runtime.artifact import Artifact, accelerator_layers, dropped_macs, is_stateful, placed_macs, unproven
from tilewright.runtime.device_base import Counters
from tilewright.runtime.report.advice import advice
from tilewright.runtime.report.host_work import on_board
from tilewright.runtime.report.html import render_html, render_small
from tilewright.runtime.report.layers import layer_entry, program_layers, ratio
from tilewright.runtime.report.measured import measured_lines
from tilewright.runtime.report.model_explorer import model_explorer_file, node_data
from tilewright.runtime.report.run import ProgramRun, launches
from tilewright.runtime.report.trace import trace_events
from tilewright.runtime.steps import LaunchStep

FORMAT = 2  #: of the JSON form: counts up when a key goes or changes its meaning (docs/versions.md)


@dataclass
class Timings:
    """Seconds of host time in one call of ``run``: packing, device (simulation), unpacking, host operators."""

    pack_s: float = 0.0
    launch_s: float = 0.0
    unpack_s: float = 0.0
    host_s: float = 0.0
    interpreted_s: dict[tuple[str, ...], float] = field(default_factory=dict)  #: of host_s, by operators of a step


def sum_timings(parts: Iterable[Timings]) -> Timings:
    """What several took together."""
    total = Timings()
    for part in parts:
        total.pack_s += part.pack_s
        total.launch_s += part.launch_s
        total.unpack_s += part.unpack_s
        total.host_s += part.host_s
        for operators, seconds in part.interpreted_s.items():
            total.interpreted_s[operators] = total.interpreted_s.get(operators, 0.0) + seconds
    return total


@dataclass(frozen=True)
class Steady:
    """Inferences under way at once: threads of the CPU, ``in_flight`` inferences at most, and how many ended in a
    second once the first had (None: only one launch, or time that a simulator took)."""

    jobs: int
    in_flight: int
    measured_per_second: float | None


@dataclass(frozen=True, repr=False)
class Report:
    """Cycles, lower bounds and utilisation of one run, per inference; :meth:`to_dict` is the JSON form."""

    artifact: Artifact
    device: str
    inferences: int
    runs: tuple[ProgramRun, ...]
    timings: Timings = field(default_factory=Timings)
    digests: Mapping[str, str] = field(default_factory=dict)  #: SHA-256 of all inputs, and of all outputs
    steady: Steady | None = None  #: of a run with inferences in flight
    stream: bool = False  #: whether the inferences follow on each other

    @cached_property
    def longest(self) -> tuple[ProgramRun, ...]:
        """The programs that decide how long an inference takes: of those that ran together the one that ended last."""
        return tuple(max(together, key=lambda run: run.counters.cycles) for together in launches(self.runs))

    @cached_property
    def _entries(self) -> list[list[dict[str, Any]]]:
        """The layers of each program."""
        return [program_layers(run, self.artifact.config) for run in self.runs]

    @cached_property
    def layers(self) -> list[dict[str, Any]]:
        """One entry per operator in execution order; host operators outside the programs come last."""
        entries = [entry for layers in self._entries for entry in layers]
        for layer in self.artifact.host_layers:
            entries.append(layer_entry({**layer, "place": "host"}))
        titles = {o["name"]: o.get("title", "") for o in self.artifact.options.get("operators", [])}
        return [{**entry, "title": titles.get(entry["name"], "")} for entry in entries]

    @property
    def notes(self) -> list[str]:
        """What to know before trusting the numbers: what was moved off the accelerator, what is unproven."""
        options = self.artifact.options
        notes = []
        if is_stateful(self.artifact) and self.stream:
            notes.append("states that the network keeps went on: the inferences are steps of one stream")
        elif is_stateful(self.artifact):
            notes.append("states that the network keeps were reset for each inference; --stream lets them go on")
        elif self.stream:
            notes.append("the network keeps no state: no inference of the stream depends on those before it")
        notes += [f"{name} runs on the CPU, exactly: {reason}" for name, reason in options.get("moved", [])]
        notes += [f"a schedule was rejected, another taken: {reason}" for reason in options.get("rejected", [])]
        if reason := options.get("unplaced"):
            notes.append(f"no placement was sought, all that can runs on the accelerator: {reason}")
        if others := options.get("left_out"):
            notes.append(f"the file's first network alone was compiled, not its signatures {', '.join(others)}")
        if self.artifact.batch > 1:
            notes.append(f"the batch of {self.artifact.batch} runs image by image: all numbers are those of one image")
        speedup = ratio(self.cycles, self.interval_cycles)
        if len(self.longest) < len(self.runs):
            notes.append(
                f"{len(self.runs)} programs on {self.cores} cores, some at the same time: cycles are those of the "
                f"longest of each of {len(self.longest)} launches"
            )
        elif self.timed and self.cores > 1 and speedup < 0.99 * self.cores:
            notes.append(
                f"{self.cores} cores give {speedup:.2f} times the results of one: each reads and writes "
                f"{ratio(sum(r.counters.read_bytes + r.counters.write_bytes for r in self.runs), self.cycles):.1f} "
                "bytes a cycle, and dram_bandwidth is what all share"
            )
        here, everywhere = placed_macs(self.artifact)
        if here < everywhere:
            why = advice(options["operators"])
            notes.append(f"{here / everywhere:.1%} of the model's {everywhere:,} MACs run on the accelerator{why}")
        notes += [
            f"compared with the reference on some inputs, not proven for all: {layer['compared']}"
            for layer in accelerator_layers(self.artifact)
            if "compared" in layer
        ]
        if saved := dropped_macs(self.artifact):
            notes.append(f"{saved:,} MACs are left out: of channels that nobody reads, constant or equal ones")
        if doubtful := unproven(self.artifact):
            first = f"{doubtful[0]['name']}: {doubtful[0]['exact']}"
            notes.append(
                f"{len(doubtful)} operators are not proven exact for every input ({first}); tilewright inspect lists "
                "them, --exact proven leaves them to the CPU"
            )
        if fallen := self._fallback():
            notes.append(fallen)
        if options.get("fast_host"):
            notes.append("operators on the host ran in fast kernels, which may differ from the reference by an LSB")
        return notes

    def _fallback(self) -> str:
        """What it costs that operators fall back because they are not proven; empty where none does."""
        shares = {o["name"]: o["in_doubt"] for o in self.artifact.options.get("operators", []) if "in_doubt" in o}
        if not shares:
            return ""
        steps = {names: s for names, s in self.timings.interpreted_s.items() if not shares.keys().isdisjoint(names)}
        most = max(shares, key=shares.__getitem__)
        beside = len({name for names in steps for name in names} - shares.keys())
        milliseconds = 1e3 * sum(steps.values()) / self.inferences
        return (
            f"{len(shares)} operators fall back to the interpreter because they are not proven (most in doubt: {most}, "
            f"for {100 * shares[most]:.2g} % of the sums that a channel can reach). They take {milliseconds:.2f} ms of "
            f"this PC in {len(steps)} steps{f', with {beside} more operators' if beside else ''}, and the accelerator "
            f"is launched {len(launches(self.runs))} times; --exact close keeps them on it"
        )

    @property
    def timed(self) -> bool:
        """Whether the device counts cycles; where it does not, whatever follows from them is None in the JSON form."""
        return all(run.counters.cycles for run in self.runs)

    @property
    def cycles(self) -> int:
        """Cycles of one inference, all launches; 0 where the device counts none."""
        return sum(run.counters.cycles for run in self.longest)

    @property
    def array_macs_per_cycle(self) -> int:
        """Multiply-accumulates the array can do in a cycle."""
        return self.artifact.config.array_macs

    @property
    def array_cycles(self) -> int:
        """Least cycles of array work, all layers."""
        return sum(layer["array_cycles"] for layer in self.layers)

    @cached_property
    def lower_bounds(self) -> dict[str, int]:
        """Cycles that each of array, ALU, read and write channel works at least, over all layers."""
        return _together(run.lower_bounds for run in self.runs)

    @property
    def lower_bound_cycles(self) -> int:
        """Cycles of one inference at least: of each program the most that array, ALU or a channel of the bus has to
        do, of programs that ran together the most of all, and launches one after another."""
        return sum(max(max(run.lower_bounds.values()) for run in together) for together in launches(self.runs))

    @cached_property
    def causes(self) -> dict[str, int]:
        """Cycles by cause, all layers of the programs that decide; empty where the device gives no events."""
        if any(run.attribution is None for run in self.runs):
            return {}
        longest = {id(run) for run in self.longest}
        deciding = [layers for run, layers in zip(self.runs, self._entries) if id(run) in longest]
        return _together(entry["cycles_by_cause"] for e in deciding for entry in e if "cycles_by_cause" in entry)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one inference in the channels that the compiler kept, padding left out."""
        return sum(layer["macs"] for layer in self.layers)

    @property
    def utilization(self) -> float:
        """Share of the array's multipliers doing useful work over all cycles; weights in blocks of zeros are none."""
        return ratio(sum(layer["useful"] for layer in self.layers), self._core_cycles * self.array_macs_per_cycle)

    @property
    def _core_cycles(self) -> int:
        """Cycles of one inference on all cores together."""
        return sum(run.counters.cycles for run in self.runs)

    @property
    def latency_ms(self) -> float:
        """Milliseconds of accelerator time per inference at the configured clock, other cores at rest."""
        return self.cycles / (self.artifact.config.clock_mhz * 1e3)

    @property
    def cores(self) -> int:
        """Accelerators of the device."""
        return max((run.counters.cores for run in self.runs), default=1)

    @property
    def interval_cycles(self) -> float:
        """Cycles from one result to the next while all cores are busy, all programs."""
        return sum(run.interval for run in self.longest)

    @property
    def interval_ms(self) -> float:
        """Milliseconds of the accelerators' time for one more result."""
        return self.interval_cycles / (self.artifact.config.clock_mhz * 1e3)

    @cached_property
    def board(self) -> dict[str, Any] | None:
        """What an inference takes on the Config's board, the host's work included: an estimate."""
        alone = sum(run.counters.cycles for run in self.runs)  # the C runtime uses one core
        return on_board(self.artifact, alone / (self.artifact.config.clock_mhz * 1e3) if self.timed else None)

    @property
    def host_ms(self) -> float:
        """Milliseconds per inference that this machine spent on packing, unpacking and operators of the host."""
        return sum(self._host_ms().values())

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; cycles, bytes and counts are per inference."""
        config = self.artifact.config

        def measured(value: float) -> float | None:
            return value if self.timed else None

        return {
            "format": FORMAT,
            "model": self.artifact.name,
            "config": config.name,
            "config_fingerprint": config.fingerprint,
            "config_parameters": config.to_dict(),
            "device": self.device,
            "inferences": self.inferences,
            "digests": dict(self.digests),
            "cycles": measured(self.cycles),
            "lower_bound_cycles": self.lower_bound_cycles,
            "lower_bound_ratio": measured(ratio(self.cycles, self.lower_bound_cycles)),
            "lower_bounds": self.lower_bounds,
            "array_cycles": self.array_cycles,
            "cycles_by_cause": self.causes,
            "macs": self.macs,
            "array_macs_per_cycle": self.array_macs_per_cycle,
            "utilization": measured(self.utilization),
            "dram_read_bytes": sum(run.counters.read_bytes for run in self.runs),
            "dram_write_bytes": sum(run.counters.write_bytes for run in self.runs),
            "instructions": sum(run.program.instruction_count for run in self.runs),
            "uops": sum(run.traffic.uops_loaded for run in self.runs),
            "uops_issued": sum(run.traffic.uops_issued for run in self.runs),
            "clock_mhz": config.clock_mhz,
            "latency_ms": measured(self.latency_ms),
            "cores": self.cores,
            "interval_cycles": measured(self.interval_cycles),
            "inferences_per_second": measured(ratio(1e3, self.interval_ms)),
            "board": self.board,
            **self._host_ms(),
            "with_host_ms": measured(self.latency_ms + self.host_ms),
            "with_host_per_second": measured(ratio(1e3, self.interval_ms + self.host_ms)),
            "steady": self._steady(),
            "stream": self.stream,
            "compile_s": self.artifact.compile_seconds,
            "simulate_s": self.timings.launch_s,
            "host": {key: value for key, value in asdict(self.timings).items() if key != "interpreted_s"},
            "interpreted_ms": [
                {"operators": [*operators], "ms": 1e3 * seconds / self.inferences}
                for operators, seconds in self.timings.interpreted_s.items()
            ],
            "engines": self.engines(),
            "stalls": self._stalls(),
            "layers": self.layers,
            "measured": measured_lines(self.artifact.options),
            "outputs": list(self.artifact.options.get("measured", [])),
            "notes": self.notes,
            "macs_of_model": placed_macs(self.artifact)[1],
            "operators": list(self.artifact.options.get("operators", [])),
        }

    def _steady(self) -> dict[str, Any] | None:
        """What limits the results of cores and CPU that work on different inferences: the busier of them."""
        if self.steady is None:
            return None
        busy = {"cores": self.interval_ms, "CPU": self.host_ms / self.steady.jobs}
        busiest = max(busy, key=lambda who: busy[who])
        return {
            "jobs": self.steady.jobs,
            "in_flight": self.steady.in_flight,
            "cores_ms": busy["cores"] if self.timed else None,
            "host_ms": busy["CPU"],
            "busiest": busiest if self.timed else None,
            "inferences_per_second": ratio(1e3, busy[busiest]) if self.timed else None,
            "measured_per_second": self.steady.measured_per_second,
        }

    def _host_ms(self) -> dict[str, float]:
        """Milliseconds of an inference on this machine."""
        parts = {"pack_ms": self.timings.pack_s, "unpack_ms": self.timings.unpack_s, "cpu_ms": self.timings.host_s}
        return {name: 1e3 * seconds / self.inferences for name, seconds in parts.items()}

    def engines(self) -> dict[str, dict[str, Any]]:
        """Busy cycles of each engine and their share of all; empty where the device gives no events."""
        if any(run.activity is None for run in self.runs):
            return {}
        busy = {e.name: sum(run.activity.busy(e) for run in self.runs if run.activity) for e in Engine}
        return {name: {"busy_cycles": n, "share": ratio(n, self._core_cycles)} for name, n in busy.items()}

    def _stalls(self) -> dict[str, int]:
        return _together(run.counters.stalls for run in self.runs)

    def save_json(self, path: str | Path) -> None:
        """Write :meth:`to_dict` as JSON; the file appears whole or not at all."""
        write_atomic(path, json.dumps(self.to_dict(), indent=1) + "\n")

    def save_trace(self, path: str | Path) -> None:
        """Write a trace for Perfetto or ``chrome://tracing``, one track per engine."""
        write_atomic(path, json.dumps(trace_events(self.to_dict(), self.longest)) + "\n")

    def save_model_explorer(self, path: str | Path) -> list[Path]:
        """Write node data for Model Explorer, a file for each value: of ``net.json`` these are ``net-cycles.json``,
        ``net-ratio.json``, ``net-place.json`` and ``net-exact.json``. Returns their paths.
        """
        sets = node_data(self.artifact.options.get("operators", []), self.layers)
        texts = {model_explorer_file(path, name).name: json.dumps(data, indent=1) + "\n" for name, data in sets.items()}
        return write_files(Path(path).parent, texts)

    def save_html(self, path: str | Path) -> None:
        """Write one self-contained HTML file: layer table, roofline, engine timeline."""
        write_atomic(path, render_html(self.to_dict(), self.longest))

    def _repr_html_(self) -> str:
        """For a notebook's cell; :meth:`save_html` writes the whole page."""
        return render_small(self.to_dict())

    def __repr__(self) -> str:
        return f"<Report of {self}>"

    def __str__(self) -> str:
        subject = f"{self.artifact.name} on {self.artifact.config.name} ({self.device})"
        if not self.timed:
            return f"{subject}: cycles not counted, lower bound {self.lower_bound_cycles:,}"
        return (
            f"{subject}: {self.cycles:,} cycles, "
            f"lower bound {self.lower_bound_cycles:,} ({ratio(self.cycles, self.lower_bound_cycles):.2f}x), "
            f"utilisation {self.utilization:.1%}, {self.latency_ms:.3f} ms"
        )


def build_report(
    artifact: Artifact,
    device: str,
    inferences: int,
    counters: Mapping[int, Counters],
    timings: Timings,
    digests: Mapping[str, str],
    steady: Steady | None = None,
    stream: bool = False,
) -> Report:
    """The report of a run; ``counters`` by program number."""
    first = {p: step.program for step in artifact.steps if isinstance(step, LaunchStep) for p in step.programs}
    runs = [
        ProgramRun(artifact.programs[index], counted, first[index] if counted.together else None)
        for index, counted in sorted(counters.items())
    ]
    return Report(artifact, device, inferences, tuple(runs), timings, digests, steady, stream)


def _together(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums by name."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)
