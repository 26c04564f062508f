"""Synthesis of the RTL with Yosys: cells of a Config by module, against the limits of its board's part.

A design is cut into units (:mod:`tilewright.hw.units`), each of which is synthesised once (``synth_xilinx``) and kept
in the user's cache, so that a Config costs only what no Config before it had. Yosys comes from the ``rtl`` extra.
Nothing here claims a clock; :mod:`tilewright.hw.timing` times the whole design.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.config import Config
from tilewright.hw.parts import FAMILIES, PARTS, part_of
from tilewright.hw.scratch import scratch
from tilewright.hw.units import Unit, cut_script, instances, merge_equal_modules, plain_name, split, stub_rtlil, unit_of
from tilewright.hw.verilated.build import cache_directory, locked
from tilewright.hw.verilated.design import design_sources, unreferenced_sources
from tilewright.hw.yosys import find_tool, run_yosys, yosys_version
from tilewright.progress import Progress, silent

__all__ = ["KINDS", "against_limits", "count_resources", "find_tool", "sources_key", "synthesise", "synthesise_many"]

#: resources as reports call them, and as :mod:`tilewright.hw.parts` does
KINDS = {"LUT": "lut", "FF": "ff", "DSP": "dsp", "BRAM": "bram36"}
#: lines of RTLIL that one Yosys process takes: in WebAssembly it has 4 GB
BATCH_LINES = 40_000
#: the mapping of a unit; pads and clock buffers belong to the board, not to the accelerator
MAPPING = "synth_xilinx -family {family} -noiopad -noclkbuf -run prepare:check"
_ARRIVAL = re.compile(r"Latest arrival time in 'u([0-9a-f]{16})' is (\d+)")

_CELL = re.compile(r"[A-Z][A-Z0-9_]*")  #: of the part's library, not a unit below or a note of Yosys


def count_resources(cells: Mapping[str, int]) -> dict[str, float]:
    """LUT, FF, DSP and BRAM (36 Kbit blocks) of a netlist's cells by type.

    LUT counts logic and LUT RAM; a RAM cell takes the LUTs that its name states.
    """
    lut_ram = {"RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM256X1D": 8, "RAM32M": 4, "RAM64M": 4,
               "RAM32M16": 8, "RAM64M8": 8, "RAM32X1S": 1, "RAM64X1S": 1, "RAM512X1S": 8, "SRL16E": 1,
               "SRLC16E": 1, "SRLC32E": 1}  # fmt: skip
    totals = {"LUT": 0.0, "FF": 0.0, "DSP": 0.0, "BRAM": 0.0}
    for kind, count in cells.items():
        if kind.startswith("LUT") and kind[3:4].isdigit():
            totals["LUT"] += count
        elif kind in lut_ram:
            totals["LUT"] += count * lut_ram[kind]
        elif kind in ("FDRE", "FDSE", "FDCE", "FDPE"):
            totals["FF"] += count
        elif kind.startswith("DSP48"):
            totals["DSP"] += count
        elif kind.startswith("RAMB36"):
            totals["BRAM"] += count
        elif kind.startswith("RAMB18"):
            totals["BRAM"] += count / 2
    return totals


def against_limits(used: Mapping[str, float], part: str) -> dict[str, float]:
    """Share of a part's resources that is used, 1.0 being all."""
    return {name: round(used[name] / PARTS[part][kind], 4) for name, kind in KINDS.items()}


def synthesise(config: Config, progress: Progress = silent) -> dict[str, Any]:
    """The report of one Config: minutes of work at most. See :func:`synthesise_many`."""
    return synthesise_many([config], progress)[0]


def synthesise_many(
    configs: Sequence[Config], progress: Progress = silent, family: str | None = None
) -> list[dict[str, Any]]:
    """Yosys cells of Configs, each for the family of its board's part unless ``family`` is given.

    ``used`` and ``share`` are of the whole, ``modules`` holds ``count`` and the resources of all instances by name.
    Raises :class:`ToolError` if Yosys is not installed or fails.
    """
    started = time.monotonic()
    wanted: dict[str, dict[str, Unit]] = {}
    shapes = []
    for k, config in enumerate(configs):
        progress(f"{config.name}: cutting", k, len(configs))
        modules = _cut(config)
        units = {name: unit_of(name, modules) for name in instances(modules)}
        chosen = family or FAMILIES[part_of(config.board)]
        wanted.setdefault(chosen, {}).update({unit.key: unit for unit in units.values()})
        shapes.append((config, chosen, {name: (units[name].key, n) for name, n in instances(modules).items()}))
    mapped = {name: map_units(list(units.values()), name, progress) for name, units in wanted.items()}
    seconds = round(time.monotonic() - started)
    return [_report(config, mapped[chosen], parts, seconds) for config, chosen, parts in shapes]


def map_units(units: Sequence[Unit], family: str, progress: Progress = silent) -> dict[str, dict[str, Any]]:
    """``cells`` by type of every unit, and ``ps``, the logic delay of its longest path; from the cache or Yosys."""
    folder = cache_directory() / "units"
    tag = hashlib.sha256(f"{MAPPING} {family} {yosys_version()}".encode()).hexdigest()[:8]
    paths = {unit.key: folder / f"{unit.key}-{tag}.json" for unit in units}
    missing = [unit for unit in units if not paths[unit.key].exists()]
    done = 0
    for batch in _batches(missing):
        progress(f"Yosys ({family}): units", done, len(missing))
        with locked(folder, f"batch-{tag}"), scratch(folder, "yosys-") as place:
            for key, result in _map_batch(batch, family, place).items():
                part = place / f"{key}.part"
                part.write_text(json.dumps(result))
                part.replace(paths[key])
        done += len(batch)
    return {key: json.loads(path.read_text()) for key, path in paths.items()}


def _batches(units: Sequence[Unit]) -> Iterable[list[Unit]]:
    batch: list[Unit] = []
    lines = 0
    for unit in units:
        size = unit.text.count("\n")
        if batch and lines + size > BATCH_LINES:
            yield batch
            batch, lines = [], 0
        batch.append(unit)
        lines += size
    if batch:
        yield batch


def _map_batch(units: Sequence[Unit], family: str, folder: Path) -> dict[str, dict[str, Any]]:
    stubs = {stub for unit in units for stub in unit.children}
    (folder / "units.il").write_text("".join([*map(stub_rtlil, sorted(stubs)), *(unit.rtlil() for unit in units)]))
    script = [
        "read_verilog -lib -specify +/xilinx/cells_sim.v",
        "read_verilog -lib +/xilinx/cells_xtra.v",
        "read_rtlil units.il",
        MAPPING.format(family=family),
        "tee -q -o stat.json stat -json",
        "delete u*/t:s*",  # the stubs have no timing
        "tee -q -o sta.txt sta",
    ]
    run_yosys("\n".join(script) + "\n", folder)
    modules = json.loads((folder / "stat.json").read_text())["modules"]
    arrivals = {key: int(ps) for key, ps in _ARRIVAL.findall((folder / "sta.txt").read_text())}
    return {
        unit.key: {"cells": modules[f"\\u{unit.key}"]["num_cells_by_type"], "ps": arrivals.get(unit.key, 0)}
        for unit in units
    }


def _cut(config: Config) -> dict[str, list[str]]:
    """The modules of a Config's units as RTLIL lines (seconds)."""
    config.check_one_core("a synthesis report")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = design_sources(config)
        for name, text in sources.items():
            (folder / name).write_text(merge_equal_modules(text))
        run_yosys(cut_script(sorted(sources), "design.il"), folder)
        return split((folder / "design.il").read_text())


def _report(
    config: Config, mapped: Mapping[str, Mapping[str, Any]], parts: Mapping[str, tuple[str, int]], seconds: int
) -> dict[str, Any]:
    part = part_of(config.board)
    cells: Counter[str] = Counter()
    modules: dict[str, dict[str, Any]] = {}
    for module, (key, times) in parts.items():
        unit = {kind: n * times for kind, n in mapped[key]["cells"].items() if _CELL.fullmatch(kind)}
        cells.update(unit)
        entry = modules.setdefault(plain_name(module), {"count": 0, "ps": 0, **dict.fromkeys(KINDS, 0)})
        entry["count"] += times
        entry["ps"] = max(entry["ps"], mapped[key]["ps"])
        for kind, n in count_resources(unit).items():
            entry[kind] += n
    head = report_head(config, part, seconds, count_resources(cells))
    return {**head, "modules": dict(sorted(modules.items())), "cells": dict(sorted(cells.items()))}


def report_head(config: Config, part: str, seconds: float, used: dict[str, float]) -> dict[str, Any]:
    """What every report of a mapped design begins with: what it is about, and the resources ``used``."""
    return {
        "config": config.name,
        "fingerprint": config.fingerprint,
        "verilog": sources_key(config),
        "part": part,
        "tool": f"Yosys {yosys_version()}",
        "seconds": seconds,
        "used": used,
        "share": against_limits(used, part),
    }


def sources_key(config: Config) -> str:
    """16 hex digits over the Verilog that a report is about, wherever its lines come from in the generator."""
    return hashlib.sha256(json.dumps(unreferenced_sources(config), sort_keys=True).encode()).hexdigest()[:16]
