"""Several cores and the CPU: greedy, side by side, best placement and best pipeline, predicted and simulated.

``python -m bench.bench_cores MODEL --config zcu104 --cores 1 2 4`` prints a row for each: the time from one result to
the next as the planner expects it and as the simulator counts it under the DRAM's limit, in cycles, and how many times
the results of the greedy placement on one core that is. CPU times are this machine's. ``--dram`` is what the board's
DRAM moves at most, in MB/s; known are ZCU104 (64 bits of DDR4-2400) and PYNQ-Z2 (16 of DDR3-1050).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.common import machine, options_of, write_json
from tilewright.config import load_config
from tilewright.isa.program import Program
from tilewright.jit.place.execute import compile_placed, simulate_placed
from tilewright.jit.place.placed import Placed, place_source
from tilewright.jit.place.problem import Solution
from tilewright.jit.source import Source, open_source

MEGABYTES = {"zcu104": 19200, "pynq-z2": 2100}  #: a second, of the boards' DRAM by their data sheets


def rows_of(source: Source, placed: Placed, known: dict[tuple[int, ...], list[Program]]) -> list[dict[str, Any]]:
    """The placements of one number of cores; ``known`` keeps programs by their parts' operators."""
    ways: list[tuple[str, Solution | None, bool]] = [
        ("greedy side by side", placed.greedy, True), ("best", placed.best, True), ("pipeline", placed.pipeline, False),
    ]  # fmt: skip
    rows = []
    for way, solution, beside in ways:
        if solution is None:
            continue
        key = tuple(part.operators for part in solution.parts if part.replicas)
        if key not in known:
            known[key] = compile_placed(source, placed, solution).compiled.programs
        found = simulate_placed(placed, solution, known[key], beside)
        rows.append({
            "cores": placed.costs.config.cores, "way": way, "programs": len(key),
            "predicted": solution.cost, "simulated": found.interval,
        })  # fmt: skip
    return rows


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--dram", type=int, help="MB a second; 0: no limit")
    options = parser.parse_args()
    config, source = load_config(options.config), open_source(options.model)
    megabytes = MEGABYTES.get(config.board, 0) if options.dram is None else options.dram
    known: dict[tuple[int, ...], list[Program]] = {}
    rows: list[dict[str, Any]] = []
    for cores in options.cores:
        several = config.replace(cores=cores, dram_bandwidth=megabytes // config.clock_mhz)
        rows += rows_of(source, place_source(source, several, "throughput"), known)
    one = rows[0]["simulated"]
    print(f"{options.model.name} on {config.name}, {megabytes // config.clock_mhz} bytes of DRAM a cycle; {machine()}")
    for row in rows:
        error, times = row["predicted"] / row["simulated"] - 1, one / row["simulated"]
        print(
            f"{row['cores']} cores  {row['way']:20} {row['programs']} programs  predicted {row['predicted']:>12,}  "
            f"simulated {row['simulated']:>14,.1f}  {error:+6.1%}  {times:5.2f} x"
        )
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
