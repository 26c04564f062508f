"""Whole designs of random Configs, the weights of the area model fitted on them, and what the models miss each by.

``python -m bench.calibration [NAME ...]`` (``make calibrate``) maps and times those of :func:`random_configs` and of
the kept ones that are named, if their Verilog has changed, minutes each, and keeps them in
``bench/results/whole.json``. Then the weights of :mod:`tilewright.dse.area` are fitted on these and on the kept designs
of presets (``hw/reports/whole``). Printed are the errors of both models on each design: of the area model by a fit on
the others, of the clock model by their paths.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from bench.common import RESULTS
from tilewright.config import PRESETS, Config, ConfigError
from tilewright.dse.area import AREA, KINDS, Weights, area, terms, weighed
from tilewright.dse.clock import paths
from tilewright.dse.resources import resources
from tilewright.errors import TilewrightError
from tilewright.files import write_atomic
from tilewright.hw.parts import FAMILIES, part_of
from tilewright.hw.synthesis import count_resources, sources_key
from tilewright.hw.synthesis_report import load_reports
from tilewright.hw.timing.analysis import JUDGED, analyse
from tilewright.hw.timing.whole import map_whole
from tilewright.hw.yosys import YOSYS

Design = tuple[Config, dict[str, float]]  #: a Config, and the resources of its whole design
Timed = tuple[Config, dict[str, float]]  #: a Config, and ns of its longest path by delay of a net

RUNS = RESULTS / "whole.json"
SEED, CONFIGS = 2026, 36
SAME = 0.005  #: ns
TRUST, LITTLE = 1.0, 0.005  #: in the weights that are expected: the least errors of designs left out are near 1
#: modules made anew since these were counted: of an ALU lane, and of the control unit's constant, little is trusted
REMADE = ("alu.lane", "control")
#: what is drawn; one value is drawn of each list
CHOICES: dict[str, tuple[int | bool, ...]] = {
    "batch": (1, 1, 1, 2),
    "block_in": (4, 8, 8, 16, 16, 32),
    "block_out": (4, 4, 8, 8, 16),
    "weight_bits": (8, 8, 4, 2),
    "act_bytes": (8192, 16384, 32768),
    "act_banks": (2, 4, 8),
    "wgt_bytes": (16384, 65536),
    "acc_bytes": (16384, 32768),
    "acc_banks": (2, 4, 8),
    "prm_entries": (32, 64),
    "uop_gemm_bytes": (4096, 8192),
    "uop_alu_bytes": (4096,),
    "axi_bits": (32, 64, 64, 128),
    "outstanding": (4, 8),
    "queue_depth": (8, 32),
    "dsp_packing": (True, False),
}
WIDEST = 1024  #: bits of the window; larger arrays take Yosys many minutes


def random_configs(count: int = CONFIGS, seed: int = SEED) -> dict[str, Config]:
    """Different valid Configs by name, drawn from :data:`CHOICES`; the same for the same seed."""
    random = Random(seed)
    found: dict[str, Config] = {}
    while len(found) < count:
        values = {name: random.choice(choices) for name, choices in CHOICES.items()}
        try:
            config = Config(name=f"random-{len(found):02d}", board="", **values)  # type: ignore[arg-type]
        except ConfigError:
            continue
        window = 8 * config.batch * config.lanes * config.block_in
        if window <= WIDEST and all(config.fingerprint != other.fingerprint for other in found.values()):
            found[config.name] = config
    return found


def family_of(config: Config) -> str:
    """The family of a Config's board; 7 series for none."""
    return FAMILIES[part_of(config.board)]


def load_runs() -> dict[str, dict[str, Any]]:
    """The kept runs by name, each with ``config``, ``verilog`` and ``used`` as in reports.

    Those that were timed with today's delays also have ``ns``. Beside random Configs there is ``pynq-z2`` as it was
    with one memory port.
    """
    return json.loads(RUNS.read_text()) if RUNS.exists() else {}


def designs(family: str) -> dict[str, Design]:
    """What is fitted for a family: each design's Config and the resources it uses, equal ones once."""
    reports = [(PRESETS[r["config"]], r["used"]) for r in load_reports() if FAMILIES[r["part"]] == family]
    runs = [(Config.from_dict(run["config"]), run["used"]) for run in load_runs().values()]
    found: dict[str, Design] = {}
    for config, used in [*reports, *(run for run in runs if family_of(run[0]) == family)]:
        found.setdefault(config.fingerprint, (config, used))
    return {config.name: (config, used) for config, used in found.values()}


def fit(entries: Sequence[Design], expected: Weights) -> Weights:
    """Weights by module and kind: least squares of the relative errors of the designs' totals.

    What the designs do not decide stays near ``expected``: moving a weight so far that some Config's total changes by
    all of it costs as much as an error of :data:`TRUST` of a total, or for a module made anew of :data:`LITTLE`.
    """
    if not entries:
        return expected
    weights: Weights = {module: {} for module in expected}
    shapes = [terms(config) for config, _ in entries]
    for kind in KINDS:
        counted = np.array([used[kind.upper()] - _beside(config, kind) for config, used in entries])
        scale = np.array([1 / used[kind.upper()] for _, used in entries])
        listed = [[amount for module in expected for amount in shape[module]] for shape in shapes]
        amounts = scale[:, None] * np.array(listed)
        before = np.concatenate([expected[module][kind] for module in expected])
        remade = [module in REMADE and not at for module in expected for at in range(len(shapes[0][module]))]
        pull = np.where(remade, LITTLE, TRUST) * np.abs(amounts).max(axis=0) + 1e-9
        matrix, values = np.vstack([amounts, np.diag(pull)]), np.concatenate([counted * scale, pull * before])
        found = np.linalg.lstsq(matrix, values, rcond=None)[0].round(6).tolist()
        for module in expected:
            count = len(expected[module][kind])
            weights[module][kind], found = found[:count], found[count:]
    return weights


def _beside(config: Config, kind: str) -> float:
    """What a design takes beside the modules that are weighed: little, for a second memory port."""
    return resources(config).total(kind) - sum(module[kind] for module in area(config).values())


def error(design: Design, weights: Weights, kind: str) -> float:
    """The relative error of a design's total by some weights: 0.1 is 10 % too many."""
    config, used = design
    modules = weighed(config, weights).values()
    return (sum(module[kind] for module in modules) + _beside(config, kind)) / used[kind.upper()] - 1


def fit_all(before: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What ``data/area.json`` holds, from what it held: by family the weights that were expected, and those fitted.

    ``error`` is that of each design by a fit on all the others. What the first family's designs change of its weights
    is expected of the others' too.
    """
    result: dict[str, dict[str, Any]] = {}
    moved: Weights | None = None
    for family, kept in before.items():
        expected = kept["expected"] if moved is None else _sum(kept["expected"], moved)
        found = designs(family)
        entries = list(found.values())
        weights = fit(entries, expected)
        others = [fit([*entries[:k], *entries[k + 1 :]], expected) for k in range(len(entries))]
        errors = {kind: [abs(error(one, w, kind)) for one, w in zip(entries, others)] for kind in KINDS}
        result[family] = {
            "tool": f"Yosys {YOSYS}, synth_xilinx -family {family} -flatten", "designs": list(found),
            "error": {
                kind: {"worst": round(max(each), 4), "mean": round(sum(each) / len(each), 4)}
                for kind, each in errors.items()
            },
            "weights": weights, "expected": kept["expected"],
        }  # fmt: skip
        moved = moved or _sum(weights, expected, -1)
    return result


def _sum(a: Weights, b: Weights, sign: int = 1) -> Weights:
    return {
        module: {kind: [round(x + sign * y, 6) for x, y in zip(found, b[module][kind], strict=True)]
                 for kind, found in kinds.items()}
        for module, kinds in a.items()
    }  # fmt: skip


def timed() -> dict[str, Timed]:
    """The presets and runs that were timed with today's delays, by name; of equal designs of a family one."""
    reports = [(PRESETS[report["config"]], report["ns"]) for report in load_reports() if "ns_by_loads" in report]
    runs = [(Config.from_dict(run["config"]), run["ns"]) for run in load_runs().values() if "ns" in run]
    found: dict[tuple[str, str], Timed] = {}
    for config, ns in [*reports, *runs]:
        found.setdefault((family_of(config), config.fingerprint), (config, ns))
    return {config.name: (config, ns) for config, ns in found.values()}


def clock_misses(name: str) -> dict[str, float]:
    """The clock model's relative error on a design by delay of a net: 0.1 is a period 10 % too long.

    By the paths that some other design shows: one that is known of this design alone is left out, unless others show
    none.
    """
    others = timed()
    config, ns = others.pop(name)
    family, shown = family_of(config), set().union(*map(_shown, others.values()))
    known = paths(config, family)
    seen = [path for path in known if path.name in shown] or known
    return {net: max(path.period(family, float(net)) for path in seen) / one - 1 for net, one in ns.items()}


def _shown(design: Timed) -> set[str]:
    """The paths that are the longest of a design at some delay of a net."""
    config, ns = design
    family = family_of(config)
    return {path.name for path in paths(config, family)
            if any(abs(path.period(family, float(net)) - one) < SAME for net, one in ns.items())}  # fmt: skip


def map_missing(names: Sequence[str]) -> None:
    """Map and time the named Configs, random or kept, of whose Verilog no run is kept, and keep them."""
    runs = load_runs()
    known = random_configs() | {name: Config.from_dict(run["config"]) for name, run in runs.items()}
    if unknown := [name for name in names if name not in known]:
        raise TilewrightError(f"{unknown[0]}: no such Config; they are {', '.join(known)}")
    for name in names:
        config = known[name]
        if runs.get(name, {}).get("verilog") != sources_key(config):
            print(f"{name}: the whole design", file=sys.stderr, flush=True)
            netlist = map_whole(config, family_of(config))
            used = count_resources(Counter(cell.kind for cell in netlist.cells))
            runs[name] = {
                "config": config.to_dict(), "verilog": sources_key(config), "used": used,
                "ns": analyse(netlist, family_of(config)).ns,
            }  # fmt: skip
            write_atomic(RUNS, json.dumps(runs, indent=1) + "\n")


def main(names: Sequence[str]) -> None:
    """Map what is missing of the named Configs, fit, and print the errors of both models."""
    map_missing(names)
    result = fit_all(json.loads(AREA.read_text()))
    write_atomic(AREA, json.dumps(result, indent=1) + "\n")
    for family, found in result.items():
        for kind, seen in found["error"].items():
            print(
                f"{family} {kind.upper()}: {seen['mean']:.1%} on average, {seen['worst']:.1%} at worst, "
                f"each of {len(found['designs'])} designs by a fit on the others"
            )
    for name, (_, ns) in timed().items():
        errors = ", ".join(f"{one:+.1%} at {net}" for net, one in clock_misses(name).items())
        print(f"{name}: {ns[f'{JUDGED:.2f}']:.2f} ns; the clock model by the others' paths: {errors}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except TilewrightError as error_:
        sys.exit(f"tilewright: {error_}")
