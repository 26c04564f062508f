"""The clock model beside whole designs as mapped, and the presets' clocks, which are judged by the same measure."""

from __future__ import annotations

from typing import Any

import pytest

from bench.calibration import clock_misses, load_runs, timed
from tilewright.config import PRESETS, Config
from tilewright.dse.clock import ClockError, estimate, paths, period
from tilewright.hw.parts import FAMILIES, part_of
from tilewright.hw.synthesis_report import load_reports
from tilewright.hw.timing.analysis import JUDGED, NETS
from tilewright.hw.timing.delays import DELAYS
from tilewright.hw.timing.whole import packed_mhz

#: a level of LUTs more or less at the end of Yosys' search, with its net, is a tenth of a period
LEVEL = 0.11


@pytest.mark.parametrize("report", load_reports(), ids=lambda report: report["config"])
def test_the_kept_designs_are_within_a_level_of_the_model(report: dict[str, Any]) -> None:
    for net, ns in report["ns"].items():
        assert period(PRESETS[report["config"]], FAMILIES[report["part"]], float(net)) == pytest.approx(ns, rel=LEVEL)


@pytest.mark.parametrize("name", timed())
def test_a_design_is_within_a_level_by_the_paths_that_others_show(name: str) -> None:
    assert max(map(abs, clock_misses(name).values())) <= LEVEL


def test_runs_are_of_other_configs_than_presets() -> None:
    runs = [Config.from_dict(run["config"]) for run in load_runs().values()]
    assert len(runs) >= 2
    assert not {run.fingerprint for run in runs} & {preset.fingerprint for preset in PRESETS.values()}


@pytest.mark.parametrize("name", PRESETS)
def test_no_preset_is_clocked_faster_than_its_design_allows(name: str) -> None:
    """By the design as mapped where it is kept, by the model elsewhere; a fifth is left to packing."""
    config = PRESETS[name]
    kept = [report for report in load_reports() if report["fingerprint"] == config.fingerprint
            and report["part"] == part_of(config.board)]  # fmt: skip
    for report in kept:
        assert report["mhz"] == round(packed_mhz(report["ns"][f"{JUDGED:.2f}"]), 1)
        assert config.clock_mhz <= report["mhz"]
    assert kept or config.clock_mhz <= estimate(config).mhz


def test_packing_takes_a_fifth_of_the_clock() -> None:
    assert packed_mhz(8.262) == pytest.approx(0.8 * 1000 / 8.262)


def test_a_period_is_the_longest_path_s_cells_and_nets() -> None:
    for family, delays in DELAYS.items():
        issue = next(path for path in paths(Config(), family) if path.name.startswith("issue"))
        compare = delays.carry_in + delays.carry_chain
        by_hand = delays.ff_cq + 6 * delays.lut + compare + delays.ff_su + 8 * JUDGED
        assert issue.period(family, JUDGED) == pytest.approx(by_hand)
        assert period(Config(), family, JUDGED) == max(path.period(family, JUDGED) for path in paths(Config(), family))


def test_the_range_holds_the_estimate_and_names_a_path() -> None:
    for config in PRESETS.values():
        found = estimate(config)
        assert 0 < found.low < found.mhz < found.high
        family = FAMILIES[part_of(config.board)]
        assert found.path in {path.name for path in paths(config, family)}
        assert found.low == round(packed_mhz(period(config, family, max(NETS))), 1)


def test_packed_pairs_have_a_path_of_their_own() -> None:
    """Two multipliers, one behind the other, count where nets are short."""
    base = Config()
    plain = base.replace(dsp_packing=False)
    assert period(base, "xc7", 0.2) > period(plain, "xc7", 0.2)
    assert period(base, "xc7", JUDGED) == period(plain, "xc7", JUDGED)


@pytest.mark.parametrize("bits, blocks", [(2, {}), (4, {"carry_out": 1}), (8, {"carry_out": 1, "carry_chain": 1})])
def test_images_that_share_two_weights_wait_for_the_sum_that_joins_them(bits: int, blocks: dict[str, int]) -> None:
    """Such a sum is in no slice, but in carry cells of four bits each; as Yosys maps the array alone."""
    delays = DELAYS["xc7"]
    config = Config(batch=2, block_out=8, weight_bits=bits)
    added = sum(getattr(delays, cell) * count for cell, count in {"lut": 1, "carry_in": 1, **blocks}.items())
    by_hand = delays.ff_cq + added + delays.dsp_multiply + delays.dsp_add + 4 * JUDGED
    assert period(config, "xc7", JUDGED) == pytest.approx(by_hand)
    assert by_hand == pytest.approx({2: 9.334, 4: 9.584, 8: 9.704}[bits])
    assert period(config.replace(batch=1), "xc7", JUDGED) < by_hand


def test_boards_choose_the_family() -> None:
    config = Config()
    assert estimate(config, "pynq-z2") == estimate(config, "xc7")
    assert estimate(config, "ultra96") == estimate(config, "xcup")
    assert estimate(config, "ultra96").path != estimate(config, "pynq-z2").path
    with pytest.raises(ClockError, match="de10: no delays for it; there are some for xc7, xcup, pynq-z1"):
        estimate(config, "de10")
