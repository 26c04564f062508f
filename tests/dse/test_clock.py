"""The clock model beside whole designs as mapped, and the presets' clocks, which are judged by the same measure."""

from __future__ import annotations

import pytest

from bench.calibration import clock_misses, family_of, load_runs, timed
from tilewright.config import PRESETS, Config
from tilewright.dse.clock import ClockError, estimate, paths, period
from tilewright.hw.parts import FAMILIES, part_of
from tilewright.hw.synthesis_report import load_reports
from tilewright.hw.timing.analysis import JUDGED, NETS
from tilewright.hw.timing.delays import DELAYS
from tilewright.hw.timing.whole import packed_mhz

#: a level of LUTs more or less at the end of Yosys' search, with its net, is a tenth of a period
LEVEL = 0.11


@pytest.mark.parametrize("name", timed())
def test_the_kept_designs_are_within_a_level_of_the_model(name: str) -> None:
    config, times = timed()[name]
    for net, ns in times.items():
        assert period(config, family_of(config), float(net)) == pytest.approx(ns, rel=LEVEL)


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
        by_hand = delays.ff_cq + 7 * delays.lut + delays.ff_control_su + 8 * JUDGED
        assert issue.period(family, JUDGED) == pytest.approx(by_hand)
        nudge = next(path for path in paths(Config(), family) if path.name.startswith("ALU"))
        to_sum = delays.carry_in + delays.dsp.to_result["direct"]["C"]
        by_hand = delays.ff_cq + 3 * delays.lut + to_sum + 5 * JUDGED
        assert nudge.period(family, JUDGED) == pytest.approx(by_hand)
        assert period(Config(), family, JUDGED) == max(path.period(family, JUDGED) for path in paths(Config(), family))


def test_the_range_holds_the_estimate_and_names_a_path() -> None:
    for config in PRESETS.values():
        found = estimate(config)
        assert 0 < found.low < found.mhz < found.high
        family = FAMILIES[part_of(config.board)]
        assert found.path in {path.name for path in paths(config, family)}
        assert found.low == round(packed_mhz(period(config, family, max(NETS))), 1)


def test_packed_pairs_have_a_path_of_their_own() -> None:
    base = Config()
    plain = base.replace(dsp_packing=False)
    packed, single = ({path.name for path in paths(config, "xc7")} for config in (base, plain))
    assert packed - single == {"GEMM: two products of one multiplier"}
    assert single - packed == {"GEMM: two products to the sum of four"}


@pytest.mark.parametrize(("batch", "register"), [(1, "BREG"), (2, "AREG")])
def test_images_that_share_two_weights_have_their_sum_in_a_register(batch: int, register: str) -> None:
    dsp = DELAYS["xc7"].dsp
    found = {path.name: path for path in paths(Config(batch=batch, block_out=8), "xc7")}
    slices = dsp.launch["multiplied"][register] + dsp.to_result["direct"]["C"]
    assert found["GEMM: two products of one multiplier"].period("xc7", JUDGED) == pytest.approx(slices + JUDGED)


def test_boards_choose_the_family() -> None:
    config = Config()
    assert estimate(config, "pynq-z2") == estimate(config, "xc7")
    assert estimate(config, "ultra96") == estimate(config, "xcup")
    assert estimate(config, "ultra96").path != estimate(config, "pynq-z2").path
    with pytest.raises(ClockError, match="de10: no delays for it; there are some for xc7, xcup, pynq-z1"):
        estimate(config, "de10")
