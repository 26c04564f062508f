"""The worked example of docs/timing.md is what the simulator computes; its constants are those of isa/timing.py."""

from __future__ import annotations

import re
from pathlib import Path

from tests.sim.naive_timing import NaiveTiming
from tilewright.isa import timing
from tilewright.isa.assembler import assemble
from tilewright.sim import simulate_timing

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "timing.md").read_text()


def test_worked_example() -> None:
    listing = re.search(r"```text\n(.*?)```", TEXT, re.DOTALL)
    assert listing is not None
    made = assemble(listing[1])
    result = simulate_timing(made)
    rows = re.findall(r"^\| [a-z_ ]+ \| (\d+) \| (\d+) \| (\d+) \|$", TEXT, re.MULTILINE)
    assert [tuple(map(int, row)) for row in rows] == list(zip(result.dispatch, result.issue, result.retire))
    cycles = re.search(r"It takes (\d+) cycles", TEXT)
    assert cycles is not None
    assert int(cycles[1]) == result.cycles == NaiveTiming(made).run(1000)


def test_constants() -> None:
    stated = {name: int(value) for name, value in re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|", TEXT, re.MULTILINE)}
    derived = {"ALU_DISTANCE"}  # verifier rules; docs/isa.md has them
    declared = {name: value for name, value in vars(timing).items() if name.isupper() and name not in derived}
    assert stated == declared
