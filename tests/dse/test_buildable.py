"""Trials are spent on what can be built: contradictions and points beyond the board are drawn anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dse.networks import small_network
from tilewright.config import PRESETS, Config
from tilewright.dse.evaluate import Evaluator
from tilewright.dse.resources import shown
from tilewright.dse.search import Search
from tilewright.dse.space import make_space

pytest.importorskip("optuna", reason="needs the explore extra: pip install 'tilewright[explore]'")

#: most of it beyond the board's DSP slices, or of an act row that its bus does not divide
BLOCKS = {"block_in": [4, 8, 16, 32, 64], "block_out": [4, 8, 16, 32, 64], "axi_bits": [32, 64, 128]}


def sweep(folder: Path, sampler: str, seed: int = 3) -> Search:
    space = make_space(Config(), BLOCKS)
    evaluator = Evaluator([small_network()], "pynq-z2", ("latency", "dsp"))
    return Search(space, evaluator, f"sqlite:///{folder}/t.db", seed, sampler)


@pytest.mark.parametrize("sampler", ["random", "nsga2", "tpe"])
def test_no_trial_is_spent_on_what_cannot_be_built(sampler: str, tmp_path: Path) -> None:
    search = sweep(tmp_path, sampler)
    points = search.run(64)
    unfit = [p.params for p in points if not search.evaluator.buildable(search.space, p.params)]
    drawn = [search.space.base.to_dict()[name] for name in BLOCKS]
    assert unfit in ([], [dict(zip(BLOCKS, drawn, strict=True))])  # the base is a trial in any case
    assert len(points) == 64


def test_a_grid_has_every_point_and_a_space_without_any_ends(tmp_path: Path) -> None:
    grid = sweep(tmp_path, "grid").run(1000)
    assert len(grid) == 5 * 5 * 3
    assert any(point.reason for point in grid)
    nothing = make_space(PRESETS["pynq-z2"], {"block_in": [32, 64], "block_out": [64]})
    evaluator = Evaluator([small_network()], "pynq-z2", ("latency", "dsp"))
    points = Search(nothing, evaluator, f"sqlite:///{tmp_path}/n.db", 0, "random").run(40)
    assert len(points) == 40
    assert not any(point.feasible for point in points)


def test_counts_are_whole_or_half() -> None:
    assert [shown(count) for count in (59248.4, 118.5, 3.0, 220)] == ["59248", "118.5", "3", "220"]
