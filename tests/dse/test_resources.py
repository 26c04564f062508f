"""Resources by module, and the limits of the boards' parts. The models' accuracy: ``test_area`` and ``test_models``."""

from __future__ import annotations

import pytest

from tilewright.config import PRESETS, Config
from tilewright.dse.resources import excess, limits, resources
from tilewright.hw.parts import BOARDS, PARTS


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
