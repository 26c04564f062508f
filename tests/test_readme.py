"""The README's numbers are those that were measured last and kept, each by a command that it names."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.conftest import REPOSITORY
from tilewright.config import PRESETS
from tilewright.fetch import MODELS
from tilewright.runtime.report.host_work import PROCESSORS

README = (REPOSITORY / "README.md").read_text()
WORDS = " ".join(README.split())


def kept(name: str) -> Any:
    return json.loads((REPOSITORY / name).read_text())


def table() -> list[list[str]]:
    """The rows of the table of networks, cell by cell."""
    part = README.partition("## Results")[2].partition("\n\nThe clock")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("| `")
    ]
    assert len(rows) == 5
    return rows


def test_the_table_is_what_was_measured_last() -> None:
    measured = {row["network"]: row for row in kept("bench/results/networks.json")["rows"]}
    mhz = PRESETS["pynq-z2"].clock_mhz
    counted = {(row["network"], row["runtime"]): row for row in kept("bench/results/host_instructions.json")["rows"]}
    a_microsecond = PROCESSORS[PRESETS["pynq-z2"].axi_version].instructions_per_second / 1e6
    assert f"{a_microsecond / 1e3:g} G instructions a second" in WORDS
    for name, inputs, cycles, bound, ratio, time, rate, from_python, _ in table():
        row = measured[name.split("`")[1]]
        assert row["differing"] == 0
        assert [inputs, cycles, bound] == [f"{row[key]:,}" for key in ("inputs", "cycles", "lower_bound_cycles")], name
        assert ratio == f"{row['cycles'] / row['lower_bound_cycles']:.2f}"
        micros = row["cycles"] / mhz
        assert time == (f"{micros:.0f} µs" if micros < 1000 else f"{micros / 1000:.1f} ms")
        host, python = (counted[row["network"], runtime]["each"] / a_microsecond for runtime in ("C", "Python"))
        assert rate == f"{1e6 / max(micros, host):,.0f}", "the C runtime packs while the accelerator works"
        assert from_python == f"{1e6 / (micros + python):,.0f}", name


def test_its_networks_can_be_had() -> None:
    assert {name.split("`")[1] for name, *_ in table()} == set(MODELS)
    assert "tilewright models fetch all" in README


def test_the_designs_size_and_the_models_errors_are_the_kept_ones() -> None:
    used = kept("hw/reports/whole/pynq-z2.json")["used"]
    assert f"{used['LUT']:,.0f} LUT (" in WORDS
    assert f"{used['DSP']:.0f} DSP (" in WORDS
    assert f"{used['BRAM']:.0f} block RAMs (" in WORDS
    error = kept("dse/data/area.json")["xc7"]["error"]
    assert f"within {100 * error['lut']['worst']:.1f} % (LUT) and {100 * error['ff']['worst']:.1f} % (FF)" in WORDS


def test_every_command_that_it_names_is_there() -> None:
    scripts, named = (set(re.findall(words, README)) for words in (r"bench/(\w+\.py)", r"`make ([a-z-]+)"))
    assert scripts
    assert named
    for script in scripts:
        assert (REPOSITORY / "bench" / script).exists(), script
    targets = (REPOSITORY / "Makefile").read_text()
    for target in named:
        assert re.search(rf"^{target}:", targets, re.M), target
