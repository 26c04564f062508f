"""The space: legal values, narrowing, and points that contradict themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.config import PRESETS, RANGES, Config, ConfigError
from tilewright.dse.space import SpaceError, legal_values, load_space, make_space, parse_flag


def test_legal_values_are_those_of_the_config() -> None:
    for name in RANGES:
        values = legal_values(name)
        low, high, _ = RANGES[name]
        assert values[0] == low
        assert values[-1] == high
    assert legal_values("block_in") == [4, 8, 16, 32, 64]


def test_file_fixes_and_narrows(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text('base = "tiny"\nblock_in = [4, 8]\nprm_entries = 64\n')
    space = load_space(file, "pynq-z2", {"block_out": [4, 8]})
    assert space.base == PRESETS["tiny"].replace(prm_entries=64)
    assert space.varied == {"block_in": (4, 8), "block_out": (4, 8)}
    assert space.size == len(list(space.points())) == 4
    assert space.config({"block_in": 8, "block_out": 4}).block_in == 8


@pytest.mark.parametrize(
    "values,message",
    [
        ({"block_in": 12}, "block_in = 12: must be one of 4, 8, 16, 32, 64"),
        ({"block": 8}, "block: no such parameter"),
        ({"act_banks": []}, "act_banks = []: no value to try"),
        ({"dsp_packing": 1}, "dsp_packing = 1: must be one of False, True"),
    ],
)
def test_illegal_values_are_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(SpaceError) as error:
        make_space(Config(), values)
    assert message in str(error.value)


def test_flags() -> None:
    assert parse_flag("block_in=8,16") == ("block_in", [8, 16])
    assert parse_flag("dsp_packing=false") == ("dsp_packing", False)
    with pytest.raises(SpaceError, match="PARAMETER=VALUE"):
        parse_flag("block_in")
    with pytest.raises(SpaceError, match="must be integers"):
        parse_flag("block_in=wide")


def test_contradicting_points_say_why() -> None:
    space = make_space(Config(), {"axi_bits": [64, 512], "block_in": [8, 16]})
    with pytest.raises(ConfigError, match="axi_bits = 512"):
        space.config({"axi_bits": 512, "block_in": 8})


def test_unreadable_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="cannot be read"):
        load_space(tmp_path / "none.toml", "pynq-z2")
    broken = tmp_path / "broken.toml"
    broken.write_text("block_in = [")
    with pytest.raises(SpaceError, match="not valid TOML"):
        load_space(broken, "pynq-z2")
