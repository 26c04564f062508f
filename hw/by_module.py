"""What each module of a preset's design takes: mapped by Yosys module by module, not flattened.

``python -m tilewright.hw.by_module [CONFIG] [--depth N]`` prints a Markdown table of LUT, FF, DSP and block RAMs, a row
for each module down to ``N`` below the core, which has what lies below it in it. CONFIG: a preset or a ``.toml`` file.

Nothing is shared or removed across modules here, so the sum is more than the flattened design, of which
:mod:`~tilewright.hw.synthesis_report` gives the total.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.config import Config, load_config
from tilewright.errors import TilewrightError
from tilewright.hw.parts import FAMILIES, part_of
from tilewright.hw.synthesis import KINDS, count_resources
from tilewright.hw.timing.whole import MAP, TOP, run_on_whole

SCRIPT = f"""\
read_verilog -sv {{files}}
setattr -unset init */w:*
{MAP} -family {{family}} -top {{top}}
tee -o cells.json stat -json
"""
DEPTH = 2  #: modules of the core, and those in them
_NUMBERS = re.compile(r"(?<=_)\d+(_\d+)*$")  #: of modules that there are several of


@dataclass(frozen=True)
class Row:
    """Modules of one name, ``path`` from the core, ``*`` for the numbers of several: what they take together."""

    path: str
    count: int
    used: Mapping[str, float]


def map_modules(config: Config) -> dict[str, Counter[str]]:
    """Cells of each module by type, other modules among them; the design as boards have it. Minutes of work.

    Raises :class:`ToolError` if Yosys is missing or fails.
    """
    config.check_one_core("a synthesis report")
    with tempfile.TemporaryDirectory(prefix="yosys-") as scratch:
        run_on_whole(config, FAMILIES[part_of(config.board)], SCRIPT, Path(scratch))
        return cells_of((Path(scratch) / "cells.json").read_text())


def cells_of(text: str) -> dict[str, Counter[str]]:
    """Cells by type of each module of what Yosys' ``stat -json`` wrote."""
    modules: dict[str, dict[str, Any]] = json.loads(text)["modules"]
    return {
        name.removeprefix("\\"): Counter({kind.removeprefix("\\"): n for kind, n in m["num_cells_by_type"].items()})
        for name, m in modules.items()
    }


def rows(modules: Mapping[str, Counter[str]], depth: int = DEPTH) -> list[Row]:
    """The whole design (an empty path), and its modules down to ``depth`` below the core, the largest first."""

    def flat(name: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for kind, count in modules[name].items():
            below = flat(kind) if kind in modules else Counter({kind: 1})
            found.update({cell: n * count for cell, n in below.items()})
        return found

    def inside(names: list[str], path: str, left: int) -> Iterator[Row]:
        alike: dict[str, list[str]] = {}
        for name in names:
            for kind, count in modules[name].items():
                if kind in modules and kind.startswith(f"{name}."):
                    own = _NUMBERS.sub("*", re.sub(r"\$\d+$", "", kind.removeprefix(f"{name}.")))
                    alike.setdefault(own, []).extend([kind] * count)
        totals = {own: sum((flat(kind) for kind in kinds), Counter[str]()) for own, kinds in alike.items()}
        for own in sorted(alike, key=lambda k: (-count_resources(totals[k])["LUT"], k)):
            yield Row(f"{path}{own}", len(alike[own]), count_resources(totals[own]))
            if left > 1:
                yield from inside(alike[own], f"{path}{own}.", left - 1)

    core = f"{TOP}.accelerator" if f"{TOP}.accelerator" in modules else TOP
    return [Row("", 1, count_resources(flat(TOP))), *inside([core], "", depth)]


def table(config: Config, found: list[Row]) -> str:
    """Rows as a Markdown table; block RAMs of 36 Kbit."""
    kinds = [*KINDS]
    head = [f"`{config.name}`, by module", "LUT", "of all", "FF", "DSP", "BRAM36"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    every = found[0].used["LUT"]
    for row in found:
        name = f"`{row.path}`" if row.path else "all"
        name += f" ({row.count})" if row.count > 1 else ""
        lut, *others = (f"{row.used[kind]:,g}" for kind in kinds)
        lines.append(f"| {name} | {lut} | {row.used['LUT'] / every:.1%} | {' | '.join(others)} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> None:
    """Map a Config's modules and print their table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", default="pynq-z2", help="preset or .toml file")
    parser.add_argument("--depth", type=int, default=DEPTH, help="how far below the core (default: %(default)s)")
    options = parser.parse_args(arguments)
    config = load_config(options.config)
    print(table(config, rows(map_modules(config), options.depth)), end="")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except TilewrightError as error:
        sys.exit(f"tilewright: {error}")
