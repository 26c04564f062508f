"""The area model against kept whole designs of both families, each by a fit on the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import calibration
from tests.dse.networks import small_network
from tilewright.config import PRESETS, Config
from tilewright.dse import report_data
from tilewright.dse.area import AREA, KINDS, area, fitted, terms, weighed
from tilewright.dse.evaluate import Evaluator
from tilewright.dse.resources import resources, uncertainty
from tilewright.dse.search import Search
from tilewright.dse.space import make_space
from tilewright.errors import TilewrightError
from tilewright.hw.parts import BOARDS, FAMILIES, PARTS

WITHIN = {"lut": 0.035, "ff": 0.05}  #: the model's promise on designs that it was not fitted on
STATED = json.loads(AREA.read_text())
RUNS = {name: run for name, run in calibration.load_runs().items() if "used" in run}


@pytest.mark.parametrize("name", RUNS)
def test_dsp_and_block_ram_equal_every_kept_run(name: str) -> None:
    found, used = resources(Config.from_dict(RUNS[name]["config"])), RUNS[name]["used"]
    assert (found.dsp, found.bram36) == (used["DSP"], used["BRAM"])


def test_the_kept_weights_and_errors_are_those_of_the_kept_designs() -> None:
    now = calibration.fit_all(STATED)
    assert set(STATED) == set(now) == set(FAMILIES.values())
    for family, found in now.items():
        kept = STATED[family]
        assert kept["tool"] == found["tool"]
        assert kept["designs"] == found["designs"] == list(calibration.designs(family))
        for config in (Config(), PRESETS["tiny"], PRESETS["ultra96"]):
            then = weighed(config, kept["weights"])
            for module, counts in weighed(config, found["weights"]).items():
                assert counts == pytest.approx(then[module], rel=1e-3, abs=1)
        board = next(board for board, part in BOARDS.items() if FAMILIES[part] == family)
        for kind in KINDS:
            assert kept["error"][kind] == pytest.approx(found["error"][kind], abs=2e-4)
            assert uncertainty(board)[kind] == kept["error"][kind]["worst"] <= WITHIN[kind]


@pytest.mark.parametrize("name", ["pynq-z2", "ultra96"])
def test_a_sweeps_report_states_the_error_of_its_boards_family(name: str, tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="needs the explore extra: pip install 'tilewright[explore]'")
    space = make_space(PRESETS[name], {"block_in": [8, 16]})
    evaluator = Evaluator([small_network("small")], name, ("latency", "lut"))
    head = report_data.head(Search(space, evaluator, f"sqlite:///{tmp_path}/t.db", 1, "grid"), [])
    stated = STATED[FAMILIES[BOARDS[name]]]["error"]
    assert head["resource_error"] == {kind: round(stated[kind]["worst"], 3) for kind in ("lut", "ff")}


def test_a_fit_finds_the_weights_that_made_the_counts() -> None:
    """A lane that has grown by a tenth, and nothing else: a fit on some designs tells it of the others."""
    before = STATED["xc7"]["weights"]
    grown = {**before, "alu.lane": {kind: [1.1 * weight for weight in before["alu.lane"][kind]] for kind in KINDS}}
    made = []
    for config in calibration.random_configs(16).values():
        modules = weighed(config, grown).values()
        made.append((config, {kind.upper(): sum(module[kind] for module in modules) for kind in KINDS}))
    weights = calibration.fit(made[:8], before)
    for kind in KINDS:
        old, new = (max(abs(calibration.error(one, w, kind)) for one in made[8:]) for w in (before, weights))
        assert new < old / 3, kind
    plain = Config(dsp_packing=False)
    packed = calibration.fit([one for one in made if one[0].dsp_packing], before)
    assert weighed(plain, packed)["gemm.dot"] == pytest.approx(weighed(plain, before)["gemm.dot"], rel=1e-3)


def test_random_configs_are_seeded_and_varied() -> None:
    drawn = calibration.random_configs()
    assert drawn == calibration.random_configs()
    assert len({config.fingerprint for config in drawn.values()}) == len(drawn) == calibration.CONFIGS
    for name in ("batch", "block_in", "block_out", "weight_bits", "act_banks", "axi_bits", "dsp_packing"):
        assert len({getattr(config, name) for config in drawn.values()}) > 1, name


def test_two_weights_that_images_share_cost_their_sum_and_registers() -> None:
    """Yosys maps them to LUTs and flip-flops, one a bit of a weight and multiplier of an image; else to DSP48E1."""
    for bits in (2, 4, 8):
        alone, shared = (terms(Config(block_out=8, weight_bits=bits, batch=batch))["gemm.dot"][-1] for batch in (1, 2))
        assert (alone, shared) == (0, 16 * 4 * bits)


def test_the_family_is_that_of_the_boards_part() -> None:
    config = Config(dsp_packing=False)
    counts = {board: area(config.replace(board=board)) for board in ("", *BOARDS)}
    for board, part in BOARDS.items():
        same = "" if FAMILIES[part] == "xc7" else "ultra96"
        assert counts[board] == counts[same]
        assert f"-family {FAMILIES[part]} " in fitted(board)["tool"]
    # registers of a multiplier that Yosys leaves outside DSP48E2 but puts into DSP48E1: both operands and the product
    per_tap = (counts["ultra96"]["gemm.dot"]["ff"] - counts[""]["gemm.dot"]["ff"]) / (
        config.block_in * config.block_out
    )
    assert per_tap == pytest.approx(32, abs=2)
    assert set(FAMILIES) == set(PARTS)


def test_an_unknown_config_is_named() -> None:
    with pytest.raises(TilewrightError, match="ice40: no such Config; they are random-00, "):
        calibration.main(["ice40"])
