"""The resource models against kept Yosys runs: DSP and block RAM exact, LUT and flip-flops within their error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tilewright.config import PRESETS, Config
from tilewright.dse import calibration
from tilewright.dse.area import AREA, terms
from tilewright.dse.resources import excess, limits, resources, uncertainty
from tilewright.hw.parts import BOARDS, PARTS

WITHIN = 0.10  #: the model's promise on Configs that it was not fitted on
RUNS = calibration.load_runs()
ENTRIES = [(f"{part}:{name}", entry) for part in ("fitted", "held_out") for name, entry in RUNS[part].items()]


@pytest.mark.parametrize("entry", [e for _, e in ENTRIES], ids=[name for name, _ in ENTRIES])
def test_dsp_and_block_ram_equal_every_kept_run(entry: dict[str, Any]) -> None:
    found = resources(Config.from_dict(entry["config"]))
    assert found.dsp == calibration.total(entry, "dsp")
    assert found.bram36 == calibration.total(entry, "bram36")


def test_lut_and_ff_of_held_out_configs_are_within_the_promise() -> None:
    weights = json.loads(AREA.read_text())["weights"]
    held_out = list(RUNS["held_out"].values())
    assert held_out
    for kind, seen in calibration.errors(weights, held_out).items():
        assert max(map(abs, seen)) <= WITHIN, kind
        assert uncertainty()[kind] == pytest.approx(max(map(abs, seen)), abs=1e-4)


def test_each_run_left_out_of_the_fit_is_within_the_promise() -> None:
    for kind, seen in calibration.left_out([entry for _, entry in ENTRIES]).items():
        assert max(map(abs, seen)) <= WITHIN, kind


def test_the_kept_weights_are_those_of_the_kept_runs() -> None:
    kept = json.loads(AREA.read_text())
    weights = calibration.fit(list(RUNS["fitted"].values()))
    assert kept["fitted"] == len(RUNS["fitted"])
    assert kept["held_out"] == len(RUNS["held_out"])
    for config in (Config(), PRESETS["tiny"], PRESETS["ultra96"]):
        for module, found in terms(config).items():
            for kind in ("lut", "ff"):
                now, then = (
                    sum(weight * term.amount for weight, term in zip(w[module][kind], found, strict=True))
                    for w in (weights, kept["weights"])
                )
                assert now == pytest.approx(then, rel=1e-3, abs=1)


def test_the_sets_are_seeded_and_apart() -> None:
    fitted, held_out = calibration.sets()
    assert [c.fingerprint for c in held_out] == [c.fingerprint for c in calibration.sets()[1]]
    assert len(held_out) == calibration.HELD_OUT
    assert not {c.fingerprint for c in fitted} & {c.fingerprint for c in held_out}
    drawn = [*fitted, *held_out]
    for name in ("batch", "block_in", "block_out", "weight_bits", "act_banks", "axi_bits", "dsp_packing"):
        assert len({getattr(config, name) for config in drawn}) > 1


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


def test_resources_are_told_by_module() -> None:
    found = resources(Config())
    assert found.lut == round(sum(counts.get("lut", 0) for counts in found.modules.values()))
    assert found.modules["array"]["dsp"] == 128
    assert found.modules["wgt"]["bram36"] == 64
    assert found.by("dsp") == {"array": 128, "alu.lane": 64, "load": 1, "store": 1}


@pytest.mark.parametrize("kind,what", [("lut", "LUTs"), ("ff", "flip-flops")])
def test_lut_and_ff_limits_count_too(kind: str, what: str) -> None:
    big = resources(Config().replace(batch=8, dsp_packing=False, axi_bits=64))
    assert big.total(kind) > limits("ultra96")[kind]
    assert set(limits("ultra96")) >= {"lut", "ff", "dsp", "bram36"}
    without = type(big)({m: {k: n for k, n in counts.items() if k == kind} for m, counts in big.modules.items()})
    assert what in str(excess(without, "ultra96"))


def test_every_preset_fits_its_board() -> None:
    for config in PRESETS.values():
        if config.board:
            assert excess(resources(config), config.board) is None, config.name
    assert set(BOARDS.values()) == set(PARTS)
