"""Energy: actions counted alike by both fidelities, and energies that follow widths, sizes and the table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.dse.networks import residual_network
from tilewright.config import PRESETS, Config
from tilewright.jit.compiler import compile_graph
from tilewright.jit.cost.estimate import estimate
from tilewright.jit.energy.actions import ACTIONS, count_estimated, count_program
from tilewright.jit.energy.model import (
    COMPONENTS,
    EnergyError,
    action_energies,
    default_table,
    energy,
    load_table,
    sources,
    table_rows,
)
from tilewright.jit.lower.lowering import lower
from tilewright.sim import simulate_timing


@pytest.mark.parametrize("name", ["pynq-z2", "ultra96"])
def test_estimated_actions_are_near_those_of_the_compiled_program(name: str) -> None:
    graph, config = residual_network(), PRESETS[name]
    estimated = count_estimated(estimate(lower(graph, config).tables, config))
    program = compile_graph(graph, config).programs[0]
    counted = count_program(program, simulate_timing(program).cycles)
    assert set(estimated) <= set(ACTIONS)
    for action in ("mac", "act_read", "wgt_read", "wgt_write", "acc_write", "prm_write"):
        assert estimated[action] == pytest.approx(counted[action], rel=0.01), action
    for action in ("alu_multiply", "act_write", "acc_read", "prm_read", "uop_read", "dram_byte", "cycle"):
        assert estimated[action] == pytest.approx(counted[action], rel=0.10), action
    table = default_table()
    totals = [energy(counts, config, table).total for counts in (estimated, counted)]
    assert totals[0] == pytest.approx(totals[1], rel=0.05)


def test_multiplies_are_those_of_the_network_where_blocks_are_full() -> None:
    """Two 3x3 and one 1x1 convolution on 16 channels fill the blocks; what is counted is at least their MACs."""
    graph = residual_network()
    counts = count_estimated(estimate(lower(graph, Config()).tables, Config()))
    full = 2 * 16 * 16 * 9 * 16 * 16 + 8 * 8 * 16 * 32
    assert full < counts["mac"] < 1.3 * full


def test_energies_follow_width_size_clock_and_process() -> None:
    base = action_energies(Config(), default_table())
    assert set(base) == {*(a for names in COMPONENTS.values() for a in names)}
    doubled = action_energies(Config().replace(wgt_bytes=512 * 1024, clock_mhz=2 * Config().clock_mhz), default_table())
    assert doubled["wgt_read"] == pytest.approx(base["wgt_read"] * 2**0.5)
    assert doubled["static"] == pytest.approx(base["static"] / 2)
    assert doubled["mac"] == base["mac"]
    wide = action_energies(Config().replace(block_in=32, wgt_bytes=512 * 1024), default_table())
    assert wide["wgt_read"] == pytest.approx(2 * base["wgt_read"])
    assert action_energies(PRESETS["ultra96"], default_table())["mac"] < base["mac"]
    assert action_energies(PRESETS["tiny"], default_table())["act_read"] < base["act_read"]


def test_total_is_the_sum_of_its_components() -> None:
    counts = Counter({"mac": 1000, "dram_byte": 10, "cycle": 5})
    each = action_energies(Config(), default_table())
    found = energy(counts, Config(), default_table())
    expected = 1000 * each["mac"] + 10 * each["dram_byte"] + 5 * (each["clock"] + each["static"])
    assert found.total == pytest.approx(1e-6 * expected)
    assert found.by["wgt"] == 0
    assert found.uncertainty == 3.0


def test_a_table_of_ones_own_changes_only_what_it_names(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[actions.dram_byte]\npj = 100\nsource = "measured on my board"\n')
    mine, usual = (action_energies(Config(), table) for table in (load_table(file), default_table()))
    assert mine["dram_byte"] == 100
    assert {k: v for k, v in mine.items() if k != "dram_byte"} == {k: v for k, v in usual.items() if k != "dram_byte"}
    assert "dram_byte: measured on my board" in sources(load_table(file))


@pytest.mark.parametrize(
    "content,message",
    [
        ("[actions.mac]\npj = 1", "actions: mac: no such entry"),
        ("uncertainty = 'much'", "uncertainty = 'much': must be a number"),
        ("[actions.add32]\npj = -1", "add32: pj = -1: must be a number from 0 on"),
        ("actions = 5", "actions: must be a table"),
        ("[actions.add32]\nsource = 3", "source = 3: must be text"),
        ("[actions", "not valid TOML"),
    ],
)
def test_bad_tables_are_named(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "table.toml"
    file.write_text(content)
    with pytest.raises(EnergyError) as error:
        load_table(file)
    assert message in str(error.value)
    assert str(file) in str(error.value)


def test_every_entry_names_its_source() -> None:
    lines = sources(default_table())
    assert any("Horowitz" in line for line in lines)
    assert all(len(line.split(": ", 1)[1]) > 10 for line in lines)
    assert {row["action"] for row in table_rows(Config(), default_table())} >= {"mac", "clock", "static"}
