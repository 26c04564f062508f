"""Two cores at 1x8x8 against one at 1x16x16 on the same board: which serves which network, and why.

``python -m bench.bench_two_cores [--config pynq-z2] [NETWORK ...]`` evaluates both as the explorer does, confirms them
on the simulator, and prints for each network latency, results a second, and energy, and what each design's layers
wait for. The two cores share the memories' bytes of the one, and the board's DRAM (``--dram``, MB/s); each has a port.
"""

from __future__ import annotations

from typing import Any

from bench.bench_cores import MEGABYTES
from bench.common import MLPERF_TINY, models, options_of, write_json
from tilewright.config import Config, load_config
from tilewright.dse.built import built
from tilewright.dse.evaluate import Evaluator
from tilewright.dse.networks import load_networks
from tilewright.dse.resources import limits

OBJECTIVES = ("latency", "throughput", "energy")
HALVED = ("act_bytes", "act_banks", "wgt_bytes", "acc_bytes", "uop_gemm_bytes", "uop_alu_bytes")


def designs(base: Config, megabytes: int) -> dict[str, Config]:
    """The two designs by what they are called."""
    dram = megabytes // base.clock_mhz
    one = base.replace(block_in=16, block_out=16, axi_ports=1, dram_bandwidth=dram)
    halves = {name: getattr(one, name) // 2 for name in HALVED}
    two = one.replace(block_in=8, block_out=8, axi_bits=min(64, one.axi_bits), cores=2, **halves)
    return {"one 1x16x16": one, "two 1x8x8": two}


def compared(evaluator: Evaluator, config: Config) -> dict[str, Any]:
    """Objectives of a design that the simulator confirms, and the share of each resource in what its layers ask for."""
    outcome = evaluator.confirm(config)
    if outcome.reason is not None:
        raise SystemExit(outcome.reason)
    layers = evaluator.layers(config)
    demands = [demand for found in layers.values() for demand in found.layers]
    longest = {kind: sum(getattr(d, kind) for d in demands if d.bound == kind) for kind in ("array", "alu", "bus")}
    estimated = evaluator.metrics(config, outcome.cycles, None, evaluator.intervals(config, outcome.cycles, layers))
    return {
        **outcome.values, "array_cycles": sum(d.array for d in demands),
        "bound": {kind: cycles / max(1, sum(longest.values())) for kind, cycles in longest.items()},
        "estimated_throughput": estimated["throughput"],
    }  # fmt: skip


def main() -> None:
    """Evaluate and print."""
    parser = options_of(__doc__)
    parser.add_argument("networks", nargs="*", default=list(MLPERF_TINY))
    parser.add_argument("--dram", type=int, help="MB a second; 0: no limit")
    options = parser.parse_args()
    base = load_config(options.config)
    both = designs(base, MEGABYTES.get(base.board, 0) if options.dram is None else options.dram)
    for name, config in both.items():
        used, limit = built(config, base.board), limits(base.board)
        taken = ", ".join(f"{kind} {used.total(kind) / limit[kind]:.0%}" for kind in ("lut", "ff", "dsp", "bram36"))
        print(f"{name}: {taken} of {base.board}; {config.dram_bandwidth} bytes of DRAM a cycle for all ports")
    rows = []
    for path in models(options.models, tuple(options.networks)):
        evaluator = Evaluator(load_networks(path), base.board, OBJECTIVES)
        found = {name: compared(evaluator, config) for name, config in both.items()}
        rows.append({"network": path.stem, **found})
        one, two = found.values()
        print(
            f"{path.stem}: two cores give {two['throughput'] / one['throughput']:.2f} times the results, each takes "
            f"{two['latency'] / one['latency']:.2f} times as long; a core's array works "
            f"{two['array_cycles'] / one['array_cycles']:.2f} times as long"
        )
        for name, values in found.items():
            bound = ", ".join(f"{kind} {share:.0%}" for kind, share in values["bound"].items())
            print(
                f"  {name:12} {values['latency']:12,.1f} us  {values['throughput']:10,.1f}/s (estimated "
                f"{values['estimated_throughput']:,.1f})  {values['energy']:10,.1f} uJ  layers wait for {bound}"
            )
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
