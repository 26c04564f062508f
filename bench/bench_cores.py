"""Several cores and the CPU: greedy, side by side, best placement, pipeline and split, predicted and simulated.

``python -m bench.bench_cores MODEL --config zcu104 --cores 1 2 4`` prints a row for each: the time from one result to
the next as the planner expects it and as the simulator counts it under the DRAM's limit, in cycles, and how many times
the results of the greedy placement on one core that is; then likewise the time of one inference alone, of the greedy
placement and of the best, whose parts cores may share, with the host between them or exchanging through memory. The
best is shown as planned from estimates, and as settled with the simulator in the loop; what does not become one program
a part is left out. CPU times are this machine's. ``--dram`` is what the board's DRAM moves at most, in MB/s; known are
ZCU104 (64 bits of DDR4-2400) and PYNQ-Z2 (16 of DDR3-1050).
No Config has less than what the ports of a core ask for at once: where a board's DRAM does, that is taken, and printed.

``--alone BYTES ...`` prints instead how many times the results of one core the cores give that share a DRAM of so many
bytes a cycle, of the network's programs as ``compile`` makes them unasked, without the CPU.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.common import machine, options_of, write_json
from tilewright.config import Config, load_config
from tilewright.isa.program import Program
from tilewright.jit.network import compile_source
from tilewright.jit.place.exchange import exchanged
from tilewright.jit.place.execute import compile_placed, simulate_latency, simulate_placed
from tilewright.jit.place.placed import Placed, place_source
from tilewright.jit.place.problem import Solution
from tilewright.jit.place.settle import settle
from tilewright.jit.source import Source, open_source
from tilewright.progress import Progress
from tilewright.runtime.records import Objective
from tilewright.sim import simulate_timing, steady_interval
from tilewright.terminal import ProgressReporter

MEGABYTES = {"zcu104": 19200, "pynq-z2": 2100}  #: a second, of the boards' DRAM by their data sheets


def dram_bytes(config: Config, megabytes: int) -> int:
    """Bytes of DRAM a cycle, at least what a core's ports ask for."""
    return max(megabytes // config.clock_mhz, 2 * config.beat_bytes) if megabytes else 0


def rows_of(
    source: Source, placed: Placed, known: dict[tuple[int, ...], list[Program]], progress: Progress
) -> list[dict[str, Any]]:
    """The placements of one number of cores; ``known`` keeps programs by their parts' operators."""
    ways: list[tuple[str, Solution | None, bool]] = [
        ("greedy side by side", placed.greedy, True), ("best, planned", placed.best, True),
        ("pipeline, planned", placed.pipeline, False),
    ]  # fmt: skip
    rows, remembered = [], dict[Hashable, Any]()

    def add(way: str, solution: Solution, beside: bool) -> None:
        key = tuple(part.operators for part in solution.parts if part.replicas)
        if key not in known:
            made = compile_placed(source, placed, solution, progress=progress, remembered=remembered)
            known[key] = made.compiled.programs
        if len(known[key]) != len(key):
            return
        found = simulate_placed(placed, solution, known[key], beside)
        rows.append({
            "cores": placed.costs.config.cores, "way": way, "programs": len(key),
            "predicted": solution.cost, "simulated": found.interval,
        })  # fmt: skip

    for way, solution, beside in ways:
        if solution is not None:
            add(way, solution, beside)
    settled, made = settle(source, placed, progress=progress, remembered=remembered)
    known[tuple(part.operators for part in settled.best.parts if part.replicas)] = made.compiled.programs
    add("best, settled", settled.best, True)
    return rows


def latency_rows(source: Source, placed: Placed, progress: Progress) -> list[dict[str, Any]]:
    """One inference on so many cores: the greedy placement, the best by estimates, and the one that is settled on."""
    cores, programs = placed.costs.config.cores, dict[Solution, list[Program]]()
    remembered: dict[Hashable, Any] = {}
    predicted = {"greedy": placed.greedy, "best split, planned": placed.best}
    for solution in predicted.values():
        made = compile_placed(source, placed, solution, progress=progress, remembered=remembered)
        programs[solution] = made.compiled.programs
    linked: dict[str, tuple[int, int, int]] = {}
    if placed.exchanging is not None:
        made = compile_placed(source, placed, placed.exchanging, progress=progress, remembered=remembered)
        apart = simulate_latency(placed, placed.exchanging, made.compiled.programs)
        made, saved = exchanged(placed.costs, made)
        linked["exchange, planned"] = len(made.compiled.programs), placed.exchanging.cost, apart - saved
    settled, made = settle(source, placed, progress=progress, remembered=remembered)
    programs[settled.best] = made.compiled.programs
    apart_rows = {
        way: (len(programs[solution]), solution.cost, simulate_latency(placed, solution, programs[solution]))
        for way, solution in (predicted | {"best split": settled.best}).items()
    }
    names = ("programs", "predicted", "simulated")
    return [
        {"cores": cores, "way": way, **dict(zip(names, row, strict=True))} for way, row in (apart_rows | linked).items()
    ]


def print_alone(source: Source, config: Config, cores: Sequence[int], limits: Sequence[int]) -> None:
    """What the accelerators do that share a DRAM, for numbers of cores and bytes a cycle."""
    programs = compile_source(source, config).compiled.programs
    ran = [simulate_timing(program) for program in programs]
    one = sum(result.cycles for result in ran)
    moved = sum(result.dram_read_bytes + result.store_bytes for result in ran)
    print(f"{len(programs)} programs of {one:,} cycles on one core, {moved / one:.1f} bytes a cycle")
    for count in cores:
        for limit in limits:
            several = config.replace(cores=count, dram_bandwidth=limit)
            apart = [replace(program, config=several) for program in programs]
            times = one / sum(steady_interval(several, program) for program in apart)
            print(f"{count} cores  {limit:4} bytes a cycle  {times:.2f} x")


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--dram", type=int, help="MB a second; 0: no limit")
    parser.add_argument("--objective", choices=["throughput", "latency"], nargs="+", default=["throughput", "latency"])
    parser.add_argument("--alone", type=int, nargs="+", metavar="BYTES", help="without the CPU, DRAMs of these limits")
    options = parser.parse_args()
    config, source = load_config(options.config), open_source(options.model)
    if options.alone is not None:
        print_alone(source, config, options.cores, options.alone)
        return
    megabytes = MEGABYTES.get(config.board, 0) if options.dram is None else options.dram
    known: dict[tuple[int, ...], list[Program]] = {}
    rows: dict[Objective, list[dict[str, Any]]] = {objective: [] for objective in options.objective}
    dram = dram_bytes(config, megabytes)
    like: Placed | None = None
    with ProgressReporter() as progress:
        for cores in options.cores:
            several = config.replace(cores=cores, dram_bandwidth=dram)
            for objective, found in rows.items():
                placed = place_source(source, several, objective, progress=progress.update, like=like)
                like = placed
                if objective == "throughput":
                    found += rows_of(source, placed, known, progress.update)
                else:
                    found += latency_rows(source, placed, progress.update)
    print(f"{options.model.name} on {config.name}, {dram} bytes of DRAM a cycle; {machine()}")
    for objective, found in rows.items():
        one = found[0]["simulated"]
        print("cycles of one inference:" if objective == "latency" else "cycles from one result to the next:")
        for row in found:
            error, times = row["predicted"] / row["simulated"] - 1, one / row["simulated"]
            print(
                f"{row['cores']} cores  {row['way']:20} {row['programs']:2} programs  predicted "
                f"{row['predicted']:>12,}  simulated {row['simulated']:>14,.1f}  {error:+6.1%}  {times:5.2f} x"
            )
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
