"""Figures on the pages are those of the commands beside them: cycles are counted anew, the others kept and compared."""

from __future__ import annotations

import json
import re

import pytest

from bench import bench_groups, bench_transposed
from tests.conftest import REPOSITORY
from tilewright.config import PRESETS


def rows(page: str, head: str) -> list[list[str]]:
    """The cells of the table under the line that begins with ``head``."""
    lines = iter((REPOSITORY / "docs" / page).read_text().split("\n"))
    next(line for line in lines if line.startswith(head))
    next(lines)  # the rule below it
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    assert found
    return found


GROUPED = rows("operators.md", "| groups | cycles |")
TRANSPOSED = rows("operators.md", "| layer | MACs | `pynq-z2` | `zcu104` |")


@pytest.mark.parametrize("groups, cycles, size", GROUPED, ids=[row[0] for row in GROUPED])
def test_grouped_layers(groups: str, cycles: str, size: str) -> None:
    config = PRESETS["pynq-z2"]
    op = bench_groups.layer(3, 128, int(groups))
    assert cycles == f"{bench_groups.cycles(op, config):,}"
    assert size == f"{bench_groups.stored(op, config):,}"


@pytest.mark.parametrize("name, macs, pynq_z2, zcu104", TRANSPOSED, ids=[row[0] for row in TRANSPOSED])
def test_transposed_layers(name: str, macs: str, pynq_z2: str, zcu104: str) -> None:
    numbers = re.fullmatch(r"(\d+)x\1, stride (\d+), (\d+)x\3, (\d+) to (\d+)", name)
    assert numbers is not None
    layer = tuple(map(int, numbers.groups()))
    assert layer in bench_transposed.LAYERS
    for config, shown in (("pynq-z2", pynq_z2), ("zcu104", zcu104)):
        took, least, multiplications = bench_transposed.cycles(layer, config)
        assert shown == f"{took:,} ({took / least:.2f})", config
        assert macs == f"{multiplications:,}"


def test_low_bit_networks() -> None:
    name, kept = "", json.loads((REPOSITORY / "bench/results/low_bit.json").read_text())["rows"]
    of = {(row["network"], row["bits"]): row for row in kept}
    shown = rows("quantizing.md", "| network | bits | constants |")
    for network, bits, constants, read, cycles, decibels, right in shown:
        name = network.split(" ")[0] or name
        row = of.pop((name, int(bits)))
        assert [constants, read, cycles] == [f"{row[k]:,}" for k in ("constant_bytes", "read_bytes", "cycles")], name
        assert decibels == (str(row["output_db"]) if "output_db" in row else "")
        assert right == (f"{row['accuracy']:.2%}".replace("%", " %") if row["accuracy"] is not None else "")
    assert not of


def test_recurrent_layers() -> None:
    """Microseconds of LiteRT, and at the clocks that the Configs have today."""
    kept = json.loads((REPOSITORY / "bench/results/recurrent.json").read_text())["rows"]
    of = {row["units"]: row for row in kept if row["cell"] == "LSTM"}
    chips = ("pynq-z2", "kv260", "zcu104")
    for units, litert, *shown in rows("operators.md", "| LSTM, units | LiteRT |"):
        row = of[int(units.replace(",", ""))]
        assert abs(float(litert.replace(",", "")) - row["litert_us"]) <= 0.5
        for name, figure in zip(chips, shown, strict=True):
            chip = row["chips"][name]
            assert abs(float(figure.replace(",", "")) - chip["us"]) <= 0.5, name
            assert chip["us"] == pytest.approx(chip["cycles"] / PRESETS[name].clock_mhz, abs=0.05), name
