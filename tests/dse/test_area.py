"""The area model against kept Yosys runs of both families: LUT and flip-flops within the promise where left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import calibration
from tests.dse.networks import small_network
from tilewright.config import PRESETS, Config
from tilewright.dse import report_data
from tilewright.dse.area import AREA, area, fitted, terms, weighed
from tilewright.dse.evaluate import Evaluator
from tilewright.dse.resources import resources, uncertainty
from tilewright.dse.search import Search
from tilewright.dse.space import make_space
from tilewright.errors import TilewrightError
from tilewright.hw.parts import BOARDS, FAMILIES, PARTS
from tilewright.hw.synthesis_report import load_reports

WITHIN = 0.10  #: the model's promise on Configs that it was not fitted on
KEPT = {family: calibration.load_runs(family) for family in calibration.RUNS}
ENTRIES = [
    (f"{family}:{part}:{name}", family, entry)
    for family, parts in KEPT.items()
    for part, entries in parts.items()
    for name, entry in entries.items()
]
HELD_OUT = [item for item in ENTRIES if ":held_out:" in item[0]]
families = pytest.mark.parametrize("family", KEPT)


@pytest.mark.parametrize("entry", [e for _, _, e in ENTRIES], ids=[name for name, _, _ in ENTRIES])
def test_dsp_and_block_ram_equal_every_kept_run(entry: dict[str, Any]) -> None:
    found = resources(Config.from_dict(entry["config"]))
    assert found.dsp == calibration.total(entry, "dsp")
    assert found.bram36 == calibration.total(entry, "bram36")


@pytest.mark.parametrize("family,entry", [item[1:] for item in HELD_OUT], ids=[name for name, _, _ in HELD_OUT])
def test_lut_and_ff_of_a_held_out_config_are_within_the_promise(family: str, entry: dict[str, Any]) -> None:
    weights = json.loads(AREA.read_text())[family]["weights"]
    for kind, (seen,) in calibration.errors(weights, [entry]).items():
        assert abs(seen) <= WITHIN, kind


@families
def test_the_stated_errors_are_those_of_the_held_out_configs(family: str) -> None:
    stated = json.loads(AREA.read_text())[family]
    entries = list(KEPT[family]["held_out"].values())
    board = next(board for board, part in BOARDS.items() if FAMILIES[part] == family)
    for kind, seen in calibration.errors(stated["weights"], entries).items():
        sizes = [abs(error) for error in seen]
        assert uncertainty(board)[kind] == pytest.approx(max(sizes), abs=1e-4)
        assert stated["error"][kind]["mean"] == pytest.approx(sum(sizes) / len(sizes), abs=1e-4)


@pytest.mark.parametrize("name", ["pynq-z2", "ultra96"])
def test_a_sweeps_report_states_the_error_of_its_boards_family(name: str, tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="needs the explore extra: pip install 'tilewright[explore]'")
    space = make_space(PRESETS[name], {"block_in": [8, 16]})
    evaluator = Evaluator([small_network("small")], name, ("latency", "lut"))
    head = report_data.head(Search(space, evaluator, f"sqlite:///{tmp_path}/t.db", 1, "grid"), [])
    stated = json.loads(AREA.read_text())[FAMILIES[BOARDS[name]]]["error"]
    assert head["resource_error"] == {kind: round(stated[kind]["worst"], 3) for kind in ("lut", "ff")}


@families
def test_each_run_left_out_of_the_fit_is_within_the_promise(family: str) -> None:
    expected = None if family == "xc7" else calibration.fit(list(KEPT["xc7"]["fitted"].values()))
    entries = [entry for part in KEPT[family].values() for entry in part.values()]
    for kind, seen in calibration.left_out(entries, expected).items():
        assert max(map(abs, seen)) <= WITHIN, kind


def test_the_kept_weights_are_those_of_the_kept_runs() -> None:
    kept, now = json.loads(AREA.read_text()), calibration.fit_all(KEPT)
    assert set(kept) == set(now) == set(FAMILIES.values())
    for family, found in now.items():
        for name in ("tool", "fitted", "held_out"):
            assert kept[family][name] == found[name]
        for config in (Config(), PRESETS["tiny"], PRESETS["ultra96"]):
            then = weighed(config, kept[family]["weights"])
            for module, counts in weighed(config, found["weights"]).items():
                assert counts == pytest.approx(then[module], rel=1e-3, abs=1)


@families
def test_every_config_of_the_sets_has_a_run(family: str) -> None:
    for part, configs in zip(("fitted", "held_out"), calibration.sets(family), strict=True):
        assert set(KEPT[family][part]) == {config.name for config in configs}


@families
def test_the_sets_are_seeded_apart_and_varied(family: str) -> None:
    fit_on, held_out = calibration.sets(family)
    assert [c.fingerprint for c in held_out] == [c.fingerprint for c in calibration.sets(family)[1]]
    assert not {c.fingerprint for c in fit_on} & {c.fingerprint for c in held_out}
    for part in (fit_on, held_out):
        for name in ("batch", "block_in", "block_out", "weight_bits", "act_banks", "axi_bits", "dsp_packing"):
            assert len({getattr(config, name) for config in part}) > 1, name
    assert len(calibration.sets()[1]) == calibration.HELD_OUT


def test_a_fit_finds_the_weights_that_made_the_counts() -> None:
    configs = calibration.random_configs(12)
    entries = []
    for config in configs:
        modules = {}
        for module, found in terms(config).items():
            lut = 50 + sum(term.lut * term.amount for term in found)
            modules[module] = {"lut": lut, "ff": 2 * lut, "dsp": 0, "bram36": 0, "ps": 0}
        entries.append({"config": config.to_dict(), "modules": modules})
    weights = calibration.fit(entries[:8])
    assert max(map(abs, calibration.errors(weights, entries[8:])["lut"])) < 0.03


def test_a_further_family_keeps_what_its_runs_do_not_decide() -> None:
    entries = list(KEPT["xc7"]["fitted"].values())
    expected = calibration.fit(entries)
    packed = [entry for entry in entries if entry["config"]["dsp_packing"]]
    weights = calibration.fit(packed, expected)
    plain = Config(dsp_packing=False)
    assert weighed(plain, weights)["gemm.dot"] == pytest.approx(weighed(plain, expected)["gemm.dot"], rel=1e-3)


def test_the_family_is_that_of_the_boards_part() -> None:
    config = Config(dsp_packing=False)
    counts = {board: area(config.replace(board=board)) for board in ("", *BOARDS)}
    for board, part in BOARDS.items():
        same = "" if FAMILIES[part] == "xc7" else "ultra96"
        assert counts[board] == counts[same]
        assert fitted(board)["tool"].endswith(FAMILIES[part])
    # registers of a multiplier that Yosys leaves outside DSP48E2 but puts into DSP48E1: both operands and the product
    per_tap = (counts["ultra96"]["gemm.dot"]["ff"] - counts[""]["gemm.dot"]["ff"]) / (
        config.block_in * config.block_out
    )
    assert per_tap == pytest.approx(32, abs=2)
    assert set(FAMILIES) == set(PARTS)


@pytest.mark.parametrize("report", load_reports(), ids=lambda report: report["config"])
def test_lut_and_ff_of_the_presets_reports_are_within_the_promise(report: dict[str, Any]) -> None:
    found = resources(PRESETS[report["config"]])
    assert found.lut == pytest.approx(report["used"]["LUT"], rel=WITHIN)
    assert found.ff == pytest.approx(report["used"]["FF"], rel=WITHIN)


def test_an_unknown_family_is_named() -> None:
    with pytest.raises(TilewrightError, match="ice40: no such family; the families are xc7, xcup"):
        calibration.main(["ice40"])
