"""Config: every parameter's error names parameter, value and range; TOML, fingerprint, presets."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.conftest import REPOSITORY
from tests.isa.strategies import configs
from tilewright import sources
from tilewright.config import COSMETIC, KIB, PARAMETERS, PRESETS, Config, ConfigError, load_config
from tilewright.config_page import PAGE, blocks
from tilewright.hw.timing.whole import whole_report
from tilewright.isa.spec import Memory, memory_depth
from tilewright.pages import filled
from tilewright.parameters import Parameter

#: changes only on purpose: programs and recorded cycles of other fingerprints are refused
PYNQ_Z2_FINGERPRINT, OF_ONE_PORT = "5f776870ab3a09e1", "a8212c6a51fba39c"
NUMBERS = {name: (p.low, p.high, p.power_of_two) for name, p in PARAMETERS.items() if p.kind is int}


def test_numbers_of_numpy_are_numbers() -> None:
    given: dict[str, Any] = {"block_in": np.int64(8), "batch": np.uint8(1)}
    config = Config(**given)
    assert config == Config(block_in=8)
    assert hash(config) == hash(Config(block_in=8))
    assert type(config.block_in) is int
    for wrong in (np.int32(5), np.float64(8), np.bool_(True)):
        given["block_in"] = wrong
        with pytest.raises(ConfigError, match="^block_in = .*: must be a power of two"):
            Config(**given)


def test_every_parameter_is_declared() -> None:
    assert list(PARAMETERS) == [f.name for f in dataclasses.fields(Config)]
    assert {name for name, p in PARAMETERS.items() if p.kind is not int} == {
        "name",
        "board",
        "dsp_packing",
        "float32_scaling",
    }
    assert all(p.doc and (p.unit or name == "axi_version") for name, p in PARAMETERS.items() if p.kind is int)
    assert COSMETIC == ("name", "board", "axi_version", "cores", "dram_bandwidth", "clock_mhz")


def test_what_is_kept_by_source_is_kept_by_the_declaration_of_the_config() -> None:
    declared = {f"{kind.__module__.removeprefix('tilewright.')}.py" for kind in (Config, Parameter)}
    assert declared == set(sources._CONFIG)


@pytest.mark.parametrize("name", NUMBERS)
def test_errors_name_parameter_value_and_range(name: str) -> None:
    low, high, power = NUMBERS[name]
    kind = "a power of two" if power else "an integer"
    bad: list[object] = [low - 1, high + 1, 2 * high, -1 - low, 1.5, "8", True, None]
    if power and low < high:
        bad.append(low + max(1, low // 2) if low > 1 else 3)
    for value in bad:
        with pytest.raises(ConfigError) as caught:
            Config().replace(**{name: value})
        shown = repr(value)
        assert str(caught.value) == f"{name} = {shown}: must be {kind} from {low} to {high}"


@pytest.mark.parametrize("name", ["name", "board"])
def test_names_must_be_text(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} = 3: must be text$"):
        Config().replace(**{name: 3})


def test_dsp_packing_must_be_a_truth_value() -> None:
    with pytest.raises(ConfigError, match=r"^dsp_packing = 1: must be true or false$"):
        Config().replace(dsp_packing=1)


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"axi_bits": 256}, "axi_bits = 256: must be at most 128, the bits of an act unit"),
        (
            {"block_in": 4, "block_out": 4, "weight_bits": 2, "axi_bits": 64, "batch": 2},
            "weight_bits = 2: a weight block",
        ),
        ({"axi_version": 4, "axi_bits": 128, "burst_beats": 256, "fetch_beats": 512}, None),
        (
            {"burst_beats": 32},
            "burst_beats = 32: AXI3 bursts have at most 16 beats; lower it, or set axi_version = 4",
        ),
        (
            {"axi_version": 4, "axi_bits": 256, "batch": 2, "burst_beats": 256, "fetch_beats": 512},
            "burst_beats = 256: .* at most 128 here",
        ),
        (
            {"axi_ports": 2, "block_in": 8},
            r"axi_bits = 64 with axi_ports = 2: must be at most 32, the bits of an act unit \(.*\) by port; lower",
        ),
        (
            {"axi_ports": 2, "axi_bits": 512, "batch": 16},
            "axi_bits = 512 with axi_ports = 2: a beat of both has 1024 bits, at most 512 are allowed; lower axi_bits",
        ),
        ({"axi_ports": 2, "outstanding": 16}, "outstanding = 16 with axi_ports = 2: .* may be at most 128, the beats"),
        ({"axi_ports": 2, "dram_bandwidth": 31}, "dram_bandwidth = 31: must be at least 32, what one core"),
        ({"dram_bandwidth": 15}, "dram_bandwidth = 15: must be at least 16, what one core's port reads and writes"),
        ({"fetch_beats": 16}, "fetch_beats = 16: must be at least 2 x burst_beats = 32"),
        ({"act_bytes": KIB, "act_banks": 32, "block_out": 64}, "act_banks = 32: .* at most 16 here"),
        ({"acc_bytes": KIB, "acc_banks": 16, "block_out": 64}, "acc_banks = 16: .* at most 4 here"),
        ({"wgt_bytes": KIB, "block_in": 32, "block_out": 32}, r"wgt_bytes = 1024: .* weight blocks \(2048\)"),
    ],
)
def test_relations_between_parameters(changes: dict[str, int], message: str | None) -> None:
    if message is None:
        assert Config().replace(**changes).burst_beats == changes["burst_beats"]
        return
    with pytest.raises(ConfigError, match=f"^{message}"):
        Config().replace(**changes)


def test_unknown_parameters_are_named() -> None:
    for make in (lambda: Config().replace(turbo=1), lambda: Config.from_dict({"turbo": 1})):
        with pytest.raises(ConfigError, match=r"^turbo: no such parameter; the parameters are name, board, batch"):
            make()


@given(configs())
@settings(max_examples=60, deadline=None)
def test_toml_round_trip_and_derived_shapes(config: Config) -> None:
    again = Config.from_toml(config.to_toml())
    assert again == config
    assert again.fingerprint == config.fingerprint
    assert config.differences(again) == []
    assert config.act_units * config.act_unit_bytes == config.act_bytes
    assert config.acc_units * config.acc_unit_bytes == config.acc_bytes
    assert config.act_bank_units * config.act_banks == config.act_units
    assert min(config.in_units, config.out_units) == 1
    for memory in Memory:
        assert memory_depth(config, memory) >= 2
        assert math.log2(memory_depth(config, memory)).is_integer()


def test_toml_errors_name_the_file() -> None:
    with pytest.raises(ConfigError, match=r"^mine\.toml: not valid TOML: "):
        Config.from_toml("block_in =", "mine.toml")
    with pytest.raises(ConfigError, match=r"^mine\.toml: block_in = 5: must be a power of two from 4 to 64$"):
        Config.from_toml("block_in = 5", "mine.toml")


def test_several_cores_are_refused_where_there_is_one() -> None:
    with pytest.raises(ConfigError, match=r"^cores = 2: a synthesis report has one core; set cores = 1$"):
        whole_report(Config().replace(cores=2))


def test_fingerprint_is_pinned() -> None:
    assert PRESETS["pynq-z2"].fingerprint == PYNQ_Z2_FINGERPRINT
    assert PRESETS["pynq-z2"].replace(axi_ports=1).fingerprint == OF_ONE_PORT


def test_fingerprint_covers_every_parameter_that_programs_depend_on() -> None:
    base = Config()
    seen = {base.fingerprint}
    for name, (low, high, power) in NUMBERS.items():
        if name in COSMETIC:
            continue
        value = getattr(base, name)
        for other in (value * 2, value // 2) if power else (value + 1, value - 1):
            try:
                changed = base.replace(**{name: other})
            except ConfigError:
                assert not low <= other <= high or name in ("axi_bits", "fetch_beats", "burst_beats")
                continue
            assert changed.fingerprint not in seen
            assert base.differences(changed) == [f"{name}: {value} != {other}"]
            seen.add(changed.fingerprint)
            break
        else:
            pytest.fail(f"no other value of {name} was tried")
    for flag in ("dsp_packing", "float32_scaling"):
        assert base.replace(**{flag: False}).fingerprint not in seen
    same = base.replace(name="other", board="kv260", axi_version=4, cores=4, dram_bandwidth=64, clock_mhz=31)
    assert same.fingerprint == base.fingerprint
    assert base.differences(same) == []


def test_presets_are_the_named_ones() -> None:
    assert list(PRESETS) == ["pynq-z2", "pynq-z1", "ultra96", "zcu104", "kv260", "tiny", "vta-64", "vta-256"]
    for name, preset in PRESETS.items():
        assert preset.name == name
        assert Config.from_toml(preset.to_toml()) == preset
    default = PRESETS["pynq-z2"]
    assert default == Config(name="pynq-z2", axi_ports=2, clock_mhz=97)
    assert (default.batch, default.block_in, default.block_out, default.weight_bits) == (1, 16, 16, 8)
    assert (default.act_bytes, default.wgt_bytes, default.acc_bytes) == (64 * KIB, 256 * KIB, 128 * KIB)
    assert (default.axi_bits, default.clock_mhz, default.dram_latency) == (64, 97, 32)


def test_configs_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().batch = 2  # type: ignore[misc]


def test_a_file_says_what_differs_from_a_preset(tmp_path: Path) -> None:
    path, tiny = tmp_path / "mine.toml", PRESETS["tiny"]
    for text, base, name in (
        ("weight_bits = 4", "pynq-z2", "mine"),
        ('base = "tiny"\nweight_bits = 4', "tiny", "mine"),
        ('base = "tiny"\nname = "yours"\nweight_bits = 4', "tiny", "yours"),
        (tiny.replace(name="tiny", weight_bits=4).to_toml(), "tiny", "mine"),
    ):
        path.write_text(text)
        assert load_config(path) == PRESETS[base].replace(name=name, weight_bits=4)
    path.write_text(tiny.to_toml())
    assert load_config(path) == tiny
    (tmp_path / "kv260.toml").write_text("weight_bits = 4")
    assert load_config(tmp_path / "kv260.toml").name == "custom"
    path.write_text('base = "tinny"')
    with pytest.raises(ConfigError, match=r"mine\.toml: 'tinny': no such preset; did you mean tiny\? The presets are"):
        load_config(path)


def test_a_changed_copy_does_not_carry_the_name_of_a_preset() -> None:
    tiny = PRESETS["tiny"]
    assert tiny.replace(weight_bits=4).name == "custom"
    assert tiny.replace(clock_mhz=tiny.clock_mhz).name == "tiny"
    assert tiny.replace(name="mine").replace(weight_bits=4).name == "mine"
    assert Config().name == "custom"


def test_load_config(tmp_path: Path) -> None:
    assert load_config("tiny") is PRESETS["tiny"]
    assert load_config(Config()) == Config()
    path = tmp_path / "mine.toml"
    path.write_text('name = "theirs"\nact_bytes = 131072\n')
    assert load_config(path) == PRESETS["pynq-z2"].replace(name="theirs", act_bytes=131072)
    with pytest.raises(ConfigError, match=r"^pynqz2: no such preset .*; did you mean pynq-z2\? The presets are"):
        load_config("pynqz2")
    with pytest.raises(ConfigError, match=r"^nope: no such preset or \.toml file; the presets are pynq-z2, "):
        load_config("nope")
    with pytest.raises(ConfigError, match=r"gone\.toml: cannot be read: "):
        load_config(tmp_path / "gone.toml")
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"mine\.toml: cannot be read: "):
        load_config(str(path))


def test_the_page_of_parameters_is_current() -> None:
    committed = (REPOSITORY / "docs" / PAGE).read_text()
    assert filled(PAGE, blocks()) == committed, "run: python -m tilewright.config_page"
    assert all(f"| `{name}`" in committed and parameter.doc in committed for name, parameter in PARAMETERS.items())
