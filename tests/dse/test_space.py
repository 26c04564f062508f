"""The space: legal values, narrowing, and points that contradict themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.config import PARAMETERS, PRESETS, Config, ConfigError
from tilewright.dse.options import SCHEDULES, CompilerOptions
from tilewright.dse.space import (
    NOT_EXPLORED,
    SpaceError,
    describe_parameters,
    legal_values,
    load_space,
    make_space,
    parse_flag,
)
from tilewright.errors import TilewrightError


def test_legal_values_are_those_of_the_config() -> None:
    for name, parameter in PARAMETERS.items():
        if parameter.kind is int and name not in NOT_EXPLORED:
            values = legal_values(name)
            assert (values[0], values[-1]) == (parameter.low, parameter.high)
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
        ({"dsp_packing": 1}, "dsp_packing = 1: must be one of false, true"),
    ],
)
def test_illegal_values_are_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(SpaceError) as error:
        make_space(Config(), values)
    assert message in str(error.value)


def test_flags() -> None:
    assert parse_flag("block_in=8,16") == ("block_in", [8, 16])
    assert parse_flag("dsp_packing=false") == ("dsp_packing", False)
    for text in ("block_in", "block_in=", "=8"):
        with pytest.raises(SpaceError, match="PARAMETER=VALUE"):
            parse_flag(text)
    assert parse_flag("compiler.schedule=fastest,deep-8") == ("compiler.schedule", ["fastest", "deep-8"])
    with pytest.raises(SpaceError, match="block_in = 'wide': must be one of 4, 8"):
        make_space(Config(), dict([parse_flag("block_in=wide")]))


def test_ranges_and_all_stand_for_legal_values() -> None:
    space = make_space(Config(), dict(map(parse_flag, ["act_bytes=16384..65536", "compiler.schedule=all"])))
    assert space.varied["act_bytes"] == (16384, 32768, 65536)
    assert space.varied["compiler.schedule"] == tuple(SCHEDULES)
    with pytest.raises(SpaceError, match="no legal value in this range"):
        make_space(Config(), {"block_in": "5..7"})
    with pytest.raises(SpaceError, match="two integers"):
        make_space(Config(), {"block_in": "4..wide"})


def test_compiler_options_are_parameters_that_leave_the_config_alone(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text('compiler.schedule = ["fastest", "wide-4"]\ncompiler.keep_intermediates = true\n')
    space = load_space(file, "tiny")
    point = {"compiler.schedule": "wide-4"}
    assert list(space.points()) == [{"compiler.schedule": "fastest"}, point]
    assert space.config(point).fingerprint == PRESETS["tiny"].fingerprint
    assert space.options(point) == CompilerOptions("wide-4", keep_intermediates=True)
    assert space.to_dict() != load_space(file, "tiny", {"compiler.keep_intermediates": False}).to_dict()
    with pytest.raises(SpaceError, match="must be one of fastest, wide-1"):
        make_space(Config(), {"compiler.schedule": "best"})


def test_every_parameter_is_described() -> None:
    rows = {name: (legal, value, varied) for name, legal, value, varied in describe_parameters(Config())}
    assert set(rows) == {
        *PARAMETERS.keys() - {"name", "board", *NOT_EXPLORED},
        "compiler.schedule",
        "compiler.keep_intermediates",
        "compiler.substitutions",
    }
    assert rows["block_in"] == ("4, 8, 16, 32, 64", "16", "8, 16, 32")
    assert rows["token_depth"][0] == "1 to 1023"


@pytest.mark.parametrize("content", ["block_in = [8", "base = 5", 'base = "none"', "block_in = [[8], 16]", "a.b.c = 1"])
def test_bad_files_name_themselves_or_what_they_ask_for(content: str, tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text(content)
    with pytest.raises(TilewrightError) as error:
        load_space(file, "pynq-z2")
    assert str(error.value).startswith("none: no such preset" if "none" in content else str(file))


def test_an_empty_file_is_the_default_space(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text("")
    assert load_space(file, "pynq-z2") == make_space(PRESETS["pynq-z2"])


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
