"""What a board's build holds, against whole designs as Yosys maps them, and how much of a board may be taken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dse.networks import small_network
from tilewright.config import PRESETS, Config
from tilewright.dse.built import built
from tilewright.dse.evaluate import Evaluator, ObjectiveError
from tilewright.dse.resources import REPORTS, reported, shared
from tilewright.dse.space import make_space

WHOLE = [json.loads(path.read_text()) for path in sorted(REPORTS.glob("*.json"))]


@pytest.mark.parametrize("report", WHOLE, ids=lambda report: report["config"])
def test_whole_designs_as_they_are_mapped(report: dict[str, Any]) -> None:
    """DSP slices and block RAM to the last one; LUTs and flip-flops within 5 %."""
    found, counted = built(PRESETS[report["config"]], None), report["used"]
    assert found.dsp == counted["DSP"]
    assert found.bram36 == counted["BRAM"]
    assert found.lut == pytest.approx(counted["LUT"], rel=0.05)
    assert found.ff == pytest.approx(counted["FF"], rel=0.05)


def test_a_presets_report_is_found() -> None:
    assert [reported(PRESETS[report["config"]])["LUT"] for report in WHOLE] == [r["used"]["LUT"] for r in WHOLE]  # type: ignore[index]


def test_a_boards_own_logic_is_counted_and_named() -> None:
    config = PRESETS["pynq-z2"]
    alone, on_board = built(config, None), built(config, "pynq-z2")
    around = {name: counts for name, counts in on_board.modules.items() if name not in alone.modules}
    assert set(around) == {"board.interconnect", "board.interrupt", "board.reset"}
    assert on_board.lut == alone.lut + sum(counts["lut"] for counts in around.values())
    converted = built(config.replace(axi_bits=32), "pynq-z2")
    assert converted.modules["board.converter"]["lut"] > 0
    assert "board.converter" in built(config.replace(axi_version=4), "pynq-z2").modules


def test_a_margin_is_left_for_routing_unless_it_is_said_otherwise() -> None:
    """Every preset of a board leaves it; a Config beyond it says by what option it could be had."""
    for preset in PRESETS.values():
        if preset.board:
            assert Evaluator([], preset.board, ("latency",)).unfit(preset) is None, preset.name
    base = Config().replace(queue_depth=128)
    big = base.replace(prm_entries=256)
    careful = Evaluator([small_network()], "pynq-z2", ("latency",))
    bold = Evaluator([], "pynq-z2", ("latency",), max_lut=100)
    share = 100 * careful.used(big).lut / 53200
    assert 80 < share < 100
    assert "there are 53200, of which 80 % may be used (--max-lut); " in str(careful.unfit(big))
    assert bold.unfit(big) is None
    outcome = careful(make_space(base, {"prm_entries": [64, 256]}), {"prm_entries": 256})
    assert outcome.excess == pytest.approx(share / 80 - 1, abs=1e-3)
    assert careful.identity() != bold.identity()
    with pytest.raises(ObjectiveError, match="max_lut 0: must be above 0 and at most 100"):
        Evaluator([], "pynq-z2", ("latency",), max_lut=0)


@pytest.mark.parametrize("name", ["tiny", "pynq-z2", "zcu104"])
def test_cores_take_their_multiple_and_a_converter_each(name: str) -> None:
    one = PRESETS[name]
    board = one.board or "pynq-z2"
    alone, three = built(one, board).modules, built(one.replace(cores=3), board).modules
    assert three.pop("cores") == shared(3)
    assert three.keys() == alone.keys()
    once = {module for module in alone if module.startswith("board.") and module != "board.converter"}
    for module, counts in alone.items():
        times = 1 if module in once else 3
        assert three[module] == pytest.approx({kind: times * count for kind, count in counts.items()})
    assert ("board.converter" in alone) == (name == "tiny")
