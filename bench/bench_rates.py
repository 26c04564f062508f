"""Rates of the engines, measured on the RTL, beside the published ones of VTA's pipelined RTL.

``python bench/bench_rates.py [--config NAME|FILE] [--no-matmul] [--json FILE]`` runs small programs on the Verilated
design and reads the rates off the cycles in which instructions issue and retire:

- GEMM micro-ops and ALU vectors a cycle, and idle cycles between instructions whose tokens are there;
- LOAD and STORE bytes a cycle at several DRAM latencies, the one latency of the whole transfer apart, for the
  config and for one with bursts in flight that cover the longest latency;
- a matrix product 256 x 256 x 256 (a 1x1 convolution, int8 to int8, DRAM to DRAM): share of the array's peak.

Exit code 1 if a rate is below what is promised, or a cycle differs from the simulator's. A burst in flight takes its
latency and its beats, so no more than outstanding x burst_beats / (latency + burst_beats) beats a cycle can arrive:
where that is below one, it is what is promised.

VTA's figures are those of its pipelined Chisel RTL, Verilated: N + 7 cycles for GEMM and ALU instructions of N
micro-ops, 2 N + 7 with two operands, LOAD 8 B a cycle + latency + 5, STORE 3 cycles for 16 B, GEMM 256 x 256 x 256 at
75 % of peak with two virtual threads.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import tilewright as tw
from bench import rate_programs as programs
from bench.common import machine, options_of, write_json
from tilewright.config import PARAMETERS, PORT_BUFFER_BEATS, Config, load_config
from tilewright.hw.verilated.design import design_library
from tilewright.hw.verilated.driver import Driver
from tilewright.hw.verilated.limits import cycle_bound
from tilewright.hw.verilated.model import DesignModel
from tilewright.isa.dram_order import DramOrder
from tilewright.isa.spec import Engine
from tilewright.runtime.device import open_device
from tilewright.runtime.segments import segment_memories
from tilewright.sim import simulate

LATENCIES = (1, 16, 64, 200)  #: of DRAM, in cycles
COUNTS = (1, 8, 64)  #: micro-ops of an instruction
BUS_SHARE = 0.99  #: of the bus, or of what the bursts in flight allow, that LOAD and STORE promise
MATMUL = 256
MATMUL_SHARE = 0.75  #: of peak: the most that VTA reached


@dataclass(frozen=True)
class Rate:
    """One measured rate. ``vta`` and ``promised`` in the same unit, None where there is no such figure."""

    what: str
    unit: str
    measured: float
    promised: float
    vta: float | None = None
    note: str = ""

    @property
    def kept(self) -> bool:
        """Whether the promise is kept."""
        return self.measured >= self.promised

    def line(self) -> str:
        """A row of the table."""
        beside = "" if self.vta is None else f"{self.vta:>9.3f}{self.measured / self.vta:>7.2f}x"
        return (
            f"{self.what:<46}{self.measured:>9.3f} {self.unit:<15}{self.promised:>9.3f}{beside:<17}"
            f"{'' if self.kept else '  BELOW THE PROMISE'}  {self.note}"
        ).rstrip()


class Disagreement(Exception):
    """Simulator and RTL differ in a cycle."""


def times(driver: Driver, measured: programs.RateProgram) -> tuple[np.ndarray, np.ndarray]:
    """Issue and retire cycles of the measured instructions on RTL. Raises :class:`Disagreement`."""
    program = measured.program
    segments = segment_memories(program, 1, DramOrder(program.config))
    result = driver.run(program, segments, limit=cycle_bound(program))
    timing = simulate(program, functional=False).timing
    assert timing is not None
    if not (np.array_equal(result.issue, timing.issue) and np.array_equal(result.retire, timing.retire)):
        raise Disagreement(f"{program.config.name}: simulator and rtl differ in cycles")
    at = list(measured.measured)
    return result.issue[at], result.retire[at]


def instruction_rates(config: Config) -> list[Rate]:
    """GEMM and ALU, from instructions back to back."""
    rates = []
    with DesignModel(design_library(config), config.dram_latency) as model:
        driver = Driver(model, config)
        for count in COUNTS:
            issue, _ = times(driver, programs.gemm(config, count))
            rates.append(
                _back_to_back(
                    f"GEMM of {count} micro-op{'s' if count > 1 else ''}", "micro-ops/cycle", count, 1, issue, count + 7
                )
            )
        for operand, slots, vta in (("immediate", 1, 1), ("other bank", 1, 2), ("same bank", 2, 2)):
            for count in COUNTS[1:]:
                issue, _ = times(driver, programs.alu(config, count, operand))
                names = {"immediate": "one operand", "other bank": "two, different banks",
                         "same bank": "two, the same bank"}  # fmt: skip
                what = f"ALU of {count} vectors, {names[operand]}"
                rates.append(_back_to_back(what, "vectors/cycle", count, slots, issue, vta * count + 7))
        issue, _ = times(driver, programs.requantize(config, COUNTS[-1]))
        rates.append(_back_to_back(f"REQUANTIZE of {COUNTS[-1]} vectors", "vectors/cycle", COUNTS[-1], 1, issue, None))
    return rates


def _back_to_back(what: str, unit: str, count: int, slots: int, issue: np.ndarray, vta: int | None) -> Rate:
    bubbles = np.diff(issue) - slots * count
    measured = (len(issue) - 1) * count / int(issue[-1] - issue[0])
    note = f"{int(bubbles.max())} idle cycles between instructions"
    return Rate(what, unit, measured, 1 / slots, None if vta is None else count / vta, note)


def transfer_rates(config: Config, optimise: bool) -> list[Rate]:
    """LOAD and STORE of the whole of act at every latency of :data:`LATENCIES`.

    ``optimise``: build the design as networks want it, not as one run of it does.
    """
    rates = []
    in_flight = config.outstanding * config.burst_beats
    library = design_library(config, optimise=optimise)
    for engine, vta in ((Engine.LOAD, 8.0), (Engine.STORE, 16 / 3)):
        for latency in LATENCIES:
            slow = config.replace(dram_latency=latency)
            with DesignModel(library, latency) as model:
                # the latency is the DRAM's, not the design's: only the fingerprint register tells them apart
                driver = Driver(model, config)
                issue, retire = times(driver, programs.transfer(slow, engine))
            share = min(1.0, in_flight / (latency + config.burst_beats))
            note = f"{config.bus_bits}-bit bus"
            if share < 1:
                note += f"; bound by {config.outstanding} bursts of {config.burst_beats} beats in flight"
            rates.append(
                Rate(
                    f"{engine.name} {config.act_bytes // 1024} KiB, latency {latency}, {in_flight} beats in flight",
                    "bytes/cycle", config.act_bytes / (int(retire[0] - issue[0]) - latency),
                    BUS_SHARE * share * config.beat_bytes,
                    vta if config.bus_bits == 64 else None, note,
                )
            )  # fmt: skip
    return rates


def covering(config: Config) -> Config:
    """The config with enough bursts in flight for the longest latency."""
    outstanding = config.outstanding
    while outstanding * config.burst_beats < max(LATENCIES) + config.burst_beats:
        outstanding *= 2
    most = PARAMETERS["outstanding"].high
    if config.axi_ports > 1:  # what its ports may have in flight
        most = PORT_BUFFER_BEATS // config.burst_beats
    return config.replace(name=f"{config.name}-{outstanding}", outstanding=min(outstanding, most))


def matmul_rate(config: Config) -> Rate:
    """256 x 256 x 256 as a 1x1 convolution over 16 x 16 positions. Raises :class:`Disagreement`."""
    from tests.jit.onnx_models import QdqBuilder

    side = int(MATMUL**0.5)
    builder = QdqBuilder()
    y = builder.conv(builder.input([1, MATMUL, side, side], "int8"), (MATMUL, MATMUL, 1, 1))
    y = builder.quantised(y, 0.3, 0)
    with tempfile.TemporaryDirectory() as folder:
        path = builder.save(Path(folder) / "matmul.onnx", y, [1, MATMUL, side, side], "int8")
        executable = tw.compile(str(path), config=config)
    x = np.random.default_rng(1).integers(-128, 128, (1, MATMUL, side, side)).astype(np.int8)
    expected, simulated = executable.run(x)
    on_rtl = type(executable)(executable.artifact, open_device("rtl", config), verified=True)
    found, report = on_rtl.run(x)
    if simulated.cycles != report.cycles or not np.array_equal(found, expected):
        raise Disagreement("GEMM 256 x 256 x 256: simulator and rtl differ")
    peak = MATMUL**3 / (config.batch * config.block_in * config.block_out)
    return Rate(
        f"GEMM {MATMUL} x {MATMUL} x {MATMUL}, DRAM to DRAM", "of peak", peak / report.cycles, MATMUL_SHARE,
        MATMUL_SHARE, f"{report.cycles:,} cycles, lower bound {report.lower_bound_cycles:,}",
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit code is described above."""
    parser = options_of(__doc__)
    parser.add_argument("--no-matmul", action="store_true", help="leave out the matrix product, the longest run")
    options = parser.parse_args(arguments)
    config = load_config(options.config)
    print(f"{config.name} on its RTL; run on {machine()}, on which no cycle depends")
    print(f"{'':<46}{'measured':>9} {'':<15}{'promised':>9}{'VTA':>9}{'ratio':>8}")
    rates: list[Rate] = []
    groups = [lambda: instruction_rates(config), lambda: transfer_rates(config, True)]
    if covering(config).outstanding != config.outstanding:
        groups.append(lambda: transfer_rates(covering(config), False))
    if not options.no_matmul:
        groups.append(lambda: [matmul_rate(config)])
    try:
        for group in groups:
            for rate in group():
                rates.append(rate)
                print(rate.line(), flush=True)
    except Disagreement as error:
        print(error)
        return 1
    rows = [{**asdict(rate), "kept": rate.kept} for rate in rates]
    write_json(options.json, {"machine": machine(), "config": config.name, "rates": rows})
    return int(not all(rate.kept for rate in rates))


if __name__ == "__main__":
    raise SystemExit(main())
