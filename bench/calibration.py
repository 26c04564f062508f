"""Weights of the area model from Yosys runs, and its error on Configs that the fit has not seen.

``python -m bench.calibration`` (``make calibrate``) synthesises a seeded random set of Configs for 7 series, and some
of them for UltraScale+, fits the weights of :mod:`tilewright.dse.area` on one part of each family's and measures the
error on the other. Runs are kept in ``calibration.json`` and ``calibration_xcup.json`` of ``bench/results``, so that a
call that was cut short goes on, and one after a change of the RTL does all again. With the name of a family only its
Configs are synthesised; the fits are always of both.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from bench.common import RESULTS
from tilewright.config import PRESETS, Config, ConfigError
from tilewright.dse.area import AREA, KINDS, Weights, terms, weighed
from tilewright.errors import TilewrightError
from tilewright.files import write_atomic
from tilewright.hw.synthesis import sources_key, synthesise_many
from tilewright.hw.yosys import YOSYS

#: kept runs by Yosys' name of the family. The first has all random Configs; its weights are what is expected of another
RUNS = {"xc7": RESULTS / "calibration.json", "xcup": RESULTS / "calibration_xcup.json"}
SEED = 2026
HELD_OUT, FITTED = 20, 16  #: random Configs that measure, and that are fitted
#: presets that are fitted too: the smallest, and the default
FITTED_PRESETS = ("tiny", "pynq-z2")
#: what of the above a further family runs, and presets: both packings, all widths of weights and both batches in each
FURTHER: dict[str, dict[str, tuple[str, ...]]] = {
    "xcup": {
        "fitted": ("random-02", "random-07", "random-12", "random-16", "random-19", "random-35"),
        "held_out": ("ultra96", "kv260", "random-01", "random-04", "random-10", "random-15", "random-18"),
    }
}
TRUST = 0.1  #: in the RTL's own account of a weight, against the runs
TOGETHER = 2  #: Configs in one run of Yosys
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


def random_configs(count: int, seed: int = SEED) -> list[Config]:
    """Different valid Configs drawn from :data:`CHOICES`; the same for the same seed."""
    random = Random(seed)
    found: list[Config] = []
    while len(found) < count:
        values = {name: random.choice(choices) for name, choices in CHOICES.items()}
        try:
            config = Config(name=f"random-{len(found):02d}", board="", **values)  # type: ignore[arg-type]
        except ConfigError:
            continue
        window = 8 * config.batch * config.lanes * config.block_in
        if window <= WIDEST and all(config.fingerprint != other.fingerprint for other in found):
            found.append(config)
    return found


def sets(family: str = "xc7") -> tuple[list[Config], list[Config]]:
    """The Configs that are fitted for a family, and those that are held out."""
    drawn = random_configs(HELD_OUT + FITTED)
    # in turn, so that a run that is cut short has some of both
    held_out = [config for k, config in enumerate(drawn) if k % 7 in (1, 3, 4, 6)]
    fitted = [config for config in drawn if config not in held_out]
    if family in FURTHER:
        known = PRESETS | {config.name: config for config in drawn}
        part = {name: [known[one] for one in names] for name, names in FURTHER[family].items()}
        return part["fitted"], part["held_out"]
    return [*(PRESETS[name] for name in FITTED_PRESETS), *fitted], held_out


def run_entry(config: Config, report: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a synthesis report."""
    modules = {
        name: {"lut": m["LUT"], "ff": m["FF"], "dsp": m["DSP"], "bram36": m["BRAM"], "ps": m["ps"]}
        for name, m in report["modules"].items()
    }
    return {"config": config.to_dict(), "verilog": report["verilog"], "modules": modules}


def total(entry: dict[str, Any], kind: str) -> float:
    """A kind of resource over all modules of a kept run."""
    return float(sum(module[kind] for module in entry["modules"].values()))


def fit(entries: Sequence[dict[str, Any]], expected: Weights | None = None) -> Weights:
    """Weights by module and kind: least squares of the errors relative to each Config's total.

    What the runs do not decide stays near ``expected``, or, if that is not given, near the RTL's own account (``lut``
    and ``ff`` of a term): a weight that is off by all of it costs as much as an error of :data:`TRUST` of a Config's
    total.
    """
    shapes = [terms(Config.from_dict(entry["config"])) for entry in entries]
    weights: Weights = {}
    for module in shapes[0]:
        amounts = np.array([[term.amount for term in shape[module]] for shape in shapes], dtype=float)
        weights[module] = {}
        for kind in KINDS:
            scale = np.array([1 / total(entry, kind) for entry in entries])
            counts = np.array([entry["modules"].get(module, {}).get(kind, 0.0) for entry in entries])
            account = np.array([getattr(term, kind) for term in shapes[0][module]])
            free = np.all(amounts == 1, axis=0) & (account == 0) & (expected is None)
            prior = account if expected is None else np.array(expected[module][kind])
            # a pull on every weight but the constant, as strong for a small share of a Config as for a large one
            pull = TRUST * np.where(free, 0.0, np.abs(amounts * scale[:, None]).max(axis=0) + 1e-9)
            matrix = np.vstack([amounts * scale[:, None], np.diag(pull)])
            values = np.concatenate([counts * scale, pull * prior])
            found = np.linalg.lstsq(matrix, values, rcond=None)[0]
            weights[module][kind] = [round(float(weight), 6) for weight in found]
    return weights


def errors(weights: Weights, entries: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Relative errors of the totals, one per Config, by kind: 0.1 is 10 % too many."""
    result: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for entry in entries:
        counts = weighed(Config.from_dict(entry["config"]), weights)
        for kind in KINDS:
            predicted = sum(module[kind] for module in counts.values())
            result[kind].append(round(predicted / total(entry, kind) - 1, 4))
    return result


def left_out(entries: Sequence[dict[str, Any]], expected: Weights | None = None) -> dict[str, list[float]]:
    """Errors as :func:`errors` of each run by a fit on all the others."""
    found = [errors(fit([*entries[:k], *entries[k + 1 :]], expected), [entries[k]]) for k in range(len(entries))]
    return {kind: [one[kind][0] for one in found] for kind in KINDS}


def load_runs(family: str) -> dict[str, Any]:
    """The kept runs of a family: ``fitted`` and ``held_out`` by Config name."""
    empty: dict[str, Any] = {"fitted": {}, "held_out": {}}
    return json.loads(RUNS[family].read_text()) if RUNS[family].exists() else empty


def fit_all(runs: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What ``data/area.json`` holds: by family the weights, and the errors on the Configs held out.

    The weights of the first family are what is expected of the others.
    """
    result: dict[str, dict[str, Any]] = {}
    expected: Weights | None = None
    for family, parts in runs.items():
        fitted, held_out = list(parts["fitted"].values()), list(parts["held_out"].values())
        weights = fit(fitted, expected)
        seen, each = errors(weights, held_out), left_out([*fitted, *held_out], expected)
        result[family] = {
            "tool": f"Yosys {YOSYS}, synth_xilinx -family {family}", "fitted": len(fitted), "held_out": len(held_out),
            "error": {kind: _summary(seen[kind]) for kind in KINDS},
            "each_left_out": {kind: _summary(each[kind]) for kind in KINDS}, "weights": weights,
        }  # fmt: skip
        expected = expected or weights
    return result


def _summary(errors: Sequence[float]) -> dict[str, float]:
    sizes = np.abs(errors)
    return {"worst": float(sizes.max()), "mean": round(float(sizes.mean()), 4)}


def synthesise_missing(family: str) -> None:
    """Synthesise the Configs of a family of whose Verilog no run is kept, a few at a time, and keep them."""
    fitted, held_out = sets(family)
    runs = load_runs(family)
    wanted = [("fitted", config) for config in fitted] + [("held_out", config) for config in held_out]
    wanted.sort(key=lambda item: item[1].name)
    for at in range(0, len(wanted), TOGETHER):

        def report_step(what: str, done: int, total: int, at: int = at) -> None:
            count = f"{done}/{total}" if total else ""
            print(f"{family}: Config {at + 1} of {len(wanted)}: {what} {count}".rstrip(), file=sys.stderr, flush=True)

        report_step("Verilog", 0, 0)
        chunk = [
            (part, config)
            for part, config in wanted[at : at + TOGETHER]
            if runs[part].get(config.name, {}).get("verilog") != sources_key(config)
        ]
        if chunk:
            for (part, config), report in zip(chunk, synthesise_many([c for _, c in chunk], report_step, family)):
                runs[part][config.name] = run_entry(config, report)
            write_atomic(RUNS[family], json.dumps(runs, indent=1) + "\n")


def main(families: Sequence[str] = ()) -> None:
    """Synthesise what is missing of some families (none: of all), then fit all of them."""
    if unknown := set(families) - set(RUNS):
        raise TilewrightError(f"{min(unknown)}: no such family; the families are {', '.join(RUNS)}")
    for family in families or RUNS:
        synthesise_missing(family)
    result = fit_all({family: load_runs(family) for family in RUNS})
    write_atomic(AREA, json.dumps(result, indent=1) + "\n")
    for family, found in result.items():
        for kind, seen in found["error"].items():
            worst = f"{seen['worst']:.1%} at worst"
            text = f"{family} {kind.upper()}: {seen['mean']:.1%} on average, {worst}"
            print(f"{text}, on {found['held_out']} Configs")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except TilewrightError as error:
        sys.exit(f"tilewright: {error}")
