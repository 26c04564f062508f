"""Whole-design timing of random Configs that the clock model has not seen, kept in ``bench/results/clock.json``.

``python -m bench.clock_runs [NAME ...]`` maps and times Configs of :func:`bench.calibration.random_configs` by name
(default: :data:`UNSEEN`), of whose Verilog no run is kept: minutes each. It prints what the model misses each by.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from bench.calibration import FITTED, HELD_OUT, random_configs
from bench.common import RESULTS
from tilewright.config import Config
from tilewright.dse.clock import period
from tilewright.errors import TilewrightError
from tilewright.files import write_atomic
from tilewright.hw.synthesis import sources_key
from tilewright.hw.timing.analysis import analyse
from tilewright.hw.timing.whole import map_whole

RUNS = RESULTS / "clock.json"
FAMILY = "xc7"
UNSEEN = ("random-03", "random-27")


def load_runs() -> dict[str, dict[str, Any]]:
    """The kept runs by name: ``config``, ``verilog``, ``ns`` of the worst path by delay of a net."""
    return json.loads(RUNS.read_text()) if RUNS.exists() else {}


def misses(run: dict[str, Any]) -> dict[str, float]:
    """The model's relative error on a run, by delay of a net: 0.1 is a period 10 % too long."""
    config = Config.from_dict(run["config"])
    return {net: period(config, FAMILY, float(net)) / ns - 1 for net, ns in run["ns"].items()}


def main(names: Sequence[str]) -> None:
    """Time what is missing of the named Configs, and print every kept run's errors."""
    known = {config.name: config for config in random_configs(HELD_OUT + FITTED)}
    if unknown := [name for name in names if name not in known]:
        raise TilewrightError(f"{unknown[0]}: no such Config; they are {', '.join(known)}")
    runs = load_runs()
    for name in names or UNSEEN:
        config = known[name]
        if runs.get(name, {}).get("verilog") != sources_key(config):
            timing = analyse(map_whole(config, FAMILY), FAMILY)
            runs[name] = {"config": config.to_dict(), "verilog": sources_key(config), "ns": timing.ns}
            write_atomic(RUNS, json.dumps(runs, indent=1) + "\n")
    for name, run in runs.items():
        errors = ", ".join(f"{error:+.1%} at {net}" for net, error in misses(run).items())
        print(f"{name}: {run['ns']['0.75']:.2f} ns; the model: {errors}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except TilewrightError as error:
        sys.exit(f"tilewright: {error}")
